// Steps over sequences of random length: plans come and go within their bound, and resident memory stays flat.
//   variable_lengths STEPS
#include <cstdio>
#include <cstdlib>
#include <random>

#include "bench/support/resident_memory.h"
#include "models/models.h"
#include "thalweg/thalweg.h"

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 1000, warm = std::min(1000, steps / 2);
  const auto training = tw::nn::training(true);
  tw::random::set_seed(1);
  tw::models::Gpt model({.vocabulary = 65, .context = 512, .layers = 2, .heads = 2, .width = 64});
  tw::optim::Adam adam({.learning_rate = 1e-3});
  const auto step = tw::function(
      [&](const tw::Tensor& tokens, const tw::Tensor& next) {
        tw::GradientTape tape;
        tw::Tensor loss = tw::reduce_mean(tw::sparse_softmax_cross_entropy(next, model(tokens)));
        const auto variables = model.trainable_variables();
        adam.apply(tape.gradient(loss, variables), variables);
        return loss;
      },
      {.name = "lengths", .max_plans = 64});
  std::mt19937 generator(1);
  std::uniform_int_distribution<std::int64_t> lengths(1, 512);
  std::int64_t after_warm = 0;
  float loss = 0;
  for (int i = 0; i < steps; ++i) {
    const std::int64_t length = lengths(generator);
    const tw::Tensor tokens = tw::random::uniform({1, length}, {.low = 0, .high = 65, .dtype = tw::i64});
    loss = step(tokens, tokens).item<float>();
    if (i + 1 == warm) after_warm = tw::bench::resident_bytes();
    if ((i + 1) % 1000 == 0)
      std::printf("step %d, loss %.3f, resident %lld\n", i + 1, loss,
                  static_cast<long long>(tw::bench::resident_bytes()));
  }
  const std::int64_t grown = tw::bench::resident_bytes() - after_warm;
  const auto stats = step.stats();
  std::printf("%d steps: %lld traces, %lld plans kept, resident memory grew %lld bytes after step %d\n", steps,
              static_cast<long long>(stats.traces), static_cast<long long>(stats.plans), static_cast<long long>(grown),
              warm);
  return stats.plans <= 64 && grown < tw::MiB(8) ? 0 : 1;
}
