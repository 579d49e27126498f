// What is a gradient, and how do I get one? Fit a line to points by walking downhill.
#include <thalweg/thalweg.h>

#include <cmath>
#include <cstdio>

int main() {
  // Points on the line y = 3 x + 2.
  const tw::Tensor x = tw::linspace(-1, 1, 50);
  const tw::Tensor y = 3 * x + 2;

  // A Variable is what training changes. A trainable one is watched by a tape as soon as it is read.
  tw::Variable slope(tw::full({}, 0.f), {.name = "slope"});
  tw::Variable offset(tw::full({}, 0.f), {.name = "offset"});

  for (int step = 0; step <= 60; ++step) {
    tw::GradientTape tape;  // records the ops of this thread from here on
    const tw::Tensor loss = tw::reduce_mean(tw::square(slope * x + offset - y));

    // One backward pass gives the derivative of the loss by both.
    const auto gradients = tape.gradient(loss, std::vector{slope, offset});
    slope.assign_sub(0.4f * gradients[0].dense());
    offset.assign_sub(0.4f * gradients[1].dense());
    if (step % 20 == 0) std::printf("step %2d  loss %.6f\n", step, static_cast<double>(loss.item<float>()));
  }

  const float a = slope.value().item<float>(), b = offset.value().item<float>();
  std::printf("found y = %.3f x + %.3f\n", static_cast<double>(a), static_cast<double>(b));
  return std::abs(a - 3) < 0.01f && std::abs(b - 2) < 0.01f ? 0 : 1;
}
