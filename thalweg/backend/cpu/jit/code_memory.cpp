#include "thalweg/backend/cpu/jit/code_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace thalweg::jit {

std::unique_ptr<CodeMemory> CodeMemory::make(const void* code, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t whole = (bytes + page - 1) / page * page;
  void* data = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  std::unique_ptr<CodeMemory> memory(new CodeMemory(data, whole));
  std::memcpy(data, code, bytes);
  if (mprotect(data, whole, PROT_READ | PROT_EXEC) != 0) return nullptr;
  return memory;
}

CodeMemory::~CodeMemory() { munmap(data_, bytes_); }

}  // namespace thalweg::jit
