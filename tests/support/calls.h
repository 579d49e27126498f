#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "thalweg/core/op.h"

namespace thalweg::testing {

// One op that ran, with its attributes.
struct RecordedCall {
  const OpInfo* info;
  std::shared_ptr<const void> op;
  std::vector<Tensor> inputs, outputs;
};

// The ops that the program runs, in order; with a tape inside, those of the backward pass too.
std::vector<RecordedCall> record_calls(const std::function<void()>& program);

}  // namespace thalweg::testing
