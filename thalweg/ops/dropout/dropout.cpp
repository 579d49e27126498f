#include "thalweg/ops/dropout/dropout.h"

#include "thalweg/core/check.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/dropout/keyed.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

struct Dropout : KeyedDropout {};
TW_FIELDS(Dropout, rate, key.seed, key.ordinal, first)

Specs infer(const Dropout&, Inputs in) { return {in[0]}; }

[[maybe_unused]] bool in_place(const Dropout&) { return true; }

void run(const Dropout& op, Arrays in, Arrays out) {
  const auto drawn = random::drawn(op.key, in.size() > 1 ? &in[1] : nullptr, in[0].size());
  const std::int64_t first = op.first + drawn.first;
  const std::uint64_t threshold = op.threshold();
  with_type(in[0].dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (!std::is_integral_v<T>) {
      using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;
      const auto* x = in[0].as<const T>();
      auto* y = out[0].as<T>();
      const auto factor = static_cast<Compute>(op.scale());
      parallel_ranges(in[0].size(), 16 * 1024, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end;) {
          const auto element = static_cast<std::uint64_t>(first + i);
          const random::Words words = random::words(drawn.key, element / 4);
          for (std::size_t k = element % 4; k < 4 && i < end; ++k, ++i)
            y[i] = words[k] >= threshold ? T(static_cast<Compute>(x[i]) * factor) : T(Compute(0));
        }
      });
    }
  });
}

Keeps keeps(const Dropout&, Needs) { return {.inputs = {1}, .outputs = {}}; }  // the state of a traced one

// Linear, and its own transpose.
Gradients gradient(const Dropout& op, const Kept& kept, const Tensors& dy, Needs) {
  Gradients result(static_cast<std::size_t>(kept.inputs()));
  result[0] = dropout(dy[0], op, kept.inputs() > 1 ? kept.input(1) : Tensor());
  return result;
}

// A chunk must be one stretch of the elements: its mask begins at `first`.
BatchStates batch_rule(const Dropout&, Inputs in, BatchStates& states, std::int64_t examples) {
  Ints names;  // an axis with more than one entry before it is mixed
  for (int i = 0; i < in[0].rank(); ++i) names.push_back(in[0].shape.product(0, i) == 1 ? i : mixed);
  AxisNames inputs{names};
  if (in.size() > 1) inputs.push_back({mixed});
  return named_axes_rule(in, states, examples, inputs, {names});
}

}  // namespace

TW_DEFINE_OP(dropout, Dropout)

Tensor dropout(const Tensor& x, const KeyedDropout& keyed, const Tensor& state) {
  const Dropout op{keyed};
  Tensors inputs{x};
  if (state.defined()) inputs.push_back(state);
  return apply(dropout_info(), static_cast<const void*>(&op), {inputs.data(), inputs.size()})[0];
}

// Checks come before the key, so that a refused call takes no number from the others.
Tensor dropout(const Tensor& x, double rate, const DropoutOptions& options) {
  check_defined("dropout", x);
  TW_CHECK_USER(rate >= 0 && rate <= 1, "dropout", "the rate is the fraction dropped, for example 0.1",
                "expected a rate of 0 to 1, got {}", rate);
  TW_CHECK_USER(is_float(x.dtype()), "dropout", "cast it first: tw::cast(x, tw::f32)", "expected a float dtype, got {}",
                x.dtype());
  return dropout(x, {rate, random::next_key(options.seed)}, random::traced_state());
}

}  // namespace thalweg
