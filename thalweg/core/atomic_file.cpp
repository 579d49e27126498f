#include "thalweg/core/atomic_file.h"

#include <unistd.h>

#include <atomic>
#include <utility>

#include "thalweg/core/check.h"

namespace thalweg {
namespace {

std::string temporary_for(const std::string& path) {
  static std::atomic<unsigned> made{0};
  return fmt::format("{}.tmp-{}-{}", path, ::getpid(), made++);
}

}  // namespace

AtomicFile::AtomicFile(const char* op, std::string path)
    : op_(op), path_(std::move(path)), temporary_(op, temporary_for(path_)) {}

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
