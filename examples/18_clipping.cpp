// How do I clip gradients, with Adam in a compiled step, and what does it change? Three nets meet the same outlier.
// Without clipping it stays in Adam's moments: the first one drags the weights away, the second one makes the steps
// after it tiny, so that the loss does not come back. Clipped by the norm of each gradient (clip_norm), or by the norm
// of all of them together (global_clip_norm), one bad batch counts no more than any other. Look at the last lines.
#include <cmath>
#include <cstdio>
#include <optional>

#include "thalweg/thalweg.h"

namespace {

struct Run {
  tw::nn::Sequential model{{tw::nn::dense(16, tw::tanh), tw::nn::dense(1)}};
  tw::optim::Adam adam;
  explicit Run(const tw::optim::AdamOptions& options) : adam(options) {}

  // The loss, and the norm of all gradients before they are clipped.
  auto step() {
    return tw::function([this](const tw::Tensor& x, const tw::Tensor& y) {
      tw::GradientTape tape;
      const tw::Tensor loss = tw::losses::mean_squared_error(y, model(x));
      const auto variables = model.trainable_variables();
      const auto gradients = tape.gradient(loss, variables);
      adam.apply(gradients, variables);
      return std::vector{loss, tw::global_norm(gradients)};
    });
  }
};

float last_loss(const char* name, const tw::optim::AdamOptions& options) {
  tw::random::set_seed(4);
  Run run(options);
  const auto step = run.step();
  float loss = 0;
  for (int i = 0; i < 300; ++i) {
    const tw::Tensor x = tw::random::normal({64, 4}, {.seed = static_cast<std::uint64_t>(i)});
    tw::Tensor y = tw::reduce_sum(x, {.axes = {1}, .keepdims = true});
    if (i == 100) y = y * 1e6f;  // a broken sensor
    const auto result = step(x, y);
    loss = result[0].item<float>();
    if (i == 99 || i == 100 || i == 299)
      std::printf("%-12s step %3d: loss %10.4g, gradient norm %10.4g\n", name, i, static_cast<double>(loss),
                  static_cast<double>(result[1].item<float>()));
  }
  return loss;
}

}  // namespace

int main() {
  const float free = last_loss("none", {.learning_rate = 0.01});
  const float each = last_loss("clip_norm", {.learning_rate = 0.01, .clip_norm = 1.0});
  const float all = last_loss("global", {.learning_rate = 0.01, .global_clip_norm = 1.0});
  const bool thrown_away = !std::isfinite(free) || free > 1;
  return thrown_away && each < 0.1f && all < 0.1f ? 0 : 1;
}
