#pragma once

#include <functional>
#include <map>

#include "tests/support/calls.h"
#include "thalweg/core/gradient.h"

namespace thalweg::testing {

// The states of all tensors of a step, from those of its inputs on, as the batch rules of its ops say.
class BatchFlow {
 public:
  explicit BatchFlow(std::int64_t examples) : examples_(examples) {}
  void set_rows(const Tensor& tensor) { states_[tensor.id()] = BatchState::of_rows(0, 1); }
  void follow(const std::vector<RecordedCall>& calls);
  BatchState state(const Tensor& tensor) const;
  const std::vector<std::string>& faults() const { return faults_; }  // why the step cannot be cut; none: it can

 private:
  BatchStates step(const RecordedCall& call, BatchStates& in);
  std::int64_t examples_;
  std::map<std::uint64_t, BatchState> states_;
  std::vector<std::string> faults_;
};

// What a training step computes.
struct StepResult {
  Tensor loss;
  std::vector<Gradient> gradients;
};

// The examples of `batch` reach every gradient of the step without meeting: the loss is a mean over them, gradients are
// sums (row-sparse ones: rows).
void expect_split(std::int64_t examples, const std::vector<Tensor>& batch, const std::function<StepResult()>& step);
// The same of a step with these weights.
void expect_split(std::int64_t examples, const std::vector<Tensor>& batch, const std::vector<Tensor>& weights,
                  const std::function<Tensor()>& loss);

}  // namespace thalweg::testing
