#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "thalweg/core/device.h"
#include "thalweg/core/export.h"
#include "thalweg/core/ref.h"

namespace thalweg {

namespace memory {

// Who asked for bytes: an op, "variable", "tensor" (made by the user). A small number, so that counting is one atomic.
using Owner = std::uint16_t;
Owner owner(const char* name);  // the same number for the same text

std::int64_t in_use();
// The most that this thread took, less what it gave back, since it set its mark; plans measure their peak with it.
std::int64_t high_mark();
void set_mark();

inline constexpr Owner by_user = 0, by_variable = 1;

// Rounded up to the alignment; what an allocation counts for.
inline constexpr std::int64_t alignment = 64;
constexpr std::int64_t rounded(std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace memory

// Bytes of one device, 64-byte aligned, counted for their owner until the last reference goes.
class TW_API Buffer final : public Counted<Buffer> {
 public:
  static Ref<Buffer> allocate(std::int64_t bytes, memory::Owner owner);
  // Memory of the host program, kept alive by `keep`; not counted.
  static Ref<Buffer> wrap(void* data, std::int64_t bytes, std::shared_ptr<const void> keep);
  // No bytes at all: what the symbolic tensors of a trace share. `name` is the function being traced.
  static Ref<Buffer> symbolic(std::shared_ptr<const std::string> name);
  ~Buffer();

  bool is_symbolic() const { return data_ == nullptr && bytes_ < 0; }
  const std::string& function_name() const { return *static_cast<const std::string*>(keep_.get()); }
  void* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  bool writable() const { return !keep_; }
  void set_owner(memory::Owner owner);  // moves the count, e.g. from an op to a variable; by any thread

  static void* operator new(std::size_t size);
  static void operator delete(void* object, std::size_t size);

 private:
  Buffer(void* data, std::int64_t bytes, memory::Owner owner, std::shared_ptr<const void> keep)
      : data_(data), bytes_(bytes), owner_(owner), keep_(std::move(keep)) {}
  void* data_;
  std::int64_t bytes_;
  std::atomic<memory::Owner> owner_;
  std::shared_ptr<const void> keep_;
};

// What a device's memory holds now.
struct MemoryInfo {
  std::int64_t in_use = 0;       // bytes of live tensors, variables and workspaces
  std::int64_t peak = 0;         // largest in_use since the start or reset_peak_memory
  std::int64_t limit = 0;        // 0: none
  std::int64_t cached = 0;       // freed bytes kept for the next allocation
  std::int64_t allocations = 0;  // buffers made so far
  struct Share {
    std::string name;
    std::int64_t bytes;
  };
  std::vector<Share> owners;  // largest first: ops by name, "variable", "tensor"
};

namespace config {

TW_API void memory_limit(Device device, std::int64_t bytes);  // 0: no limit
TW_API MemoryInfo memory_info(Device device = {});
TW_API void reset_peak_memory(Device device = {});
TW_API void trim(Device device = {});  // gives cached bytes back to the system

}  // namespace config
}  // namespace thalweg
