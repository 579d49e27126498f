#include "thalweg/core/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "thalweg/core/check.h"

namespace thalweg {
namespace {

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string temporary_for(const std::string& path) {
  static std::atomic<unsigned> made{0};
  return fmt::format("{}.tmp-{}-{}", path, ::getpid(), made++);
}

}  // namespace

AtomicFile::AtomicFile(const char* op, std::string path)
    : op_(op), path_(std::move(path)), temporary_(temporary_for(path_)) {
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  TW_CHECK(unavailable, descriptor_ >= 0, op_, "check that the folder exists and can be written to",
           "cannot make {}: {}", temporary_, std::strerror(errno));
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::check(bool ok, const char* action) const {
  TW_CHECK(unavailable, ok, op_, "check the free space and the permissions; the file before it is still there",
           "cannot {} {}: {}", action, path_, std::strerror(errno));
}

void AtomicFile::write(const void* bytes, std::size_t count) {
  for (const auto* from = static_cast<const char*>(bytes); count > 0;) {
    const auto written = ::write(descriptor_, from, count);
    if (written < 0 && errno == EINTR) continue;
    check(written > 0, "write");
    from += written, count -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  check(::fsync(descriptor_) == 0, "write");
  const int descriptor = std::exchange(descriptor_, -1);
  check(::close(descriptor) == 0, "write");
  check(std::rename(temporary_.c_str(), path_.c_str()) == 0, "rename to");
  temporary_.clear();
  const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool durable = folder >= 0 && ::fsync(folder) == 0;
  if (folder >= 0) ::close(folder);
  check(durable, "make the new name durable of");
}

}  // namespace thalweg
