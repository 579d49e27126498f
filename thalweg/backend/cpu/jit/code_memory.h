#pragma once

// Memory for code: written first, then made executable, never both at once.
#include <cstddef>
#include <memory>

namespace thalweg::jit {

class CodeMemory {
 public:
  // A copy of these bytes, executable; null if the system gives none.
  static std::unique_ptr<CodeMemory> make(const void* code, std::size_t bytes);
  ~CodeMemory();
  CodeMemory(const CodeMemory&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }  // whole pages

 private:
  CodeMemory(void* data, std::size_t bytes) : data_(data), bytes_(bytes) {}

  void* data_;
  std::size_t bytes_;
};

}  // namespace thalweg::jit
