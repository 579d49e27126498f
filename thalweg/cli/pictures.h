#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "thalweg/cli/commands.h"

namespace thalweg::cli {

// Where the pictures of a search go: into a folder, a new one with the first of them, or into the file that was asked
// for and one beside it.
class Pictures {
 public:
  explicit Pictures(const TuneOptions& options);  // throws where they cannot be written

  template <class Search>
  void add(const Search& found, const std::string& name, bool beside = false) {
    paths_.push_back(path_of(name, beside));
    found.write_svg(paths_.back());
  }
  const std::vector<std::string>& paths() const { return paths_; }
  void print() const;  // a line for each

 private:
  std::string path_of(const std::string& name, bool beside);

  const std::string model_;
  std::filesystem::path file_, folder_;
  std::vector<std::string> paths_;
};

}  // namespace thalweg::cli
