#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace thalweg {

using ByteSink = std::function<void(const void* bytes, std::size_t count)>;

// Calls to the system that files which must survive a crash are made of. Each is checked; errors are `unavailable`, and
// `op` names them.

// A new file, written from its beginning. It must not exist.
class FileWriter {
 public:
  FileWriter(const char* op, std::string path);
  ~FileWriter();  // without finish(): the file is removed
  FileWriter(const FileWriter&) = delete;

  void write(const void* bytes, std::size_t count);
  void finish();  // durable, and closed
  const std::string& path() const { return path_; }

 private:
  const char* op_;
  std::string path_;
  int descriptor_ = -1;
};

std::string folder_of(const std::string& path);
void make_folder(const char* op, const std::string& path);
// Makes the names in a folder durable.
void sync_folder(const char* op, const std::string& path);
void rename_file(const char* op, const std::string& from, const std::string& to);

// For tests: asked before every such call, by its name; what it throws is what the call throws. It may also end the
// process, as a crash would.
void set_file_fault(std::function<void(const char* call)> fault);

}  // namespace thalweg
