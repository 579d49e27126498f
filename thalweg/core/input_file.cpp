#include "thalweg/core/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "thalweg/core/check.h"

namespace thalweg {
namespace {

std::shared_ptr<const int> open_file(const char* op, const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  TW_CHECK(not_found, descriptor >= 0, op, "check the path and its permissions", "cannot open {}: {}", path,
           std::strerror(errno));
  return {new int(descriptor), [](const int* held) {
            ::close(*held);
            delete held;
          }};
}

}  // namespace

InputFile::InputFile(const char* op, const std::string& path) : op_(op), path_(path), descriptor_(open_file(op, path)) {
  struct stat status = {};
  TW_CHECK(not_found, ::fstat(*descriptor_, &status) == 0 && S_ISREG(status.st_mode), op_, "give the path of a file",
           "{} is not a regular file", path);
  size_ = status.st_size;
}

void InputFile::read(std::int64_t offset, void* bytes, std::int64_t count) const {
  for (auto* to = static_cast<char*>(bytes); count > 0;) {
    const auto got = ::pread(*descriptor_, to, static_cast<std::size_t>(count), offset);
    if (got < 0 && errno == EINTR) continue;
    TW_CHECK(data_loss, got > 0, op_, "do not change the file while it is open", "cannot read {} at byte {}: {}", path_,
             offset, got < 0 ? std::strerror(errno) : "the file ends there");
    to += got, offset += got, count -= got;
  }
}

}  // namespace thalweg
