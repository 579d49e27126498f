#pragma once

// The folder of a run: who may write to it, and what it was begun with.
#include <string>
#include <utility>

#include "thalweg/cli/run.h"

namespace thalweg::cli {

// A folder belongs to one process at a time; the system gives it back when that ends, however it does.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);
  FolderLock(FolderLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  ~FolderLock();

 private:
  int file_;
};

// A folder that nobody else has: runs may begin in the same second.
std::string new_folder(const std::string& model);

// What stood there before stays until the new file is whole.
void replace_file(const std::string& path, const std::string& text);

// Takes the folder for the run, and writes down what that is. A run can only be gone on with as what it was; how long
// it is may change.
FolderLock prepare(const std::string& folder, const Run& run, bool resume);

// Notes which file of a single example this error names: it may be mended before the run goes on. Gives back what the
// user can do.
std::string note_damage(const std::string& folder, const Datasets& datasets, const std::string& error);

}  // namespace thalweg::cli
