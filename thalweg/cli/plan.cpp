#include <iostream>
#include <nlohmann/json.hpp>

#include "models/steps.h"
#include "thalweg/cli/commands.h"
#include "thalweg/thalweg.h"

namespace thalweg::cli {
namespace {

models::TrainingStep make_step(const PlanOptions& options) {
  try {
    return models::make_step(options.model, {options.batch, parse_settings("--set", options.settings)});
  } catch (const Error& wrong) {
    throw UsageError(wrong.what());
  }
}

void print_json(const models::TrainingStep& step, const std::string& answer) {
  nlohmann::ordered_json out{{"model", step.model}, {"batch", step.batch}};
  out.update(nlohmann::ordered_json::parse(answer));
  std::cout << out.dump() << '\n';
}

}  // namespace

void plan(const PlanOptions& options) {
  const models::TrainingStep step = make_step(options);
  const std::int64_t budget = options.memory_budget.empty() ? 0 : parse_size(options.memory_budget);
  const auto compiled = function(
      step.run, {.name = step.model, .memory_budget = budget, .precision = parse_precision(options.precision)});
  try {
    const Plan& made = compiled.plan(step.arguments);
    if (!options.svg.empty()) made.write_svg(options.svg);
    if (options.json)
      print_json(step, made.json());
    else
      std::cout << made.report();
  } catch (const InfeasibleBudget& none) {  // an answer too
    if (options.json)
      print_json(step, none.json());
    else
      std::cout << "no plan fits\n" << none.what() << '\n';
  }
}

}  // namespace thalweg::cli
