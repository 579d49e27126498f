#pragma once

// Learning rates that change: functions of the number of updates made so far. Arguments stand as in Keras.
#include <functional>
#include <optional>
#include <vector>

#include "thalweg/core/tensor.h"

namespace thalweg::schedules {

// Evaluated in ops on the step, which is a scalar or a table of steps; the rates are f64 of its shape.
class TW_API Schedule {
 public:
  using Rate = std::function<Tensor(const Tensor& step)>;  // f64 to f64, of one shape
  explicit Schedule(Rate rate) : rate_(std::move(rate)) {}
  Tensor operator()(const Tensor& step) const;

 private:
  Rate rate_;
};

// rate * factor^(step / steps); staircase: the exponent is a whole number
TW_API Schedule exponential(double rate, double steps, double factor, bool staircase = false);
// values[i] up to and with boundaries[i], the last value after them
TW_API Schedule piecewise(const std::vector<std::int64_t>& boundaries, const std::vector<double>& values);
// From `rate` to `end` in `steps`; cycle: in as many multiples of `steps` as are needed.
TW_API Schedule polynomial(double rate, double steps, double end = 1e-4, double power = 1, bool cycle = false);
// Down to alpha * rate in `steps` along half a cosine. With a warm-up target: linearly from `rate` to the target in
// `warmup_steps` first, then down from the target.
TW_API Schedule cosine(double rate, double steps, double alpha = 0, std::optional<double> warmup_target = {},
                       double warmup_steps = 0);
// Periods of a cosine, each `t_mul` times as long and `m_mul` times as high as the one before.
TW_API Schedule cosine_restarts(double rate, double first_steps, double t_mul = 2, double m_mul = 1, double alpha = 0);
// rate / (1 + factor * step / steps)
TW_API Schedule inverse_time(double rate, double steps, double factor, bool staircase = false);
// From peak / divisor to the peak in the first `rising` part of the steps, then down to the start / final_divisor, both
// along half a cosine.
TW_API Schedule one_cycle(double peak, std::int64_t steps, double rising = 0.3, double divisor = 25,
                          double final_divisor = 1e4);

}  // namespace thalweg::schedules
