// Which inputs matter, for a million rows at once, in 256 MiB? The gradient of a network's output by its inputs: the
// batch is cut into parts that fit the budget, and the result is that of one call.
#include <cmath>
#include <cstdio>

#include "thalweg/thalweg.h"

int main() {
  tw::random::set_seed(1);
  tw::nn::Sequential network({tw::nn::dense(32, tw::tanh), tw::nn::dense(32, tw::tanh), tw::nn::dense(1)});
  const std::int64_t rows = 1000000;
  const tw::Tensor x = tw::random::normal({rows, 10}, {.seed = 2});

  tw::config::reset_peak_memory();
  const std::int64_t before = tw::config::memory_info().in_use;
  const tw::Tensor gradient =
      tw::input_gradients([&](const tw::Tensor& batch) { return network(batch); }, x, {.memory_budget = tw::MiB(256)});
  const std::int64_t extra = tw::config::memory_info().peak - before - gradient.bytes();

  const tw::Tensor importance = tw::reduce_mean(tw::abs(gradient), {.axes = {0}});
  for (const float value : importance.to_vector<float>()) std::printf("%.4f ", value);
  std::printf("\n%lld rows, %.1f MiB above the data and the result\n", static_cast<long long>(rows),
              static_cast<double>(extra) / 1048576);

  // The same for the first rows alone.
  const tw::Tensor few = tw::slice(x, {0, 0}, {1000, -1});
  const tw::Tensor want = tw::grad([&](const tw::Tensor& batch) { return network(batch); })(few);
  const float difference = tw::reduce_max(tw::abs(tw::slice(gradient, {0, 0}, {1000, -1}) - want)).item<float>();
  return extra <= tw::MiB(256) && difference < 1e-5f ? 0 : 1;
}
