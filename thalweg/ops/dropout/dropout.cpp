#include "thalweg/ops/dropout/dropout.h"

#include <cmath>

#include "thalweg/core/check.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/random/key.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

struct Dropout {
  double rate;
  random::Key key;
  std::int64_t first = 0;  // the number of the first element among those that the key is for
};
TW_FIELDS(Dropout, rate, key.seed, key.ordinal, first)

Specs infer(const Dropout&, Inputs in) { return {in[0]}; }

void run(const Dropout& op, Arrays in, Arrays out) {
  // An element stays when its word is at least rate * 2^32; rate 1 drops them all.
  const auto threshold = static_cast<std::uint64_t>(std::llround(op.rate * 0x1p32));
  const double scale = op.rate < 1 ? 1 / (1 - op.rate) : 0;
  with_type(in[0].dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (!std::is_integral_v<T>) {
      using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;
      const auto* x = in[0].as<const T>();
      auto* y = out[0].as<T>();
      const auto factor = static_cast<Compute>(scale);
      parallel_ranges(in[0].size(), 16 * 1024, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end;) {
          const auto element = static_cast<std::uint64_t>(op.first + i);
          const random::Words words = random::words(op.key, element / 4);
          for (std::size_t k = element % 4; k < 4 && i < end; ++k, ++i)
            y[i] = words[k] >= threshold ? T(static_cast<Compute>(x[i]) * factor) : T(Compute(0));
        }
      });
    }
  });
}

// Linear, and its own transpose.
Gradients gradient(const Dropout& op, const Kept&, const Tensors& dy, Needs) {
  return {apply(dropout_info(), op, {dy[0]})[0]};
}

// A chunk must be one stretch of the elements: its mask begins at `first`.
BatchStates batch_rule(const Dropout&, Inputs in, BatchStates& states, std::int64_t examples) {
  Ints scattered;  // axes with more than one entry before them
  for (int i = 0; i < in[0].rank(); ++i)
    if (in[0].shape.product(0, i) != 1) scattered.push_back(i);
  return same_axes_rule(in, states, examples, scattered);
}

}  // namespace

TW_DEFINE_OP(dropout, Dropout)

// Checks come before the key, so that a refused call takes no number from the others.
Tensor dropout(const Tensor& x, double rate, const DropoutOptions& options) {
  TW_CHECK_USER(rate >= 0 && rate <= 1, "dropout", "the rate is the fraction dropped, for example 0.1",
                "expected a rate of 0 to 1, got {}", rate);
  TW_CHECK_USER(is_float(x.dtype()), "dropout", "cast it first: tw::cast(x, tw::f32)", "expected a float dtype, got {}",
                x.dtype());
  return apply(dropout_info(), Dropout{rate, random::next_key(options.seed), 0}, {x})[0];
}

}  // namespace thalweg
