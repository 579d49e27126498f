#include "bench/claims/training.h"

#include <filesystem>

#include "bench/claims/claim.h"
#include "bench/support/timing.h"

namespace thalweg::bench {
namespace {

constexpr const char* folder = "/usr/share/datasets/fashion-mnist/";  // Debian's dataset-fashion-mnist

Examples load(const std::string& kind) {
  return {data::load_idx(folder + kind + "-images-idx3-ubyte.gz"),
          data::load_idx(folder + kind + "-labels-idx1-ubyte.gz")};
}

Tensor first_rows(const Tensor& x, std::int64_t count) {
  Ints from(x.rank(), 0), size(x.rank(), -1);
  size[0] = count;
  return slice(x, from, size);
}

}  // namespace

const char* const no_fashion_mnist = "Fashion-MNIST is not installed: apt-get install dataset-fashion-mnist";

Examples Examples::first(std::int64_t count) const { return {first_rows(x, count), first_rows(y, count)}; }

std::optional<FashionMnist> fashion_mnist() {
  if (!std::filesystem::exists(folder)) return {};
  return FashionMnist{load("train"), load("t10k")};
}

data::Dataset shuffled_batches(const Examples& examples, std::int64_t batch) {
  return data::from_tensor_slices({examples.x, examples.y})
      .shuffle(examples.x.shape()[0], {.seed = 1})
      .batch(batch, {.drop_remainder = true})
      .repeat();
}

Tensor class_loss(const Tensor& labels, const Tensor& logits) {
  return reduce_mean(sparse_softmax_cross_entropy(cast(labels, i32), logits));
}

double class_accuracy(const Tensor& labels, const Tensor& logits) {
  return reduce_mean(cast(equal(argmax(logits, -1), cast(labels, i64)), f32)).item<double>();
}

Goal loss_goal(const LossFunction& loss, double value, std::int64_t most_steps) {
  return {[loss, value](const Tensor& y_true, const Tensor& y_pred) {
            return loss(y_true, y_pred).item<double>() <= value;
          },
          most_steps};
}

Run train_until(const train::Model& model, const LossFunction& loss, optim::Optimizer& optimizer,
                const data::Dataset& batches, const Examples& test, const Goal& goal) {
  const auto step = function([&](const Tensor& x, const Tensor& y) {
    const auto training = nn::training(true);
    GradientTape tape;
    Tensor value = loss(y, model({&x, 1}));
    const auto variables = model.module().trainable_variables();
    optimizer.apply(tape.gradient(value, variables), variables);
    return value;
  });
  const auto predict = function([&](const Tensor& x) { return model({&x, 1}); });
  auto iterator = batches.iterator();
  auto batch = *iterator.next();
  step.plan(batch[0], batch[1]);
  Run run;
  while (!run.reached && run.steps < goal.most_steps) {
    run.seconds += bench::seconds([&] {
      for (std::int64_t i = 0; i < goal.every; ++i, batch = *iterator.next()) step(batch[0], batch[1]).item<float>();
    });
    run.steps += goal.every;
    run.reached = goal.reached(test.y, predict(test.x));
  }
  return run;
}

std::string describe(const Run& run) {
  return text(run.reached ? "%lld steps, %.2f s" : "not in %lld steps, %.2f s", static_cast<long long>(run.steps),
              run.seconds);
}

}  // namespace thalweg::bench
