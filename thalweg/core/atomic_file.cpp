#include "thalweg/core/atomic_file.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <utility>

#include "thalweg/core/check.h"

namespace thalweg {
namespace {

// A folder could not be replaced, and a device should not be.
std::string temporary_for(const char* op, const std::string& path) {
  static std::atomic<unsigned> made{0};
  std::error_code unknown;
  const auto there = std::filesystem::status(path, unknown);
  TW_CHECK(unavailable, !std::filesystem::exists(there) || std::filesystem::is_regular_file(there), op,
           "give the path of a file", "expected a file to write, got {}, which is something else", path);
  return fmt::format("{}.tmp-{}-{}", path, ::getpid(), made++);
}

}  // namespace

AtomicFile::AtomicFile(const char* op, std::string path)
    : op_(op), path_(std::move(path)), temporary_(op, temporary_for(op, path_)) {}

AtomicFile::~AtomicFile() {
  if (!renamed_) ::unlink(temporary_.path().c_str());
}

void AtomicFile::commit() {
  temporary_.finish();
  rename_file(op_, temporary_.path(), path_);
  renamed_ = true;
  sync_folder(op_, folder_of(path_));
}

}  // namespace thalweg
