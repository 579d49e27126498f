#pragma once

#include <string>
#include <utility>
#include <vector>

#include "thalweg/core/tensor.h"

namespace thalweg {

// While it lives, gradients of variables that tapes of this thread give out are noted, by the variables' names: a
// compiled step is compared with the eager one by them. Those of branches and loops are not: a traced body keeps its
// values to itself, and runs as often as its loop turns.
class GradientLog {
 public:
  GradientLog();
  ~GradientLog();
  GradientLog(const GradientLog&) = delete;

  static GradientLog* current();  // null: none, or this is a branch or a loop
  void add(const std::string& variable, const Tensor& gradient) { entries_.emplace_back(variable, gradient); }
  const std::vector<std::pair<std::string, Tensor>>& entries() const { return entries_; }

 private:
  GradientLog* outer_;
  const int bodies_;  // that were open when it was made
  std::vector<std::pair<std::string, Tensor>> entries_;
};

}  // namespace thalweg
