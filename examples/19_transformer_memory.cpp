// How much memory does a Transformer's training step take? The same step under a persistent tape, which keeps every
// activation until it is destroyed, under the default tape, which lets each go as the backward pass is done with it,
// and compiled, where the whole step is one plan.
#include <cmath>
#include <cstdio>
#include <functional>

#include "thalweg/thalweg.h"

namespace {

constexpr std::int64_t words = 256, width = 64, length = 64, batch = 8;

struct Model : tw::nn::Module {
  tw::nn::Embedding tokens{*this, "tokens", {.input_dim = words, .output_dim = width}};
  tw::nn::TransformerBlock first{*this, "first", {.num_heads = 4}};
  tw::nn::TransformerBlock second{*this, "second", {.num_heads = 4}};
  tw::nn::Dense head{*this, "head", {.units = words}};
  tw::Tensor operator()(const tw::Tensor& ids) { return head(second(first(tokens(ids)))); }
};

struct Trained {
  Model model;
  tw::optim::Adam adam;

  tw::Tensor step(const tw::Tensor& ids, const tw::Tensor& next, bool persistent) {
    tw::GradientTape tape({.persistent = persistent});
    tw::Tensor loss = tw::reduce_mean(tw::sparse_softmax_cross_entropy(next, model(ids)));
    const auto variables = model.trainable_variables();
    adam.apply(tape.gradient(loss, variables), variables);
    return loss;
  }
};

// The most that was in use during a warm call, besides what was there before.
double peak_mib(const std::function<float()>& call) {
  call();  // makes weights, slots and plans
  const std::int64_t before = tw::config::memory_info().in_use;
  tw::config::reset_peak_memory();
  call();
  return static_cast<double>(tw::config::memory_info().peak - before) / 1048576;
}

}  // namespace

int main() {
  const tw::Tensor text = tw::random::uniform({batch, length + 1}, {.high = words, .seed = 3, .dtype = tw::i32});
  const tw::Tensor ids = tw::slice(text, {0, 0}, {-1, length}), next = tw::slice(text, {0, 1}, {-1, length});
  float losses[3] = {};
  double peaks[3] = {};
  for (int way = 0; way < 3; ++way) {
    tw::random::set_seed(5);
    Trained trained;
    trained.model(ids);  // makes the weights: the same for all three
    const auto compiled =
        tw::function([&](const tw::Tensor& x, const tw::Tensor& y) { return trained.step(x, y, false); });
    peaks[way] = peak_mib([&] {
      const tw::Tensor loss = way == 2 ? compiled(ids, next) : trained.step(ids, next, way == 0);
      return losses[way] = loss.item<float>();
    });
    if (way < 2) continue;
    // The memory of a plan stays between calls: the plan tells what it is, weights and optimizer state included.
    std::int64_t bytes = compiled.stats().measured_peak_bytes;
    for (const auto& variable : trained.model.variables()) bytes -= variable.value().bytes();
    for (const auto& variable : trained.adam.variables()) bytes -= variable.value().bytes();
    peaks[way] = static_cast<double>(bytes) / 1048576;
  }
  std::printf("besides weights and optimizer state: persistent tape %.2f MiB, tape %.2f MiB, compiled %.2f MiB\n",
              peaks[0], peaks[1], peaks[2]);
  std::printf("losses %.6f %.6f %.6f\n", static_cast<double>(losses[0]), static_cast<double>(losses[1]),
              static_cast<double>(losses[2]));
  const bool same = std::abs(losses[0] - losses[1]) < 1e-6f && std::abs(losses[0] - losses[2]) < 1e-4f;
  return same && peaks[0] > peaks[1] && peaks[1] > peaks[2] ? 0 : 1;
}
