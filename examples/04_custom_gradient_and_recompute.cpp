// Two ways to change a backward pass: give a function a gradient of your own, or let it forget its activations.
#include <thalweg/thalweg.h>

#include <cmath>
#include <cstdio>

namespace {

// log(1 + e^x). Written plainly, e^x overflows and the gradient becomes inf / inf = NaN; with its own rule,
// dy (1 - 1 / (1 + e^x)), it stays finite.
tw::Tensor plain(const tw::Tensor& x) { return tw::log(1 + tw::exp(x)); }

tw::Tensor with_rule(const tw::Tensor& x) {
  return tw::custom_gradient(
      [](const std::vector<tw::Tensor>& in) {
        const tw::Tensor e = tw::exp(in[0]);
        auto rule = [e](const tw::Tensor& dy) { return std::vector<tw::Tensor>{dy * (1 - 1 / (1 + e))}; };
        return std::pair{tw::log(1 + e), rule};
      },
      {x});
}

// The quantiser: rounds forwards, and lets the gradient straight through, since round has none.
tw::Tensor quantize(const tw::Tensor& x) {
  return tw::custom_gradient(
      [](const std::vector<tw::Tensor>& in) {
        return std::pair{tw::round(in[0]), [](const tw::Tensor& dy) { return std::vector<tw::Tensor>{dy}; }};
      },
      {x});
}

// A block with four activations that the backward pass needs.
tw::Tensor block(const tw::Tensor& x) { return tw::tanh(tw::silu(tw::gelu(tw::sin(x)))); }

struct Run {
  std::int64_t kept;
  tw::Tensor gradient;
};

Run chain(const tw::Tensor& x, bool recompute) {
  tw::GradientTape tape;
  tape.watch(x);
  tw::Tensor y = x;
  for (int i = 0; i < 8; ++i) y = recompute ? tw::recompute(block)(y) : block(y);
  return {tape.kept_bytes(), tape.gradient(y, x)};
}

}  // namespace

int main() {
  const tw::Tensor large = tw::full({}, 100.f);
  const float broken = tw::grad(plain)(large).item<float>(), good = tw::grad(with_rule)(large).item<float>();
  std::printf("gradient of log(1 + e^x) at 100: plain %f, with its own rule %f\n", static_cast<double>(broken),
              static_cast<double>(good));

  const tw::Tensor x = tw::tensor({0.2f, 1.7f, -3.4f});
  const auto through = tw::grad([](const tw::Tensor& t) { return tw::square(quantize(t)); })(x).to_vector<float>();
  std::printf("straight through round: gradients %g %g %g\n", static_cast<double>(through[0]),
              static_cast<double>(through[1]), static_cast<double>(through[2]));

  // recompute keeps a block's input only and runs the block again when its gradient is due: same bits, less memory.
  const tw::Tensor wide = tw::linspace(-2, 2, 100'000);
  const Run stored = chain(wide, false), recomputed = chain(wide, true);
  std::printf("8 blocks kept for the backward pass: stored %lld bytes, recomputed %lld bytes\n",
              static_cast<long long>(stored.kept), static_cast<long long>(recomputed.kept));
  const bool same = stored.gradient.to_vector<float>() == recomputed.gradient.to_vector<float>();
  return std::isnan(broken) && good == 1.f && through == std::vector<float>{0, 4, -6} && same &&
                 recomputed.kept * 3 < stored.kept
             ? 0
             : 1;
}
