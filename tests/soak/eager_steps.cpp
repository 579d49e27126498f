// Eager training steps with batch sizes drawn from 1 to 512: memory must not grow.
//   eager_steps STEPS
#include <thalweg/thalweg.h>

#include <cstdio>
#include <cstdlib>

#include "bench/support/resident_memory.h"

namespace {

struct Net {
  tw::Variable w1{tw::random::normal({32, 64}) * 0.1f}, b1{tw::zeros({64})}, w2{tw::random::normal({64, 10}) * 0.1f};
  std::vector<tw::Variable> variables() const { return {w1, b1, w2}; }

  void step(const tw::Tensor& x, const tw::Tensor& labels) {
    tw::GradientTape tape;
    const tw::Tensor logits = tw::matmul(tw::dropout(tw::relu(tw::matmul(x, w1) + b1), 0.1), w2);
    const tw::Tensor loss = tw::reduce_mean(tw::sparse_softmax_cross_entropy(labels, logits));
    const auto gradients = tape.gradient(loss, variables());
    auto all = variables();
    for (std::size_t i = 0; i < all.size(); ++i) all[i].assign_sub(0.01f * gradients[i].dense());
  }
};

int run(long steps) {
  tw::random::set_seed(1);
  Net net;
  const auto in_use = tw::config::memory_info().in_use;
  std::int64_t settled = 0;
  const long settled_after = std::min(1000L, steps / 2);
  for (long i = 0; i < steps; ++i) {
    const auto batch = static_cast<std::int64_t>(
        tw::random::uniform({}, {.low = 1, .high = 513, .dtype = tw::i64}).item<std::int64_t>());
    net.step(tw::random::normal({batch, 32}), tw::random::uniform({batch}, {.low = 0, .high = 10, .dtype = tw::i32}));
    if (tw::config::memory_info().in_use != in_use) {
      std::printf("step %ld: %lld bytes in use, expected %lld\n", i,
                  static_cast<long long>(tw::config::memory_info().in_use), static_cast<long long>(in_use));
      return 1;
    }
    if (i + 1 == settled_after) settled = tw::bench::resident_bytes();
    if ((i + 1) % std::max(1L, steps / 10) == 0)
      std::printf("step %ld: resident %.1f MB\n", i + 1, static_cast<double>(tw::bench::resident_bytes()) / 1e6);
  }
  const double growth = static_cast<double>(tw::bench::resident_bytes() - settled) / 1e6;
  std::printf("resident memory grew by %.2f MB after step %ld (limit 8)\n", growth, settled_after);
  return growth < 8 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return run(argc > 1 ? std::atol(argv[1]) : 2000); }
