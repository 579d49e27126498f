#include "thalweg/cli/pictures.h"

#include <unistd.h>

#include <iostream>

#include "thalweg/cli/run_folder.h"

namespace thalweg::cli {

namespace fs = std::filesystem;

Pictures::Pictures(const TuneOptions& options) : model_(options.train.model), file_(options.svg), folder_(options.out) {
  fs::path place = folder_.empty() ? "runs" : folder_;
  std::error_code fault;
  if (file_.empty())
    fs::create_directories(place, fault);
  else
    folder_ = file_.parent_path(), place = folder_.empty() ? "." : folder_;
  if (fs::is_directory(place, fault) && ::access(place.c_str(), W_OK) == 0) return;
  throw Error(ErrorCode::unavailable, "tune", "cannot write to " + place.string(),
              std::string("choose another ") + (file_.empty() ? "--out" : "--svg"));
}

std::string Pictures::path_of(const std::string& name, bool beside) {
  if (file_.empty() && folder_.empty()) folder_ = new_folder("tune-" + model_);
  if (file_.empty()) return (folder_ / (name + ".svg")).string();
  if (!beside) return file_.string();
  return (folder_ / (file_.stem().string() + '-' + name + file_.extension().string())).string();
}

void Pictures::print() const {
  for (const auto& path : paths_) std::cout << path << '\n';
}

}  // namespace thalweg::cli
