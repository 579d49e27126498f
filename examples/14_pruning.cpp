// How much of a network is needed? Small weights are pruned while it trains on; then whole units are, and taken out.
#include <thalweg/thalweg.h>

#include <chrono>
#include <cstdio>
#include <vector>

namespace {

std::vector<tw::nn::LayerMaker> layers() {
  return {tw::nn::dense(256, tw::relu), tw::nn::dense(256, tw::relu), tw::nn::dense(1)};
}

// Two points side by side, and whether the first is farther from the origin.
std::pair<tw::Tensor, tw::Tensor> examples(std::int64_t count, std::uint64_t seed) {
  const tw::Tensor x = tw::random::normal({count, 4}, {.seed = seed});
  const auto squares = tw::split(tw::square(x), 2, 1);
  const auto length = [](const tw::Tensor& s) { return tw::reduce_sum(s, {.axes = 1, .keepdims = true}); };
  return {x, tw::cast(length(squares[0]) > length(squares[1]), tw::f32)};
}

struct Trainer {
  explicit Trainer(tw::nn::Sequential& m) : model(m) {}

  tw::nn::Sequential& model;
  tw::optim::Adam adam{{.learning_rate = 2e-3}};
  std::uint64_t seed = 0;
  tw::Function<std::function<tw::Tensor(tw::Tensor, tw::Tensor)>> step =
      tw::function(std::function<tw::Tensor(tw::Tensor, tw::Tensor)>([this](const tw::Tensor& x, const tw::Tensor& y) {
        tw::GradientTape tape;
        tw::Tensor loss = tw::losses::binary_crossentropy(y, model(x), {.from_logits = true});
        adam.apply(tape.gradient(loss, model.trainable_variables()), model.trainable_variables());
        return loss;
      }));

  void train(int steps, tw::nn::Pruning* pruning = nullptr) {
    for (int i = 0; i < steps; ++i) {
      if (pruning) pruning->update(i);
      const auto [x, y] = examples(128, ++seed);
      step(x, y);
    }
  }
  double accuracy() const {
    const auto [x, y] = examples(4000, 12345);
    tw::metrics::BinaryAccuracy metric({.threshold = 0});
    metric.update(y, model(x));
    return metric.result().item<double>();
  }
  double milliseconds() {
    train(5);
    const auto begin = std::chrono::steady_clock::now();
    train(50);
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() / 50;
  }
};

std::int64_t parameters(const tw::nn::Module& model) {
  std::int64_t count = 0;
  for (const auto& variable : model.variables()) count += variable.shape().size();
  return count;
}

}  // namespace

int main() {
  tw::random::set_seed(1);
  tw::nn::Sequential model(layers());
  Trainer trainer(model);
  trainer.train(300);
  const double whole = trainer.accuracy();
  std::printf("trained:                     accuracy %.3f, %lld parameters\n", whole, (long long)parameters(model));

  auto pruning = tw::nn::prune(model, {.sparsity = 0.9, .schedule = tw::nn::PruneSchedule{.end = 200, .every = 20}});
  trainer.train(300, &pruning);
  std::printf("90 %% of the kernels pruned:  accuracy %.3f\n", trainer.accuracy());

  tw::nn::Sequential other(layers());
  Trainer units(other);
  units.train(300);
  tw::nn::prune(other, {.sparsity = 0.8, .structured = true});
  std::printf("80 %% of the units pruned:    accuracy %.3f at once", units.accuracy());
  units.train(300);
  const double pruned = units.accuracy(), before = units.milliseconds();
  std::printf(", %.3f after more training, %.2f ms a step\n", pruned, before);

  const auto small = tw::nn::shrink(other);
  const tw::Tensor x = examples(100, 7).first;
  const double apart = tw::reduce_max(tw::abs(other(x) - (*small)(x))).item<double>();
  Trainer rest(*small);
  const double same = rest.accuracy(), after = rest.milliseconds();
  std::printf("shrunk:                      accuracy %.3f, %lld parameters, %.2f ms a step; results differ by %.0e\n",
              same, (long long)parameters(*small), after, apart);
  return whole > 0.9 && pruned > 0.9 && apart < 1e-4 && after < before ? 0 : 1;
}
