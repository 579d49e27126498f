#include "tests/support/batch_flow.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "thalweg/autodiff/tape.h"

namespace thalweg::testing {

using Kind = BatchState::Kind;

BatchState BatchFlow::state(const Tensor& tensor) const {
  const auto found = states_.find(tensor.id());
  return found == states_.end() ? BatchState() : found->second;
}

void BatchFlow::follow(const std::vector<RecordedCall>& calls) {
  for (const auto& call : calls) {
    BatchStates in;
    for (const auto& input : call.inputs) in.push_back(state(input));
    BatchStates out = step(call, in);
    for (std::size_t i = 0; i < call.outputs.size(); ++i) states_[call.outputs[i].id()] = out[i];
  }
}

// Sums and means are known once all chunks are through: what is made of them must need no chunk.
BatchStates BatchFlow::step(const RecordedCall& call, BatchStates& in) {
  const auto any = [](const BatchStates& states, std::initializer_list<Kind> kinds) {
    return std::any_of(states.begin(), states.end(), [kinds](const BatchState& state) {
      return std::find(kinds.begin(), kinds.end(), state.kind) != kinds.end();
    });
  };
  const auto all = [&](Kind kind) { return BatchStates(call.outputs.size(), {.kind = kind}); };
  if (any(in, {Kind::blocked})) return all(Kind::blocked);
  const bool added = any(in, {Kind::sum, Kind::mean});
  if (!any(in, {Kind::rows})) return all(added ? Kind::sum : Kind::whole);
  std::vector<const Spec*> specs;
  for (const auto& input : call.inputs) specs.push_back(&input.spec());
  for (auto& state : in)
    if (!state.is_rows()) state = {};
  const auto rule = call.info->batch_rule;
  BatchStates out = rule ? rule(call.op.get(), Inputs(specs), in, examples_) : all(Kind::blocked);
  if (!any(out, {Kind::rows, Kind::sum, Kind::mean, Kind::blocked})) return all(Kind::sum);  // reads all rows at once
  if (added || any(out, {Kind::blocked}))
    faults_.push_back(std::string(call.info->name) + (added ? " of sums and rows" : ""));
  return added ? all(Kind::blocked) : out;
}

void expect_split(std::int64_t examples, const std::vector<Tensor>& batch, const std::function<StepResult()>& step) {
  StepResult result;
  const auto calls = record_calls([&] { result = step(); });
  BatchFlow flow(examples);
  for (const auto& tensor : batch) flow.set_rows(tensor);
  flow.follow(calls);
  for (const auto& fault : flow.faults()) ADD_FAILURE() << fault << " is blocked";
  EXPECT_EQ(flow.state(result.loss).kind, Kind::mean);
  for (std::size_t i = 0; i < result.gradients.size(); ++i) {
    const Gradient& gradient = result.gradients[i];
    ASSERT_TRUE(gradient.defined()) << "weight " << i;
    const BatchState state = flow.state(gradient.values());
    EXPECT_EQ(state.kind, gradient.is_sparse() ? Kind::rows : Kind::sum) << "weight " << i;
    EXPECT_TRUE(!gradient.is_sparse() || flow.state(gradient.indices()) == state) << "weight " << i;
  }
}

void expect_split(std::int64_t examples, const std::vector<Tensor>& batch, const std::vector<Tensor>& weights,
                  const std::function<Tensor()>& loss) {
  expect_split(examples, batch, [&]() -> StepResult {
    GradientTape tape;
    tape.watch(weights);
    const Tensor value = loss();
    return {value, tape.gradient(value, weights)};
  });
}

}  // namespace thalweg::testing
