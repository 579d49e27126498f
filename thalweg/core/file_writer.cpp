#include "thalweg/core/file_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "thalweg/core/check.h"

namespace thalweg {
namespace {

std::function<void(const char*)>& file_fault() {
  static std::function<void(const char*)> fault;
  return fault;
}

void announce(const char* call) {
  if (file_fault()) file_fault()(call);
}

void check(bool ok, const char* op, const char* action, const std::string& path) {
  TW_CHECK(unavailable, ok, op, "check the free space and the permissions; what was there before still is",
           "cannot {} {}: {}", action, path, std::strerror(errno));
}

}  // namespace

void set_file_fault(std::function<void(const char*)> fault) { file_fault() = std::move(fault); }

FileWriter::FileWriter(const char* op, std::string path) : op_(op), path_(std::move(path)) {
  announce("open");
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  TW_CHECK(unavailable, descriptor_ >= 0, op_, "check that the folder exists and can be written to",
           "cannot make {}: {}", path_, std::strerror(errno));
}

FileWriter::~FileWriter() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(path_.c_str());
}

void FileWriter::write(const void* bytes, std::size_t count) {
  announce("write");
  for (const auto* from = static_cast<const char*>(bytes); count > 0;) {
    const auto written = ::write(descriptor_, from, count);
    if (written < 0 && errno == EINTR) continue;
    check(written > 0, op_, "write", path_);
    from += written, count -= static_cast<std::size_t>(written);
  }
}

void FileWriter::finish() {
  announce("fsync");
  check(::fsync(descriptor_) == 0, op_, "write", path_);
  announce("close");
  check(::close(std::exchange(descriptor_, -1)) == 0, op_, "write", path_);
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

void make_folder(const char* op, const std::string& path) {
  announce("mkdir");
  check(::mkdir(path.c_str(), 0777) == 0, op, "make the folder", path);
}

void sync_folder(const char* op, const std::string& path) {
  announce("fsync folder");
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool durable = folder >= 0 && ::fsync(folder) == 0;
  if (folder >= 0) ::close(folder);
  check(durable, op, "make durable the names in", path);
}

void rename_file(const char* op, const std::string& from, const std::string& to) {
  announce("rename");
  check(std::rename(from.c_str(), to.c_str()) == 0, op, "rename to", to);
}

}  // namespace thalweg
