#include "thalweg/optim/schedules.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "thalweg/core/check.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/elementwise.h"

namespace thalweg::schedules {
namespace {

void check_steps(const char* schedule, double steps) {
  TW_CHECK_USER(steps > 0, schedule, "the number of updates over which the rate changes",
                "expected a number of steps above 0, got {}", steps);
}

Tensor whole_if(bool staircase, const Tensor& x) { return staircase ? floor(x) : x; }

// 1 at the start, 0 where the fraction is 1
Tensor half_cosine(const Tensor& fraction) { return 0.5 * (1 + cos(std::numbers::pi * fraction)); }

}  // namespace

Tensor Schedule::operator()(const Tensor& step) const { return rate_(cast(step, f64)); }

Schedule exponential(double rate, double steps, double factor, bool staircase) {
  check_steps("exponential", steps);
  return Schedule([=](const Tensor& step) { return rate * pow(factor, whole_if(staircase, step / steps)); });
}

Schedule piecewise(const std::vector<std::int64_t>& boundaries, const std::vector<double>& values) {
  TW_CHECK_USER(values.size() == boundaries.size() + 1, "piecewise", "give one value more than there are boundaries",
                "expected {} values for {} boundaries, got {}", boundaries.size() + 1, boundaries.size(),
                values.size());
  TW_CHECK_USER(std::is_sorted(boundaries.begin(), boundaries.end()), "piecewise",
                "sort them, and the values with them",
                "expected boundaries in ascending order, got one below that before it");
  return Schedule([=](const Tensor& step) {
    Tensor rate = 0 * step + values.back();
    for (std::size_t i = boundaries.size(); i-- > 0;) rate = where(step <= boundaries[i], values[i], rate);
    return rate;
  });
}

Schedule polynomial(double rate, double steps, double end, double power, bool cycle) {
  check_steps("polynomial", steps);
  return Schedule([=](const Tensor& step) {
    const Tensor length = cycle ? steps * maximum(ceil(step / steps), 1) : 0 * step + steps;
    return (rate - end) * pow(1 - minimum(step, length) / length, power) + end;
  });
}

Schedule cosine(double rate, double steps, double alpha, std::optional<double> warmup_target, double warmup_steps) {
  check_steps("cosine", steps);
  const double peak = warmup_target.value_or(rate), rising = warmup_target ? warmup_steps : 0;
  return Schedule([=](const Tensor& step) {
    const Tensor fraction = minimum(maximum(step - rising, 0), steps) / steps;
    const Tensor falling = peak * ((1 - alpha) * half_cosine(fraction) + alpha);
    return rising > 0 ? where(step < rising, rate + (peak - rate) * (step / rising), falling) : falling;
  });
}

Schedule cosine_restarts(double rate, double first_steps, double t_mul, double m_mul, double alpha) {
  check_steps("cosine_restarts", first_steps);
  TW_CHECK_USER(t_mul >= 1, "cosine_restarts", "periods stay as long as the first, or grow",
                "expected t_mul of 1 or more, got {}", t_mul);
  constexpr double slack = 1e-9;  // a quotient of logarithms that should be whole may lie just below
  return Schedule([=](const Tensor& step) {
    const Tensor completed = step / first_steps;  // in first periods
    const Tensor restarts =
        t_mul == 1 ? floor(completed) : floor(log(1 + completed * (t_mul - 1)) / std::log(t_mul) + slack);
    const Tensor length = pow(t_mul, restarts);
    const Tensor start = t_mul == 1 ? restarts : (length - 1) / (t_mul - 1);
    const Tensor height = pow(m_mul, restarts);
    return rate * ((1 - alpha) * height * half_cosine((completed - start) / length) + alpha);
  });
}

Schedule inverse_time(double rate, double steps, double factor, bool staircase) {
  check_steps("inverse_time", steps);
  return Schedule([=](const Tensor& step) { return rate / (1 + factor * whole_if(staircase, step / steps)); });
}

Schedule one_cycle(double peak, std::int64_t steps, double rising, double divisor, double final_divisor) {
  check_steps("one_cycle", static_cast<double>(steps));
  TW_CHECK_USER(rising > 0 && rising < 1, "one_cycle", "0.3 is usual", "expected a rising part between 0 and 1, got {}",
                rising);
  const double last = static_cast<double>(steps) - 1, top = std::max(rising * static_cast<double>(steps) - 1, 0.0);
  const double start = peak / divisor, end = start / final_divisor;
  return Schedule([=](const Tensor& step) {
    const Tensor up = minimum(step / std::max(top, 1.0), 1);
    const Tensor down = minimum(maximum(step - top, 0) / std::max(last - top, 1.0), 1);
    return where(step <= top, peak + (start - peak) * half_cosine(up), end + (peak - end) * half_cosine(down));
  });
}

}  // namespace thalweg::schedules
