#include <iostream>
#include <nlohmann/json.hpp>

#include "thalweg/cli/run.h"
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

// The step of `train`, which has the predictions that a test is made of and the norms of the gradients for results,
// too.
class ReportingStep {
 public:
  ReportingStep(const models::TrainingStep& step, bool scaled)
      : step_(step), scaled_(scaled), optimizer_(models::make_optimizer(step.optimizer)) {}

  std::vector<Tensor> operator()(const std::vector<Tensor>& arguments) {
    const auto training = nn::training(true);
    const auto inputs = static_cast<std::size_t>(step_.inputs);
    GradientTape tape;
    const Tensor predictions = step_.call({arguments.data(), inputs});
    const Tensor error = step_.loss(arguments[inputs], predictions, {});
    const Tensor loss = error + cast(step_.module->regularization_loss(), error.dtype());
    const auto variables = step_.module->trainable_variables();
    const auto gradients = tape.gradient(scaled_ ? scale_.scale(loss) : loss, variables);
    std::vector<Tensor> results{loss};
    if (has_metric(step_.model)) results.push_back(predictions);
    results.push_back(norms_of(gradients));
    optimizer_->apply(gradients, variables,
                      {.examples = arguments[0].shape()[0], .loss_scale = scaled_ ? &scale_ : nullptr});
    return results;
  }

 private:
  Tensor norms_of(const std::vector<Gradient>& gradients) const {
    std::vector<Tensor> norms;
    for (const auto& gradient : gradients) norms.push_back(cast(global_norm({gradient}), f32));
    const Tensor all = stack(norms, 0);
    return scaled_ ? all / cast(scale_.value(), f32) : all;
  }

  const models::TrainingStep& step_;
  const bool scaled_;
  LossScale scale_;
  const std::unique_ptr<optim::Optimizer> optimizer_;
};

void print_json(const models::TrainingStep& step, const std::string& answer) {
  nlohmann::ordered_json out{{"model", step.model}, {"batch", step.batch}};
  out.update(nlohmann::ordered_json::parse(answer));
  std::cout << out.dump() << '\n';
}

}  // namespace

int plan(const PlanOptions& options) {
  const models::TrainingStep step = make_step(options);
  const std::int64_t budget = options.memory_budget.empty() ? 0 : parse_size(options.memory_budget);
  const Precision precision = parse_precision(options.precision);
  ReportingStep run(step, precision == Precision::f16);
  const auto compiled = function([&run](const std::vector<Tensor>& arguments) { return run(arguments); },
                                 {.name = step.model, .memory_budget = budget, .precision = precision});
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
    return failed;
  }
  return good;
}

}  // namespace thalweg::cli
