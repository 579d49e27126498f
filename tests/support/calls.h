#pragma once

#include <memory>

#include "tests/support/sample.h"
#include "thalweg/core/op.h"

namespace thalweg::testing {

// One op that ran, with its attributes.
struct RecordedCall {
  const OpInfo* info;
  std::shared_ptr<const void> op;
  std::vector<Tensor> inputs, outputs;
};

// The ops that the sample runs on these inputs, in order.
std::vector<RecordedCall> record_calls(const Sample& sample, const std::vector<Tensor>& inputs);

}  // namespace thalweg::testing
