// What do I gain by 16 bits, and what do I lose? The same small transformer step in f32, bf16 and f16: bytes between
// arguments and results, time of a step, and the loss while it learns, side by side.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>

#include "thalweg/thalweg.h"

namespace {

constexpr std::int64_t batch = 8, length = 64, width = 128, words = 64;

struct Model : tw::nn::Module {
  tw::nn::Embedding tokens{*this, "tokens", {.input_dim = words, .output_dim = width}};
  tw::nn::TransformerBlock first{*this, "first", {.num_heads = 4}}, second{*this, "second", {.num_heads = 4}};
  tw::nn::Dense head{*this, "head", {.units = words}};
  tw::Tensor operator()(const tw::Tensor& ids) { return head(second(first(tokens(ids)))); }
};

// Sequences in which each word follows from the two before it.
tw::Tensor text(int number) {
  std::vector<std::int64_t> ids;
  for (std::int64_t row = 0; row < batch; ++row) {
    std::int64_t a = (number * batch + row) % words, b = (7 * number + 3 * row) % words;
    for (std::int64_t i = 0; i <= length; ++i) {
      ids.push_back(a);
      a = std::exchange(b, (a + 3 * b + 1) % words);
    }
  }
  return tw::Tensor::from(ids, {batch, length + 1});
}

struct Run {
  explicit Run(tw::Precision p) : precision(p) {
    tw::random::set_seed(1);
    model = std::make_unique<Model>();
    adam = std::make_unique<tw::optim::Adam>(tw::optim::AdamOptions{.learning_rate = 2e-3});
  }

  auto step() {
    return tw::function(
        [this](const tw::Tensor& ids) {
          const auto training = tw::nn::training(true);
          const tw::Tensor x = tw::slice(ids, {0, 0}, {batch, length}), y = tw::slice(ids, {0, 1}, {batch, length});
          tw::GradientTape tape;
          tw::Tensor loss = tw::reduce_mean(tw::sparse_softmax_cross_entropy(y, (*model)(x)));
          const auto variables = model->trainable_variables();
          adam->apply(tape.gradient(loss, variables), variables);
          return loss;
        },
        {.name = "step", .precision = precision});
  }

  tw::Precision precision;
  std::unique_ptr<Model> model;
  std::unique_ptr<tw::optim::Adam> adam;
  std::vector<float> losses;
};

}  // namespace

int main() {
  tw::set_log_handler([](const std::string& message) { std::printf("note: %s\n", message.c_str()); });
  std::vector<Run> runs;
  runs.reserve(3);
  for (const auto precision : {tw::Precision::f32, tw::Precision::bf16, tw::Precision::f16}) {
    Run& run = runs.emplace_back(precision);
    const auto step = run.step();
    double best = 1e30;
    for (int i = 0; i < 120; ++i) {
      const auto start = std::chrono::steady_clock::now();
      run.losses.push_back(step(text(i)).item<float>());
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      best = std::min(best, taken.count());
    }
    std::int64_t fixed = 0;  // weights and the two moments of Adam
    for (const auto& variable : run.model->trainable_variables()) fixed += 3 * variable.value().bytes();
    const std::int64_t between = step.plan(text(0)).peak_bytes() - fixed;
    std::printf("%-5s %6.1f MiB between arguments and results, %6.2f ms a step\n", tw::name_of(tw::dtype_of(precision)),
                static_cast<double>(between) / 1048576, best * 1e3);
  }
  std::printf("%-6s %8s %8s %8s\n", "step", "f32", "bf16", "f16");
  for (std::size_t i = 19; i < 120; i += 20)
    std::printf("%-6zu %8.4f %8.4f %8.4f\n", i + 1, runs[0].losses[i], runs[1].losses[i], runs[2].losses[i]);
  bool close = true;
  for (const auto& run : runs) close &= std::abs(run.losses.back() - runs[0].losses.back()) < 0.05f * runs[0].losses[0];
  return close ? 0 : 1;
}
