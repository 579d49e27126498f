// One update by 1,024 examples: at once, and as 8 micro-batches of 128 that are accumulated. Compiled steps with Adam.
#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>

#include "bench/support/timing.h"
#include "models/models.h"
#include "thalweg/backend/cpu/gemm.h"

using namespace thalweg;

namespace {

constexpr std::int64_t examples = 1024, parts = 8;
constexpr double most_memory = 1.0 / 6, most_time = 1.10;
constexpr int rounds = 16;
constexpr double small_gradient = 1e-4;  // Adam makes whole steps of smaller ones, also of what is but rounding

// A model with a step over batches of one size.
struct Training {
  Training(std::unique_ptr<nn::Sequential> m, int accumulate_steps)
      : model(std::move(m)), adam({.epsilon = small_gradient, .accumulate_steps = accumulate_steps}) {}

  Tensor call(const Tensor& x, const Tensor& y) { return step(x, y); }

  // Beyond variables and results.
  std::int64_t activation_bytes(const Tensor& x, const Tensor& y) {
    std::int64_t bytes = step.plan(x, y).peak_bytes();
    for (const auto& variable : model->variables()) bytes -= variable.value().bytes();
    for (const auto& state : adam.variables()) bytes -= state.value().bytes();
    return bytes;
  }

  std::unique_ptr<nn::Sequential> model;
  optim::Adam adam;
  Function<std::function<Tensor(const Tensor&, const Tensor&)>> step{
      [this](const Tensor& x, const Tensor& y) {
        const auto scope = nn::training(true);
        GradientTape tape;
        Tensor loss = losses::sparse_categorical_crossentropy(y, (*model)(x), {.from_logits = true});
        adam.apply(tape.gradient(loss, model->trainable_variables()), model->trainable_variables(),
                   {.examples = x.shape()[0]});
        return loss;
      },
      {}};
};

// The difference of the models after the first update.
double first_updates_differ(Training& whole, Training& accumulated, const std::function<void()>& at_once,
                            const std::function<void()>& in_parts) {
  random::set_seed(3);  // weights are drawn at the first call
  at_once();
  random::set_seed(3);
  in_parts();
  double difference = 0;
  const auto a = whole.model->variables(), b = accumulated.model->variables();
  for (std::size_t i = 0; i < a.size(); ++i)
    difference = std::max(difference, reduce_max(abs(a[i] - b[i])).item<double>());
  return difference;
}

struct Times {
  double once = 1e9, cut = 1e9;
  double ratio() const { return cut / once; }
};

// The best of both, in turn.
Times times_of(const std::function<void()>& at_once, const std::function<void()>& in_parts) {
  Times times;
  for (int round = 0; round < rounds; ++round) {
    times.once = std::min(times.once, bench::seconds(at_once));
    times.cut = std::min(times.cut, bench::seconds(in_parts));
  }
  return times;
}

// Where weights are more than activations, as in an mlp, the arena is mostly their gradients: no limit of memory there.
template <class Model>
bool compare(const char* name, const Shape& example, bool limited) {
  std::vector<std::int64_t> shape(example.begin(), example.end());
  shape.insert(shape.begin(), examples);
  const Tensor x = random::normal(Shape(shape), {.seed = 1});
  const Tensor y = random::uniform({examples}, {.low = 0, .high = 10, .seed = 2, .dtype = i32});
  const auto xs = split(x, parts, 0), ys = split(y, parts, 0);
  Training whole(std::make_unique<Model>(), 1), accumulated(std::make_unique<Model>(), parts);
  const auto at_once = [&] { whole.call(x, y); };
  const auto in_parts = [&] {
    for (std::size_t i = 0; i < parts; ++i) accumulated.call(xs[i], ys[i]);
  };
  const double difference = first_updates_differ(whole, accumulated, at_once, in_parts);
  const Times times = times_of(at_once, in_parts);
  const double memory = double(accumulated.activation_bytes(xs[0], ys[0])) / double(whole.activation_bytes(x, y));
  std::printf(
      "%-8s 1 x 1024 %6.1f ms, 8 x 128 %6.1f ms: x%.2f (limit %.2f); arena x%.3f; first updates differ by %.0e\n", name,
      1e3 * times.once, 1e3 * times.cut, times.ratio(), most_time, memory, difference);
  return (!limited || memory <= most_memory) && difference < 1e-3;
}

// The products of a dense net by themselves, forward and backward.
class Products {
 public:
  // adding: weight gradients are added to what stands there.
  Products(const std::vector<std::int64_t>& sizes, std::int64_t batch, bool adding) {
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
      const std::int64_t in = sizes[i], out = sizes[i + 1];
      add({.m = batch, .n = out, .k = in}, 0);
      add({.m = in, .n = out, .k = batch, .transpose_a = true, .accumulate = adding}, gradients_);
      if (i > 0) add({.m = batch, .n = in, .k = out, .transpose_b = true}, 0);
      gradients_ += static_cast<std::size_t>(in * out);
    }
    results_.resize(gradients_);
  }

  void run() {
    for (const auto& [gemm, to] : list_)
      cpu::gemm(gemm, operand_.data(), operand_.data(), results_.data() + to,
                std::as_writable_bytes(std::span(workspace_)));
  }

 private:
  static constexpr std::size_t activations = 1 << 20;  // in front of the gradients

  void add(const cpu::Gemm& gemm, std::size_t to) {
    list_.emplace_back(gemm, to);
    workspace_.resize(std::max(workspace_.size(), cpu::gemm_workspace(gemm) / sizeof(Line) + 1));
  }

  std::vector<std::pair<cpu::Gemm, std::size_t>> list_;
  std::size_t gradients_ = activations;
  std::vector<float> operand_ = std::vector<float>(1 << 20, 0.5f), results_;
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> workspace_;
};

// What no way of accumulation can be faster than: the same products in parts, and in parts that are added up.
void compare_products(const std::vector<std::int64_t>& sizes) {
  for (const bool adding : {false, true}) {
    Products whole(sizes, examples, false), part(sizes, examples / parts, adding);
    const Times times = times_of([&] { whole.run(); },
                                 [&] {
                                   for (int i = 0; i < parts; ++i) part.run();
                                 });
    std::printf("  its products alone%s: %.1f ms, %.1f ms: x%.2f\n", adding ? ", added up" : "", 1e3 * times.once,
                1e3 * times.cut, times.ratio());
  }
}

}  // namespace

int main() {
  const bool good = compare<models::Mlp>("mlp", {784}, false);
  compare_products({784, 1024, 1024, 10});
  return compare<models::Cnn>("cnn", {28, 28, 1}, true) && good ? 0 : 1;
}
