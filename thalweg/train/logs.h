#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thalweg/core/export.h"

namespace thalweg::train {

// Numbers by name in the order in which they were first set: "loss", the metrics, then those of the validation with
// "val_" before them.
class TW_API Logs {
 public:
  void set(const std::string& name, double value);
  std::optional<double> find(const std::string& name) const;
  double operator[](const std::string& name) const;  // not_found lists the names
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }
  bool empty() const { return list_.empty(); }

 private:
  std::vector<std::pair<std::string, double>> list_;
};

// What a training run has been.
struct TW_API History {
  std::vector<Logs> epochs;
  std::int64_t steps = 0;       // batches trained on, those of a run that this one resumed too
  bool interrupted = false;     // by Ctrl-C or another signal
  int signal = 0;               // that interrupted it, SIGINT or SIGTERM say
  std::string stopped_because;  // empty: all epochs were run
  std::vector<double> operator[](const std::string& name) const;  // one value for each epoch
  double last(const std::string& name) const;
};

}  // namespace thalweg::train
