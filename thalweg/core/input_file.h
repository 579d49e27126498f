#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace thalweg {

// A regular file, read at any place and by several threads at a time. Errors name the op and the file.
class InputFile {
 public:
  InputFile(const char* op, const std::string& path);

  std::int64_t size() const { return size_; }  // when it was opened
  const std::string& path() const { return path_; }
  void read(std::int64_t offset, void* bytes, std::int64_t count) const;  // data_loss: the file is shorter now

 private:
  const char* op_;
  std::string path_;
  std::shared_ptr<const int> descriptor_;
  std::int64_t size_ = 0;
};

}  // namespace thalweg
