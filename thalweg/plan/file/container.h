#pragma once

// The outside of a step file, where every byte is under a checksum (CRC-32C):
//   0   8 bytes   89 "TWS" 0d 0a 1a 0a      damaged by any transfer as text
//   8   u32       version of the format
//   12  u32       checksum of the description
//   16  u64       bytes of the description
//   24  u64       bytes of the data
//   32  u32       checksum of the 32 bytes before
//   36  the description: everything but the values of tensors; it holds their checksums
//       the data: those values, one tensor right after the other, up to the end of the file
#include <memory>
#include <span>
#include <string>

#include "thalweg/core/file_writer.h"
#include "thalweg/core/tensor.h"

namespace thalweg {

inline constexpr std::uint32_t step_file_version = 8;

// Where bytes come from: a file, or memory.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::uint64_t size() const = 0;
  virtual void read(std::uint64_t offset, void* to, std::size_t count) const = 0;
};

std::unique_ptr<ByteSource> file_source(const std::string& path);
std::unique_ptr<ByteSource> memory_source(std::string_view bytes);  // which live as long as the source

void write_container(const ByteSink& sink, const std::string& description, std::span<const Tensor> data);

class Container {
 public:
  explicit Container(const ByteSource& source);

  const std::string& description() const { return description_; }
  // The next tensor of the data, if it has this checksum.
  Tensor read(const Spec& spec, std::uint32_t checksum);
  void expect_end() const;

 private:
  const ByteSource& source_;
  std::string description_;
  std::uint64_t offset_ = 0;
};

}  // namespace thalweg
