#pragma once

#include <cstddef>
#include <string>

#include "thalweg/core/file_writer.h"

namespace thalweg {

// A file that appears under its name whole or not at all: written beside it, made durable, then renamed. What stood
// there before stays until then, and stays for good if anything fails.
class AtomicFile {
 public:
  AtomicFile(const char* op, std::string path);  // `op` names the errors
  ~AtomicFile();                                 // without commit: nothing has happened

  void write(const void* bytes, std::size_t count) { temporary_.write(bytes, count); }
  void commit();

 private:
  const char* op_;
  std::string path_;
  FileWriter temporary_;
  bool renamed_ = false;
};

}  // namespace thalweg
