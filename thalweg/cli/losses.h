#pragma once

// Losses and schedules by name.
#include <string>
#include <vector>

#include "thalweg/thalweg.h"

namespace thalweg::cli {

train::Loss loss_by_name(const std::string& name);
// The loss of labels that are classes by number, as rows with a one.
train::Loss of_one_hot(const train::Loss& loss);
const std::vector<std::string>& loss_names();
const std::vector<std::string>& schedule_names();

// The labels that a loss makes sense of, where they are numbers; all finite ones for most.
struct LabelRange {
  double low, high;
  bool holds(double label) const { return label >= low && label <= high; }
  std::string text() const;  // "a number from 0 to 1"
};
LabelRange label_range(const std::string& loss);

}  // namespace thalweg::cli
