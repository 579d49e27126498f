// One update by 1,024 examples: at once, and as 8 micro-batches of 128 that are accumulated. Compiled steps with Adam.
#include <cstdio>
#include <memory>

#include "bench/support/timing.h"
#include "models/models.h"

using namespace thalweg;

namespace {

constexpr std::int64_t examples = 1024, parts = 8;
constexpr double most_memory = 1.0 / 6, most_time = 1.10;

// A model with a step over batches of one size.
struct Training {
  Training(std::unique_ptr<nn::Sequential> m, int accumulate_steps)
      : model(std::move(m)), adam({.accumulate_steps = accumulate_steps}) {}

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
        const Tensor loss = losses::sparse_categorical_crossentropy(y, (*model)(x), {.from_logits = true});
        adam.apply(tape.gradient(loss, model->trainable_variables()), model->trainable_variables(),
                   {.examples = x.shape()[0]});
        return loss;
      },
      {}};
};

// Where weights are more than activations, as in an mlp, every micro-batch walks over all of them: no limits there.
template <class Model>
bool compare(const char* name, const Shape& example, bool limited) {
  std::vector<std::int64_t> shape(example.begin(), example.end());
  shape.insert(shape.begin(), examples);
  const Tensor x = random::normal(Shape(shape), {.seed = 1});
  const Tensor y = random::uniform({examples}, {.low = 0, .high = 10, .seed = 2, .dtype = i32});
  const auto xs = split(x, parts, 0), ys = split(y, parts, 0);
  random::set_seed(3);
  Training whole(std::make_unique<Model>(), 1);
  random::set_seed(3);
  Training accumulated(std::make_unique<Model>(), parts);
  const auto at_once = [&] { whole.call(x, y); };
  const auto in_parts = [&] {
    for (std::size_t i = 0; i < parts; ++i) accumulated.call(xs[i], ys[i]);
  };
  at_once(), in_parts();
  double difference = 0;
  for (std::size_t i = 0; i < whole.model->variables().size(); ++i)
    difference = std::max(
        difference, reduce_max(abs(whole.model->variables()[i] - accumulated.model->variables()[i])).item<double>());
  double once = 1e9, cut = 1e9;
  for (int round = 0; round < 4; ++round) {
    once = std::min(once, bench::best_seconds(at_once, 1));
    cut = std::min(cut, bench::best_seconds(in_parts, 1));
  }
  const double memory = double(accumulated.activation_bytes(xs[0], ys[0])) / double(whole.activation_bytes(x, y));
  std::printf("%-4s 1 x 1024 %7.1f ms, 8 x 128 %7.1f ms: x%.2f; arena x%.3f; first updates differ by %.0e\n", name,
              1e3 * once, 1e3 * cut, cut / once, memory, difference);
  if (limited) std::printf("     limits x%.2f and x%.3f\n", most_time, most_memory);
  return (!limited || memory <= most_memory) && difference < 1e-3;
}

}  // namespace

int main() {
  const bool good = compare<models::Mlp>("mlp", {784}, false);
  return compare<models::Cnn>("cnn", {28, 28, 1}, true) && good ? 0 : 1;
}
