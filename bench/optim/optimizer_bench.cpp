// An eager Adam step over one large variable, against the plainest loop that moves the same bytes.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/support/timing.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/random/random.h"
#include "thalweg/optim/optimizers.h"

using namespace thalweg;

namespace {

constexpr std::int64_t size = 1024 * 1024;
constexpr double moved_bytes = 7.0 * 4 * size;  // reads w, g, m, v; writes w, m, v

// Reads four arrays and writes three of them.
double same_traffic_seconds() {
  std::vector<float> w(size, 1), g(size, 1e-6f), m(size), v(size);
  return bench::best_seconds([&] {
    parallel_ranges(size, 32 * 1024, [&](std::int64_t begin, std::int64_t end) {
      float *pw = w.data(), *pm = m.data(), *pv = v.data();
      const float* pg = g.data();
      for (std::int64_t i = begin; i < end; ++i) pw[i] += pg[i], pm[i] += pg[i], pv[i] += pg[i];
    });
  });
}

}  // namespace

int main() {
  Variable w(ones({1024, 1024}), {.name = "w"});
  const Tensor g = random::normal({1024, 1024}, {.seed = 1});
  optim::Adam adam;
  adam.apply({g}, {w});
  const auto values = w.value().data<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {  // the first step of Adam is the rate, whatever the gradient
    if (std::abs(std::abs(values[i] - 1) - 1e-3f) < 1e-5f || std::abs(g.data<float>()[i]) < 1e-3f) continue;
    std::fprintf(stderr, "wrong result: element %zu is %g\n", i, static_cast<double>(values[i]));
    return 1;
  }
  const double plain = same_traffic_seconds();
  const double step = bench::best_seconds([&] { adam.apply({g}, {w}); });
  std::printf("adam, 1024 x 1024 f32    %7.1f us  %5.1f GB/s\n", step * 1e6, moved_bytes / step / 1e9);
  std::printf("loop of the same traffic %7.1f us  %5.1f GB/s   (adam %.2f times as long)\n", plain * 1e6,
              moved_bytes / plain / 1e9, step / plain);

  Variable small(ones({10}), {.name = "small"});
  const Tensor one = ones({10});
  optim::Adam other;
  std::printf("adam, 10 elements        %7.1f us\n", bench::best_seconds([&] { other.apply({one}, {small}); }) * 1e6);
}
