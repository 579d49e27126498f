#pragma once

// Checkpoints that a crash at any moment leaves whole: the one before, or the new one.
//   tw::checkpoint::Manager m("run/checkpoints", {.keep = 3});
//   m.save(step, {{"model", &model}, {"optimizer", &adam}});
//   std::optional<std::int64_t> step = m.restore_latest({{"model", &model}, {"optimizer", &adam}});
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "thalweg/checkpoint/item.h"

namespace thalweg::checkpoint {

struct ManagerOptions {
  int keep = 3;  // those of the largest steps, and what was saved last; others are removed
};

// A folder of checkpoints step-N. Each is written beside its name, made durable, and renamed; tensors and files are
// under checksums (CRC-32C). Where the random numbers stand is part of every checkpoint.
class TW_API Manager {
 public:
  // Makes the folder, and removes what killed processes left unfinished in it.
  explicit Manager(std::string folder, ManagerOptions options = {});

  // Returns when the checkpoint is durable. A checkpoint of the same step is replaced.
  void save(std::int64_t step, const std::vector<NamedItem>& items);

  // Loads the newest checkpoint that is whole, and returns its step; none: there is no checkpoint. A damaged one is
  // skipped with a warning that says what is wrong with it; data_loss if all are. Things the checkpoint has and `items`
  // does not name are left out; the other way round is an error. Nothing is changed when it throws.
  std::optional<std::int64_t> restore_latest(const std::vector<NamedItem>& items);
  void restore(std::int64_t step, const std::vector<NamedItem>& items);

  std::vector<std::int64_t> steps() const;           // ascending; not verified
  std::int64_t damaged() const { return damaged_; }  // checkpoints that restore_latest had to skip
  const std::string& folder() const { return folder_; }

 private:
  std::string path_of(std::int64_t step) const;
  void warn_of_later(std::int64_t step);
  void prune(std::int64_t saved) const;

  const std::string folder_;
  const ManagerOptions options_;
  std::int64_t damaged_ = 0;
  bool warned_ = false;  // of later steps
};

}  // namespace thalweg::checkpoint
