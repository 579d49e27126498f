// Claims about pipelines: how much to shuffle, and what prefetch and cache are worth.
#include <algorithm>
#include <numeric>

#include "bench/claims/claim.h"
#include "bench/claims/training.h"
#include "bench/support/timing.h"
#include "models/models.h"

namespace thalweg::bench {
namespace {

constexpr std::int64_t batch = 64;

Examples rows_of(const Examples& e) { return {reshape(cast(e.x, f32) / 255.f, {-1, 784}), e.y}; }

Examples sorted_by_class(const Examples& examples) {
  const auto labels = examples.y.to_vector<std::int64_t>();
  std::vector<std::int64_t> order(labels.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    return labels[static_cast<std::size_t>(a)] < labels[static_cast<std::size_t>(b)];
  });
  const Tensor by = Tensor::from(order, {static_cast<std::int64_t>(order.size())});
  return {gather(examples.x, by), gather(examples.y, by)};
}

// Accuracy after two epochs.
double accuracy_with_buffer(const Examples& sorted, const Examples& test, std::int64_t buffer) {
  random::set_seed(2);
  models::Mlp model({.hidden = {128}});
  optim::Adam adam({.learning_rate = 1e-3});
  const auto batches =
      data::from_tensor_slices({sorted.x, sorted.y}).shuffle(buffer, {.seed = 1}).batch(batch).repeat();
  double accuracy = 0;
  const std::int64_t steps = 2 * sorted.x.shape()[0] / batch;
  const auto look = [&](const Tensor& y, const Tensor& logits) {
    accuracy = class_accuracy(y, logits);
    return false;
  };
  train_until(model, class_loss, adam, batches, test, {look, steps, steps});
  return accuracy;
}

// An image blurred many times: an epoch of them takes about half as long as its steps.
Tensor costly(const Tensor& image) {
  Tensor x = cast(image, f32) / 255.f;
  for (int i = 0; i < 24; ++i) x = (x + roll(x, 1, 0) + roll(x, 1, 1)) / 3.f;
  return x;
}

struct Epochs {
  double input = 0, steps = 0;  // seconds of an epoch: of its input alone, of its steps alone
  double plain = 0, prefetched = 0, cached = 0, both = 0;
};

// Seconds of an epoch behind the first: the best of three.
template <class F>
double later_epoch(const data::Dataset& ds, const F& each) {
  double best = 1e30;
  for (int epoch = 0; epoch < 4; ++epoch) {
    const double spent = seconds([&] {
      for (const auto& e : ds) each(e);
    });
    if (epoch > 0) best = std::min(best, spent);
  }
  return best;
}

Epochs measure_epochs(const Examples& examples) {
  const auto source = data::from_tensor_slices({examples.x, examples.y});
  const auto made = source.map([](const Tensor& x, const Tensor& y) { return std::pair(costly(x), y); });
  models::Cnn model;
  optim::Adam adam;
  const auto step = function([&](const Tensor& x, const Tensor& y) {
    GradientTape tape;
    Tensor loss = class_loss(y, model(expand_dims(x, 3)));
    const auto variables = model.trainable_variables();
    adam.apply(tape.gradient(loss, variables), variables);
    return loss;
  });
  const auto train = [&](const data::Element& e) { step(e[0], e[1]).item<float>(); };
  const auto cached = made.cache();
  Epochs epochs;
  epochs.input = later_epoch(made.batch(batch), [](const data::Element&) {});
  const auto fixed = *made.batch(batch).iterator().next();
  epochs.steps = later_epoch(source.batch(batch), [&](const data::Element&) { train(fixed); });
  epochs.plain = later_epoch(made.batch(batch), train);
  epochs.prefetched = later_epoch(made.batch(batch).prefetch(), train);
  epochs.cached = later_epoch(cached.batch(batch), train);
  epochs.both = later_epoch(cached.batch(batch).prefetch(), train);
  return epochs;
}

}  // namespace

Findings shuffle_buffers() {
  const auto data = fashion_mnist();
  if (!data) return {{"images", no_fashion_mnist}};
  const Examples sorted = sorted_by_class(rows_of(data->training.first(20'000)));
  const Examples test = rows_of(data->test.first(2000));
  const double whole = accuracy_with_buffer(sorted, test, sorted.x.shape()[0]);
  const double none = accuracy_with_buffer(sorted, test, 1), some = accuracy_with_buffer(sorted, test, 1000);
  return {{"the whole set", text("accuracy %.3f after two epochs of 20,000 images", whole)},
          {"a buffer of 1", text("accuracy %.3f: not shuffling costs %.0f points", none, 100 * (whole - none)),
           none < whole - 0.02},
          {"a buffer of 1,000", text("accuracy %.3f: %.0f points below the whole", some, 100 * (whole - some)),
           some > whole - 0.02}};
}

Findings prefetch_and_cache() {
  const auto data = fashion_mnist();
  if (!data) return {{"images", no_fashion_mnist}};
  const Epochs e = measure_epochs(data->training.first(6400));
  return {
      {"parts", text("input alone %.2f s, steps alone %.2f s; one after the other %.2f s", e.input, e.steps, e.plain)},
      {"prefetch", text("%.2f s; the longer of the two is %.2f s", e.prefetched, std::max(e.input, e.steps)),
       e.prefetched <= 1.1 * std::max(e.input, e.steps)},
      {"cache", text("%.2f s; steps alone %.2f s", e.cached, e.steps), e.cached <= 1.1 * e.steps},
      {"cache and prefetch", text("%.2f s; steps alone %.2f s", e.both, e.steps), e.both <= 1.1 * e.steps}};
}

}  // namespace thalweg::bench
