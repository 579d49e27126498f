// Gradients of a network's output by its inputs, for batches of any size in bounded memory: dense 100-256-256-1.
#include <cmath>
#include <cstdio>

#include "bench/support/bounds.h"
#include "bench/support/timing.h"
#include "thalweg/thalweg.h"

using namespace thalweg;

namespace {

constexpr std::int64_t width = 100, budget = MiB(256);
void measure(nn::Sequential& network, std::int64_t rows) {
  const auto f = [&](const Tensor& batch) { return network(batch); };
  const Tensor x = random::normal({rows, width}, {.seed = 2});
  const std::int64_t few = std::min<std::int64_t>(rows, 1000);
  const Tensor want = grad(f)(slice(x, {0, 0}, {few, -1}));
  config::trim();
  config::reset_peak_memory();
  const std::int64_t before = config::memory_info().in_use;
  Tensor gradient = input_gradients(f, x, {.memory_budget = budget});
  const std::int64_t extra = config::memory_info().peak - before - gradient.bytes();
  const Tensor difference = reduce_max(abs(slice(gradient, {0, 0}, {few, -1}) - want));
  bench::require(difference.item<float>() < 1e-5f, "the gradient is not that of the tape");
  double best = 1e30;
  for (int i = 0; i < 3; ++i)
    best = std::min(best, bench::seconds([&] { gradient = input_gradients(f, x, {.memory_budget = budget}); }));
  std::printf("%9lld rows: %8.1f ms, %.0f rows/s, %.1f MiB above the data and the result (limit 256)\n",
              static_cast<long long>(rows), best * 1e3, static_cast<double>(rows) / best,
              static_cast<double>(extra) / 1048576);
  bench::require(extra <= budget, "more memory than the budget");
}

}  // namespace

int main() {
  random::set_seed(1);
  nn::Sequential network({nn::dense(256, tw::tanh), nn::dense(256, tw::tanh), nn::dense(1)});
  network(zeros({1, width}));
  for (const std::int64_t rows : {1'000, 200'000, 1'000'000}) measure(network, rows);
  return bench::status();
}
