#pragma once

#include <cstddef>
#include <string>

namespace thalweg {

// A file that appears under its name whole or not at all: written beside it, made durable, then renamed. What stood
// there before stays until then, and stays for good if anything fails.
class AtomicFile {
 public:
  AtomicFile(const char* op, std::string path);  // `op` names the errors
  ~AtomicFile();                                 // without commit: nothing has happened
  AtomicFile(const AtomicFile&) = delete;

  void write(const void* bytes, std::size_t count);
  void commit();

 private:
  void check(bool ok, const char* action) const;
  const char* op_;
  std::string path_, temporary_;
  int descriptor_ = -1;
};

}  // namespace thalweg
