// Claims about models and their inputs: separable convolutions, normalised series and images.
#include <cmath>

#include "bench/claims/claim.h"
#include "bench/claims/training.h"
#include "bench/support/timing.h"
#include "models/models.h"

namespace thalweg::bench {
namespace {

constexpr std::int64_t batch = 64;

Tensor images_of(const Tensor& bytes) { return expand_dims(cast(bytes, f32) / 255.f, 3); }

Run train_cnn(bool separable, const Examples& training, const Examples& test, double accuracy) {
  random::set_seed(2);
  models::SeparableCnn model({.stem = 16, .blocks = {32, 64, 128}, .separable = separable});
  optim::Adam adam({.learning_rate = 1e-3});
  const Goal goal{[accuracy](const Tensor& y, const Tensor& logits) { return class_accuracy(y, logits) >= accuracy; },
                  1500, 20};
  return train_until(model, class_loss, adam, shuffled_batches(training, batch), test, goal);
}

// The same net behind an input layer, or on the numbers as they are.
struct Normalised : nn::Layer {
  Normalised(const std::vector<nn::LayerMaker>& layers, const nn::NormalizationOptions& options, bool used)
      : normalise(*this, "normalise", options), net(*this, "net", layers), is_used(used) {}
  Tensor call(const Tensor& x) override { return net(is_used ? normalise(cast(x, f32)) : cast(x, f32)); }

  nn::Normalization normalise;
  nn::Sequential net;
  const bool is_used;
};

struct Trial {
  std::vector<nn::LayerMaker> layers;
  nn::NormalizationOptions statistics;
  LossFunction loss;
  Examples training, test;
  double goal = 0;
  std::int64_t most_steps = 0;
};

// Time to the goal, that of the statistics included.
Run train_trial(const Trial& trial, bool normalised) {
  random::set_seed(2);
  Normalised model(trial.layers, trial.statistics, normalised);
  const double statistics = normalised ? seconds([&] { model.normalise.adapt(cast(trial.training.x, f32)); }) : 0;
  optim::Adam adam({.learning_rate = 1e-3});
  Run run = train_until(model, trial.loss, adam, shuffled_batches(trial.training, batch), trial.test,
                        loss_goal(trial.loss, trial.goal, trial.most_steps));
  run.seconds += statistics;
  return run;
}

Findings compare_inputs(const Trial& trial) {
  const Run raw = train_trial(trial, false), normalised = train_trial(trial, true);
  const double less = 1 - normalised.seconds / raw.seconds;
  return {{text("loss %.3g", trial.goal),
           text("raw %s; normalised %s: %.0f %% less time%s", describe(raw).c_str(), describe(normalised).c_str(),
                100 * less, raw.reached ? "" : " at least"),
           normalised.reached && less >= 0.25}};
}

// Five measured quantities with units of their own, hour by hour: waves of a day with noise. What is asked for is the
// first one an hour later, in its deviations.
Examples weather(std::int64_t count, std::uint64_t seed) {
  constexpr std::int64_t hours = 32, quantities = 5;
  constexpr double pi = 3.14159265358979;
  const Tensor phase = random::uniform({count, 1, quantities}, {.high = 2 * pi, .seed = seed});
  const Tensor hour = reshape(cast(arange(0, hours + 1), f32), {1, hours + 1, 1});
  const Tensor noise = random::normal({count, hours + 1, quantities}, {.stddev = 0.1, .seed = seed + 1});
  const Tensor wave = sin(hour * static_cast<float>(2 * pi / 24) + phase) + noise;
  const Tensor units = tensor({8.f, 9.f, 0.2f, 4.f, 300.f}), means = tensor({15.f, 1013.f, 0.6f, 5.f, 400.f});
  return {slice(wave, {0, 0, 0}, {-1, hours, -1}) * units + means,
          reshape(slice(wave, {0, hours, 0}, {-1, 1, 1}), {count, 1})};
}

}  // namespace

Findings separable_against_full() {
  const auto data = fashion_mnist();
  if (!data) return {{"images", no_fashion_mnist}};
  const auto floats = [](const Examples& e) { return Examples{images_of(e.x), e.y}; };
  const Examples training = floats(data->training.first(20'000)), test = floats(data->test.first(1000));
  constexpr double accuracy = 0.84;
  const Run full = train_cnn(false, training, test, accuracy), separable = train_cnn(true, training, test, accuracy);
  const double less = 1 - separable.seconds / full.seconds;
  const auto each = [](const Run& run) { return 1e3 * run.seconds / static_cast<double>(run.steps); };
  return {{"a step", text("full %.1f ms, separable %.1f ms: %.0f %% less time", each(full), each(separable),
                          100 * (1 - each(separable) / each(full)))},
          {text("accuracy %.2f", accuracy),
           text("full %s; separable %s: %.0f %% less time", describe(full).c_str(), describe(separable).c_str(),
                100 * less),
           full.reached && separable.reached && less >= 0.4}};
}

Findings normalised_series() {
  return compare_inputs({.layers = {nn::lstm({.units = 32}), nn::dense(1)},
                         .statistics = {},
                         .loss = [](const Tensor& y, const Tensor& p) { return losses::mean_squared_error(y, p); },
                         .training = weather(4096, 1),
                         .test = weather(512, 7),
                         .goal = 0.05,
                         .most_steps = 3000});
}

Findings normalised_images() {
  const auto data = fashion_mnist();
  if (!data) return {{"images", no_fashion_mnist}};
  return compare_inputs({.layers = {nn::flatten(), nn::dense(128, relu), nn::dense(10)},
                         .statistics = {.axes = Axes::none()},
                         .loss = class_loss,
                         .training = data->training,
                         .test = data->test.first(2000),
                         .goal = 0.42,
                         .most_steps = 6000});
}

}  // namespace thalweg::bench
