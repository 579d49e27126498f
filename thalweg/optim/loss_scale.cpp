#include "thalweg/optim/loss_scale.h"

#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/tracer.h"
#include "thalweg/ops/argreduce/argreduce.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/limit_skips/limit_skips.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/widen.h"

namespace thalweg {
namespace {

Tensor is_finite(const Gradient& gradient) { return reduce_all(isfinite(gradient.values())); }

template <class T>
T state(const char* name, double value, DType dtype) {
  const TraceScope eager(nullptr);
  const PauseRecording pause;
  return T(cast(scalar(value, f64), dtype), {.name = std::string("loss_scale/") + name, .trainable = false});
}

void check_options(const LossScaleOptions& o) {
  TW_CHECK_USER(o.initial > 0 && o.initial >= o.floor, "loss_scale", "32768 is usual",
                "expected .initial above 0 and not below .floor, got {}", o.initial);
  TW_CHECK_USER(o.floor >= 0, "loss_scale", "1 is usual", "expected .floor of 0 or more, got {}", o.floor);
  TW_CHECK_USER(o.growth_steps >= 1, "loss_scale", "2000 is usual", "expected .growth_steps of 1 or more, got {}",
                o.growth_steps);
  TW_CHECK_USER(o.max_skips >= 0, "loss_scale", "50 is usual", "expected .max_skips of 0 or more, got {}", o.max_skips);
}

}  // namespace

template <class T>
Readable<T>::operator T() const {
  const PauseRecording pause;
  return value().template item<T>();
}
template class Readable<double>;
template class Readable<std::int64_t>;

LossScale::LossScale(const LossScaleOptions& options)
    : options_(options),
      living_("a loss scale"),
      scale_(state<Readable<double>>("scale", options.initial, f64)),
      skipped_(state<Readable<std::int64_t>>("skipped", 0, i64)),
      finite_in_a_row_(state<Variable>("finite_in_a_row", 0, i64)),
      skipped_in_a_row_(state<Variable>("skipped_in_a_row", 0, i64)) {
  check_options(options);
}

Tensor LossScale::scale(const Tensor& loss) const {
  living_.touch();
  return loss * cast(scale_, loss.dtype());
}

std::vector<Variable> LossScale::variables() const { return {scale_, skipped_, finite_in_a_row_, skipped_in_a_row_}; }

LossScale::Verdict LossScale::judge(const std::vector<Gradient>& gradients, const std::vector<std::string>& names,
                                    const Tensor& counts) const {
  living_.touch();
  std::vector<Tensor> flags;
  std::vector<std::string> of_flags;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    flags.push_back(is_finite(gradients[i]));
    of_flags.push_back(names[i]);
  }
  const Tensor all = stack(flags), finite = reduce_all(all), first_bad = argmin(cast(all, i32), 0);
  const Tensor bad = cast(counts.defined() ? counts & !finite : !finite, i64);
  const Tensor good = cast(finite, i64) * (finite_in_a_row_ + 1);
  const Tensor grows = good == options_.growth_steps;
  const Tensor scale = scale_, larger = where(grows, 2 * scale, scale), smaller = maximum(0.5 * scale, options_.floor);
  const auto kept = [&](const Tensor& after, const Variable& before) {
    return counts.defined() ? where(counts, after, before) : after;
  };
  const Tensor skips = limit_skips(bad * (skipped_in_a_row_ + 1), first_bad, options_.max_skips, of_flags);
  return {.finite = finite,
          .scale = kept(where(finite, larger, smaller), scale_),
          .finite_in_a_row = kept(where(grows, 0, good), finite_in_a_row_),
          .skipped = skipped_ + bad,
          .skipped_in_a_row = kept(skips, skipped_in_a_row_)};
}

Gradient LossScale::unscaled(const Gradient& gradient, DType variable) const {
  if (!gradient.defined()) return gradient;
  const DType dtype = wide(variable);
  const Tensor values = cast(gradient.values(), dtype) / cast(scale_, dtype);
  return gradient.is_sparse() ? Gradient(values, gradient.indices(), gradient.shape()) : Gradient(values);
}

void LossScale::settle(const Verdict& verdict) {
  scale_.assign(verdict.scale);
  finite_in_a_row_.assign(verdict.finite_in_a_row);
  skipped_.assign(verdict.skipped);
  skipped_in_a_row_.assign(verdict.skipped_in_a_row);
}

}  // namespace thalweg
