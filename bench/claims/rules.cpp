// Optimizers on the same model and data, each with the rate that find_learning_rate gives it.
#include "bench/claims/claim.h"
#include "bench/claims/training.h"
#include "models/models.h"
#include "models/optimizers.h"

namespace thalweg::bench {
namespace {

struct Rule {
  const char* title;
  models::OptimizerChoice choice;
};

const std::vector<Rule>& rules() {
  static const std::vector<Rule> list = {
      {"SGD", {.name = "sgd"}},         {"momentum", {.name = "sgd", .momentum = 0.9}},
      {"RMSprop", {.name = "rmsprop"}}, {"Adam", {.name = "adam"}},
      {"Nadam", {.name = "nadam"}},     {"AdamW", {.name = "adamw"}},
  };
  return list;
}

struct Trained {
  double rate = 0;
  Run run;
};

Trained train(const Rule& rule, const Examples& training, const Examples& test, double goal) {
  random::set_seed(2);
  models::Mlp model({.hidden = {128}});
  const auto optimizer = models::make_optimizer(rule.choice);
  const auto batches = shuffled_batches(training, 64);
  const auto found = train::find_learning_rate(
      model, batches, {.optimizer = optimizer.get(), .loss = class_loss, .first = 1e-5, .last = 3, .steps = 150});
  optimizer->set_learning_rate(found.suggestion);
  return {found.suggestion,
          train_until(model, class_loss, *optimizer, batches, test, loss_goal(class_loss, goal, 8000))};
}

}  // namespace

Findings optimizers() {
  const auto data = fashion_mnist();
  if (!data) return {{"images", no_fashion_mnist}};
  const auto rows = [](const Examples& e) { return Examples{reshape(cast(e.x, f32) / 255.f, {-1, 784}), e.y}; };
  const Examples training = rows(data->training), test = rows(data->test.first(2000));
  constexpr double goal = 0.42;
  Findings findings;
  std::int64_t plain = 0;
  for (const auto& rule : rules()) {
    const Trained trained = train(rule, training, test, goal);
    const bool is_plain = findings.empty();
    if (is_plain) plain = trained.run.steps;
    findings.push_back({rule.title,
                        text("rate %.2g: %s to the loss %.2f", trained.rate, describe(trained.run).c_str(), goal),
                        is_plain ? std::nullopt : std::optional(trained.run.reached && trained.run.steps < plain)});
  }
  return findings;
}

}  // namespace thalweg::bench
