// Can a step that needs four times the memory train all the same? The budget is one number in bytes for everything:
// weights, optimizer state, activations, workspaces. The plan is proven to fit before the first step.
#include <cmath>
#include <cstdio>

#include "thalweg/thalweg.h"

namespace {

tw::nn::Sequential make_model() {
  std::vector<tw::nn::LayerMaker> layers;
  for (int i = 0; i < 8; ++i) layers.push_back(tw::nn::dense(32, tw::tanh));
  layers.push_back(tw::nn::dense(1));
  return tw::nn::Sequential(layers);
}

auto make_step(tw::nn::Sequential& model, tw::optim::SGD& sgd, std::int64_t budget) {
  return tw::function(
      [&](const tw::Tensor& x, const tw::Tensor& y) {
        tw::GradientTape tape;
        tw::Tensor loss = tw::losses::mean_squared_error(y, model(x));
        const auto variables = model.trainable_variables();
        sgd.apply(tape.gradient(loss, variables), variables);
        return loss;
      },
      {.name = "train_step", .memory_budget = budget});
}

}  // namespace

int main() {
  const tw::Tensor x = tw::random::normal({20000, 16}, {.seed = 2});
  const tw::Tensor y = tw::sin(tw::reduce_sum(x, {.axes = {1}, .keepdims = true}));

  auto naive_model = make_model(), model = make_model();
  for (auto* made : {&naive_model, &model}) {  // the same weights
    tw::random::set_seed(1);
    (*made)(tw::zeros({1, 16}));
  }
  tw::optim::SGD naive_sgd({.learning_rate = 0.05}), sgd({.learning_rate = 0.05});
  const auto naive = make_step(naive_model, naive_sgd, 0);
  const std::int64_t needed = naive.plan(x, y).peak_bytes();
  const auto bounded = make_step(model, sgd, needed / 4);

  const tw::Plan& plan = bounded.plan(x, y);
  std::printf("everything kept: %.1f MiB; budget %.1f MiB; plan: %.1f MiB, %d parts\n",
              static_cast<double>(needed) / 1048576, static_cast<double>(needed) / 4 / 1048576,
              static_cast<double>(plan.peak_bytes()) / 1048576, plan.micro_batches());
  float a = 0, b = 0;
  for (int i = 0; i < 5; ++i) {
    a = naive(x, y).item<float>();
    b = bounded(x, y).item<float>();
    std::printf("step %d: loss %.6f, within the budget %.6f\n", i, a, b);
  }
  std::printf("measured peak %.1f MiB\n", static_cast<double>(bounded.stats().measured_peak_bytes) / 1048576);

  try {  // too small a budget is an error before any work, with what would do
    make_step(model, sgd, tw::KiB(64)).plan(x, y);
    return 1;
  } catch (const tw::Error& error) {
    std::printf("%s\n", error.what());
  }
  const bool kept = bounded.stats().measured_peak_bytes <= needed / 4;
  return kept && std::abs(a - b) < 1e-4f ? 0 : 1;
}
