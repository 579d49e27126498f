// A model made of layers, trained by a compiled step: it learns which of two points is farther from the origin.
#include <thalweg/thalweg.h>

#include <cstdio>
#include <iostream>

namespace {

struct Net : tw::nn::Module {
  tw::nn::Dense first{*this, "first", {.units = 32, .activation = tw::relu}};
  tw::nn::Dropout dropout{*this, "dropout", {.rate = 0.1}};
  tw::nn::Dense second{*this, "second", {.units = 32, .activation = tw::relu}};
  tw::nn::Dense out{*this, "out", {.units = 1}};
  tw::Tensor operator()(const tw::Tensor& x) { return out(second(dropout(first(x)))); }
};

// Two points side by side, and whether the first is farther.
std::pair<tw::Tensor, tw::Tensor> examples(std::int64_t count, std::uint64_t seed) {
  const tw::Tensor x = tw::random::normal({count, 4}, {.seed = seed});
  const auto squares = tw::split(tw::square(x), 2, 1);
  const tw::Tensor first = tw::reduce_sum(squares[0], {.axes = 1, .keepdims = true});
  const tw::Tensor second = tw::reduce_sum(squares[1], {.axes = 1, .keepdims = true});
  return {x, tw::cast(first > second, tw::f32)};
}

float accuracy(Net& net, const tw::Tensor& x, const tw::Tensor& y) {
  return tw::reduce_mean(tw::cast(tw::cast(net(x) > 0, tw::f32) == y, tw::f32)).item<float>();
}

}  // namespace

int main() {
  tw::random::set_seed(1);
  Net net;
  const auto step = tw::function([&](const tw::Tensor& x, const tw::Tensor& y) {
    tw::GradientTape tape;
    tw::Tensor loss = tw::reduce_mean(tw::sigmoid_cross_entropy(y, net(x)));
    auto variables = net.trainable_variables();
    const auto gradients = tape.gradient(loss, variables);
    for (std::size_t i = 0; i < variables.size(); ++i) variables[i].assign_sub(0.3f * gradients[i].dense());
    return loss;
  });

  {
    const auto training = tw::nn::training(true);  // dropout drops
    for (int i = 0; i < 600; ++i) {
      const auto [x, y] = examples(128, static_cast<std::uint64_t>(i));
      float loss = step(x, y).item<float>();
      if (i % 100 == 0) std::printf("step %3d   loss %.4f\n", i, static_cast<double>(loss));
    }
  }

  std::cout << net.summary();
  const auto [x, y] = examples(2000, 12345);
  const float found = accuracy(net, x, y);
  std::printf("accuracy on new points %.3f\n", static_cast<double>(found));
  return found > 0.9f ? 0 : 1;
}
