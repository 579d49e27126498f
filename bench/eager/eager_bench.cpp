// What an eager op costs beyond its arithmetic, and a whole eager training step of a 5-10-1 net.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "bench/support/timing.h"
#include "thalweg/autodiff/tape.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/reduce/reduce.h"

using namespace thalweg;

namespace {

void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "wrong result: %s\n", what);
  std::exit(1);
}

double recorded_op_seconds(const Tensor& x, const Tensor& y) {
  constexpr int ops = 100;  // a tape of a usual length, made and thrown away
  const double with_tape = bench::best_seconds([&] {
    GradientTape tape;
    tape.watch(x);
    for (int i = 0; i < ops; ++i) {
      const Tensor z = x * y;
    }
  });
  const double tape_alone = bench::best_seconds([&] {
    GradientTape tape;
    tape.watch(x);
  });
  return (with_tape - tape_alone) / ops;
}

struct Adam {
  Variable w, m, v;
  explicit Adam(const Tensor& initial)
      : w(initial), m(zeros_like(initial), {.trainable = false}), v(zeros_like(initial), {.trainable = false}) {}
  void step(const Tensor& g, float rate) {
    m.assign_add((g - m) * 0.1f);
    v.assign_add((square(g) - v) * 0.001f);
    w.assign_sub(rate * m / (sqrt(v) + 1e-7f));
  }
};

struct Net {
  Adam w1, b1, w2, b2;
  int steps = 0;
  Net() : w1(sin(reshape_like(5, 10))), b1(zeros({10})), w2(cos(reshape_like(10, 1))), b2(zeros({1})) {}
  static Tensor reshape_like(std::int64_t rows, std::int64_t columns) {
    return matmul(linspace_column(rows), ones({1, columns})) + matmul(ones({rows, 1}), linspace_row(columns));
  }
  static Tensor linspace_column(std::int64_t n) {
    return Tensor::from(arange(0.f, static_cast<float>(n)).to_vector<float>(), {n, 1});
  }
  static Tensor linspace_row(std::int64_t n) {
    return Tensor::from(arange(0.f, static_cast<float>(n)).to_vector<float>(), {1, n});
  }

  float step(const Tensor& x, const Tensor& y) {
    GradientTape tape;
    const Tensor prediction = matmul(relu(matmul(x, w1.w) + b1.w), w2.w) + b2.w;
    const Tensor loss = reduce_mean(squared_difference(prediction, y));
    const auto g = tape.gradient(loss, std::vector{w1.w, b1.w, w2.w, b2.w});
    ++steps;
    const double correction = std::sqrt(1 - std::pow(0.999, steps)) / (1 - std::pow(0.9, steps));
    const auto rate = static_cast<float>(0.01 * correction);
    w1.step(g[0], rate), b1.step(g[1], rate), w2.step(g[2], rate), b2.step(g[3], rate);
    return loss.item<float>();
  }
};

}  // namespace

int main() {
  const Tensor x = ones({8}), y = full({8}, 2.f);
  require((x * y).to_vector<float>() == std::vector<float>(8, 2.f), "x * y");
  std::printf("eager multiply of 8 floats            %7.3f us (limit 0.5)\n",
              1e6 * bench::best_seconds([&] { const Tensor z = x * y; }));
  std::printf("the same, recorded                    %7.3f us (limit 1.0)\n", 1e6 * recorded_op_seconds(x, y));

  Net net;
  const Tensor inputs = sin(matmul(Net::linspace_column(1000), ones({1, 5})) + Net::linspace_row(5));
  const Tensor targets = reduce_sum(inputs, {.axes = 1, .keepdims = true});
  const float first = net.step(inputs, targets);
  for (int i = 0; i < 200; ++i) net.step(inputs, targets);
  require(net.step(inputs, targets) < 0.2f * first, "the 5-10-1 net learns");
  std::printf("eager step of 5-10-1, batch 1000      %7.1f us\n",
              1e6 * bench::best_seconds([&] { net.step(inputs, targets); }));
}
