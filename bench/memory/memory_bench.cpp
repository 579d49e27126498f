// Bytes, not seconds: what a chain keeps under a tape, and what attention needs beyond its operands.
#include <cstdio>
#include <cstdlib>

#include "bench/support/timing.h"
#include "thalweg/thalweg.h"

using namespace thalweg;

namespace {

void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "out of bounds: %s\n", what);
  std::exit(1);
}

double mib(std::int64_t bytes) { return static_cast<double>(bytes) / 1048576; }

// 24 layers of product + bias + gelu: the peak of the backward pass is what the rules keep, plus one layer.
void chain() {
  constexpr std::int64_t rows = 512, width = 512, layers = 24, activation = rows * width * 4,
                         weight = width * width * 4;
  std::vector<Variable> weights;
  for (int i = 0; i < layers; ++i) weights.emplace_back(random::normal({width, width}) * 0.05f);
  Tensor h = random::normal({rows, width});
  const auto start = config::memory_info().in_use;
  GradientTape tape;
  for (const auto& w : weights) h = gelu(matmul(h, w));
  const auto kept = tape.kept_bytes();
  Tensor loss = reduce_mean(square(h));
  h = Tensor();
  config::reset_peak_memory();
  const auto gradients = tape.gradient(loss, weights);
  const auto peak = config::memory_info().peak - start;
  // Kept buffers are the activations made in the loop and the weights, which were there before.
  const auto made = kept - layers * weight - activation;
  // One layer in flight: three activations (the gradient that comes in, gelu's, the one that goes out) and a dW. The
  // other gradients take the place of activations that went.
  const auto one_layer = 3 * activation + weight, scalars = KiB(4);
  std::printf("24-layer chain: rules keep %.1f MiB of activations, one layer needs %.1f MiB, peak %.1f MiB\n",
              mib(made), mib(one_layer), mib(peak));
  require(peak <= made + one_layer + scalars, "the chain's peak");
}

struct Attention {
  double seconds;
  std::int64_t extra;  // beyond q, k, v, the output and their gradients
};

Attention attention_step(std::int64_t time) {
  const Shape shape{1, 8, time, 64};
  const Tensor q = random::normal(shape), k = random::normal(shape), v = random::normal(shape),
               seed = random::normal(shape);
  const auto step = [&] {
    GradientTape tape;
    tape.watch(std::vector{q, k, v});
    const Tensor y = attention(q, k, v, {.causal = true});
    return tape.gradient(y, std::vector{q, k, v}, {.output_gradients = {seed}});
  };
  const auto start = config::memory_info().in_use;
  config::reset_peak_memory();
  step();
  const auto extra = config::memory_info().peak - start - 4 * q.bytes();
  // Short ones are as likely to be disturbed as long ones: about the same time for each length.
  const int rounds = static_cast<int>(3 * 16384 / time);
  return {bench::best_seconds([&] { step(); }, rounds), extra};
}

void attention_growth() {
  Attention before{};
  std::printf("attention, 8 heads of 64, causal, forward + backward\n");
  for (std::int64_t time = 512; time <= 16384; time *= 2) {
    const Attention now = attention_step(time);
    std::printf("  T %5lld  %9.2f ms  extra %7.2f MiB", static_cast<long long>(time), 1e3 * now.seconds,
                mib(now.extra));
    if (before.seconds > 0) {
      const double memory = static_cast<double>(now.extra) / static_cast<double>(before.extra),
                   seconds = now.seconds / before.seconds;
      std::printf("  x%.2f time (limit 4.2), x%.2f memory (limit 2.1)", seconds, memory);
      require(memory <= 2.1, "attention's memory per doubling");
    }
    std::printf("\n");
    if (time == 4096) require(now.extra < MiB(64), "attention's memory at T = 4096");
    before = now;
  }
}

}  // namespace

int main() {
  random::set_seed(1);
  chain();
  attention_growth();
}
