// What structured pruning at 80 % is worth: a training step of the model before, and of what shrink leaves of it.
#include <cmath>
#include <cstdio>

#include "bench/support/timing.h"
#include "models/models.h"

using namespace thalweg;

namespace {

constexpr double least_gain = 2;

// A compiled training step of any model.
auto step_of(nn::Sequential& model, optim::Optimizer& optimizer) {
  return function([&](const Tensor& x, const Tensor& y) {
    const auto scope = nn::training(true);
    GradientTape tape;
    Tensor loss = losses::sparse_categorical_crossentropy(y, model(x), {.from_logits = true});
    optimizer.apply(tape.gradient(loss, model.trainable_variables()), model.trainable_variables());
    return loss;
  });
}

double largest_difference(const Tensor& a, const Tensor& b) { return reduce_max(abs(a - b)).item<double>(); }

bool compare(const char* name, nn::Sequential& model, const Tensor& x) {
  const Tensor y = random::uniform({x.shape()[0]}, {.low = 0, .high = 10, .seed = 2, .dtype = i32});
  optim::Adam before, after;
  model(x);
  nn::prune(model, {.sparsity = 0.8, .structured = true});
  const auto large_step = step_of(model, before);
  for (int i = 0; i < 3; ++i) large_step(x, y);
  const auto small = nn::shrink(model);
  const double difference = largest_difference(model(x), (*small)(x));
  const auto small_step = step_of(*small, after);
  double large_seconds = 1e9, small_seconds = 1e9;
  for (int round = 0; round < 5; ++round) {
    large_seconds = std::min(large_seconds, bench::best_seconds([&] { large_step(x, y); }, 2));
    small_seconds = std::min(small_seconds, bench::best_seconds([&] { small_step(x, y); }, 2));
  }
  std::printf("%-4s %8.2f ms -> %7.2f ms  %.1f times faster (at least %.0f), results differ by %.1e\n", name,
              1e3 * large_seconds, 1e3 * small_seconds, large_seconds / small_seconds, least_gain, difference);
  if (difference < 1e-4) return true;
  std::puts("wrong result: the smaller model gives something else");
  return false;
}

}  // namespace

int main() {
  std::puts("structured pruning at 80 %, then shrink: a compiled training step");
  models::Mlp mlp;
  models::Cnn cnn;
  const bool good = compare("mlp", mlp, random::normal({128, 784}, {.seed = 1}));
  return compare("cnn", cnn, random::normal({64, 28, 28, 1}, {.seed = 1})) && good ? 0 : 1;
}
