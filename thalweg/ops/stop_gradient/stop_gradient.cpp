#include "thalweg/ops/stop_gradient/stop_gradient.h"

#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

struct StopGradient {};

Specs infer(const StopGradient&, Inputs in) { return {in[0]}; }

std::int64_t alias(const StopGradient&, Inputs) { return 0; }

void run(const StopGradient&, Arrays, Arrays) {}

[[maybe_unused]] bool differentiable(const StopGradient&) { return false; }

BatchStates batch_rule(const StopGradient&, Inputs in, BatchStates& states, std::int64_t examples) {
  return same_axes_rule(in, states, examples, {});
}

}  // namespace

TW_DEFINE_OP(stop_gradient, StopGradient)

Tensor stop_gradient(const Tensor& x) { return apply(stop_gradient_info(), StopGradient{}, {x})[0]; }

}  // namespace thalweg
