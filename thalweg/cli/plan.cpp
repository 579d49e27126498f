#include <iostream>
#include <nlohmann/json.hpp>

#include "thalweg/cli/run.h"
#include "thalweg/cli/waiting.h"
#include "thalweg/thalweg.h"

namespace thalweg::cli {
namespace {

models::TrainingStep make_step(const PlanOptions& options) {
  try {
    return models::make_step(options.model, {options.batch, parse_settings("--set", options.settings)});
  } catch (const Error& wrong) {
    if (wrong.code() == ErrorCode::invalid_argument) throw UsageError(wrong.what());
    throw;
  }
}

void print_json(const models::TrainingStep& step, const std::string& answer) {
  nlohmann::ordered_json out{{"model", step.model}, {"batch", step.batch}};
  out.update(nlohmann::ordered_json::parse(answer));
  std::cout << out.dump() << '\n';
}

// A deep model under a budget that hardly fits, or does not, can take a while.
std::shared_ptr<const Plan> plan_of(const models::TrainingStep& step, const train::FitOptions& options) {
  const Waiting waiting("looking for a plan that fits");
  return train::plan_step(step.trained(), step.arguments, options);
}

}  // namespace

int plan(const PlanOptions& options) {
  limit_memory();
  const models::TrainingStep step = make_step(options);
  const std::int64_t budget = options.memory_budget.empty() ? 0 : parse_size(options.memory_budget);
  const auto optimizer = models::make_optimizer(step.optimizer);
  const ModelMetric measured = metric_of(options.model, parse_settings("--set", options.settings));
  train::FitOptions fit{.optimizer = optimizer.get(),
                        .loss = step.loss,
                        .memory_budget = budget,
                        .precision = parse_precision(options.precision),
                        .callbacks = {std::make_shared<WithGradientNorms>()}};
  if (measured.metric) fit.metrics = {measured.metric.get()};
  try {
    const auto made = plan_of(step, fit);
    if (!options.svg.empty()) made->write_svg(options.svg);
    if (options.json)
      print_json(step, made->json());
    else
      std::cout << made->report();
  } catch (const InfeasibleBudget& none) {  // an answer too
    if (options.json)
      print_json(step, none.json());
    else
      std::cout << "no plan fits\n" << none.what() << '\n';
  }
  return good;
}

}  // namespace thalweg::cli
