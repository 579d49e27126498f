// What does a compiled training step do, and what will it cost, before it runs? A step is traced once; the plan then
// says how much memory it needs at its worst moment and what that is made of.
#include <cstdio>
#include <iostream>

#include "thalweg/thalweg.h"

int main() {
  tw::random::set_seed(1);
  tw::nn::Sequential model({tw::nn::dense(64, tw::relu), tw::nn::dense(64, tw::relu), tw::nn::dense(1)});
  tw::optim::Adam adam({.learning_rate = 1e-2});
  const tw::Tensor x = tw::random::normal({256, 8});
  const tw::Tensor y = tw::reduce_sum(x * x, {.axes = {1}, .keepdims = true});

  const auto step = tw::function(
      [&](const tw::Tensor& inputs, const tw::Tensor& targets) {
        tw::GradientTape tape;
        tw::Tensor loss = tw::losses::mean_squared_error(targets, model(inputs));
        const auto variables = model.trainable_variables();
        adam.apply(tape.gradient(loss, variables), variables);
        return loss;
      },
      {.name = "train_step"});

  const tw::Plan& plan = step.plan(x, y);  // traced and planned, nothing run
  std::cout << plan.report() << "\n";

  const float first = step(x, y).item<float>();
  float last = first;
  for (int i = 0; i < 200; ++i) last = step(x, y).item<float>();
  const auto stats = step.stats();
  std::printf(
      "loss %.3f -> %.3f; traced %d time, planned %d bytes, measured %d, system allocations in the last step %d\n",
      first, last, static_cast<int>(stats.traces), static_cast<int>(plan.peak_bytes()),
      static_cast<int>(stats.measured_peak_bytes), static_cast<int>(stats.allocations_last_step));
  return last < 0.1f * first && stats.traces == 1 && stats.measured_peak_bytes == plan.peak_bytes() ? 0 : 1;
}
