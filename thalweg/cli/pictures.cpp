#include "thalweg/cli/pictures.h"

#include <unistd.h>

#include <iostream>

#include "thalweg/cli/run_folder.h"

namespace thalweg::cli {

namespace fs = std::filesystem;

Pictures::Pictures(const TuneOptions& options) : file_(options.svg), folder_(options.out) {
  std::error_code fault;
  if (!file_.empty()) {
    folder_ = file_.parent_path();
  } else if (folder_.empty()) {
    folder_ = new_folder("tune-" + options.train.model);
    made_ = true;
  } else {
    fs::create_directories(folder_, fault);
  }
  const fs::path folder = folder_.empty() ? "." : folder_;
  if (fs::is_directory(folder, fault) && ::access(folder.c_str(), W_OK) == 0) return;
  throw Error(ErrorCode::unavailable, "tune", "cannot write to " + folder.string(),
              std::string("choose another ") + (file_.empty() ? "--out" : "--svg"));
}

Pictures::~Pictures() {
  std::error_code fault;
  if (made_ && fs::is_empty(folder_, fault)) fs::remove(folder_, fault);
}

std::string Pictures::path_of(const std::string& name, bool beside) const {
  if (file_.empty()) return (folder_ / (name + ".svg")).string();
  if (!beside) return file_.string();
  return (folder_ / (file_.stem().string() + '-' + name + file_.extension().string())).string();
}

void Pictures::print() const {
  for (const auto& path : paths_) std::cout << path << '\n';
}

}  // namespace thalweg::cli
