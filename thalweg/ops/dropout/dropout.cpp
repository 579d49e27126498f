#include "thalweg/ops/dropout/dropout.h"

#include <cmath>

#include "thalweg/core/check.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/random/key.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

struct Dropout {
  double rate;
  random::Key key;
};

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
        for (std::int64_t i = begin; i < end; i += 4) {
          const random::Words words = random::words(op.key, static_cast<std::uint64_t>(i / 4));
          for (std::int64_t k = 0; k < 4 && i + k < end; ++k)
            y[i + k] = words[static_cast<std::size_t>(k)] >= threshold ? T(static_cast<Compute>(x[i + k]) * factor)
                                                                       : T(Compute(0));
        }
      });
    }
  });
}

// Linear, and its own transpose.
Gradients gradient(const Dropout& op, const Kept&, const Tensors& dy, Needs) {
  return {apply(dropout_info(), op, {dy[0]})[0]};
}

}  // namespace

TW_DEFINE_OP(dropout, Dropout)

// Checks come before the key, so that a refused call takes no number from the others.
Tensor dropout(const Tensor& x, double rate, const DropoutOptions& options) {
  check_defined("dropout", x);
  TW_CHECK_USER(rate >= 0 && rate <= 1, "dropout", "the rate is the fraction dropped, for example 0.1",
                "expected a rate of 0 to 1, got {}", rate);
  TW_CHECK_USER(is_float(x.dtype()), "dropout", "cast it first: tw::cast(x, tw::f32)", "expected a float dtype, got {}",
                x.dtype());
  return apply(dropout_info(), Dropout{rate, random::next_key(options.seed)}, {x})[0];
}

}  // namespace thalweg
