#include "thalweg/train/step.h"

#include <algorithm>

#include "thalweg/autodiff/tape.h"
#include "thalweg/core/check.h"
#include "thalweg/losses/reduction.h"
#include "thalweg/nn/training.h"
#include "thalweg/ops/ops.h"

namespace thalweg::train {
namespace {

// The weight of each label, as a factor of the examples' own weights, which may have fewer axes than the labels, or one
// of size 1 more.
Tensor weights_by_class(const Batch& batch, const std::map<std::int64_t, double>& weights) {
  TW_CHECK_USER(!is_float(batch.labels.dtype()) && batch.labels.dtype() != boolean, "fit",
                ".class_weights are for labels that are numbers of classes",
                "expected labels of an integer dtype, got {} {}", batch.labels.shape(), batch.labels.dtype());
  const Tensor labels = cast(batch.labels, i64);  // where 257 is not 1, as it is in u8
  Tensor factor = ones(labels.shape());
  for (const auto& [label, weight] : weights) factor = where(labels == label, full_like(factor, weight), factor);
  if (!batch.weights.defined()) return factor;
  return losses::fitted_weights("fit", "weights of the examples", batch.weights, labels.shape()) * factor;
}

Tensor loss_of(const Model& model, const StepOptions& options, const Tensorlist& element, Tensor& predictions) {
  Batch batch = parts_of(model, element);
  if (!options.class_weights.empty()) batch.weights = weights_by_class(batch, options.class_weights);
  TW_CHECK_USER(!batch.weights.defined() || options.loss.takes_weights(), "fit",
                "take the weights as a third argument: [](Tensor y, Tensor p, Tensor w) { … {.sample_weight = w} … }",
                "expected a loss that takes the examples' weights, got one over labels and predictions alone");
  predictions = model(batch.inputs);
  const Tensor loss = options.loss(batch.labels, predictions, batch.weights);
  TW_CHECK_USER(loss.rank() == 0, "fit", "reduce it: tw::reduce_mean(loss)", "expected a loss of shape [], got {}",
                loss.shape());
  return loss + cast(model.module().regularization_loss(), loss.dtype());
}

Tensor norms_of(const std::vector<Gradient>& gradients, const LossScale* scale) {
  Tensorlist norms;
  for (const auto& gradient : gradients)
    norms.push_back(gradient.defined() ? cast(global_norm({gradient}), f32) : zeros({}));
  const Tensor all = norms.empty() ? zeros({0}) : stack(norms, 0);  // none: the model is frozen
  return scale ? all / cast(scale->value(), f32) : all;
}

Tensorlist packed(const StepOptions& options, const StepResult& result) {
  Tensorlist results{result.loss};
  if (options.predictions) results.push_back(result.predictions);
  if (options.norms) results.push_back(result.norms);
  if (result.norm.defined()) results.push_back(result.norm);
  return results;
}

Tensorlist train_on(const Model& model, const StepOptions& options, optim::Optimizer& optimizer,
                    const Tensorlist& element) {
  const auto training = nn::training(true);
  GradientTape tape;
  Tensor predictions;
  const Tensor loss = loss_of(model, options, element, predictions);
  const auto variables = model.module().trainable_variables();
  const auto gradients = tape.gradient(options.scale ? options.scale->scale(loss) : loss, variables);
  StepResult result{loss, predictions, {}, {}};
  if (options.norms) result.norms = norms_of(gradients, options.scale);
  // Of one update alone the norm is that of its gradients.
  const bool accumulates = options.norms && optimizer.accumulate_steps() > 1;
  optimizer.apply(gradients, variables,
                  {.examples = element[0].shape()[0],
                   .loss_scale = options.scale,
                   .gradient_norm = accumulates ? &result.norm : nullptr});
  return packed(options, result);
}

Tensorlist look_at(const Model& model, const StepOptions& options, const Tensorlist& element) {
  const auto training = nn::training(false);
  Tensor predictions;
  const Tensor loss = loss_of(model, options, element, predictions);
  return packed(options, {loss, predictions, {}, {}});
}

std::function<Tensorlist(const Tensorlist&)> body_of(const Model& model, const StepOptions& options,
                                                     optim::Optimizer* optimizer) {
  if (!optimizer) return [model, options](const Tensorlist& element) { return look_at(model, options, element); };
  return
      [model, options, optimizer](const Tensorlist& element) { return train_on(model, options, *optimizer, element); };
}

Tensorlist list_of(const data::Element& element) { return {element.begin(), element.end()}; }

bool any_wants_norms(const std::vector<CallbackPointer>& callbacks) {
  return std::any_of(callbacks.begin(), callbacks.end(),
                     [](const auto& callback) { return callback->wants_gradient_norms(); });
}

void check(const char* caller, const FitOptions& options) {
  TW_CHECK_USER(options.optimizer != nullptr, caller, "give one: {.optimizer = &adam}",
                "expected an optimizer, got none");
  TW_CHECK_USER(options.accumulate_steps >= 0, caller, "0 leaves it to the optimizer",
                "expected .accumulate_steps of 0 or more, got {}", options.accumulate_steps);
  for (const auto* metric : options.metrics)
    TW_CHECK_USER(metric != nullptr, caller, "give pointers to metrics that live: {.metrics = {&accuracy}}",
                  "expected a metric, got a null pointer");
  for (const auto& callback : options.callbacks)
    TW_CHECK_USER(callback != nullptr, caller, "leave it out", "expected a callback, got a null pointer");
}

}  // namespace

StepOptions training_step(const char* caller, const FitOptions& options, LossScale& scale) {
  check(caller, options);
  if (options.accumulate_steps > 0) options.optimizer->set_accumulate_steps(options.accumulate_steps);
  return {.loss = options.loss,
          .class_weights = options.class_weights,
          .memory_budget = options.memory_budget,
          .precision = options.precision,
          .scale = options.precision == Precision::f16 ? &scale : nullptr,
          .predictions = !options.metrics.empty(),
          .norms = any_wants_norms(options.callbacks),
          .eager = options.eager};
}

std::shared_ptr<const Plan> plan_step(const Model& model, const std::vector<Spec>& batch, const FitOptions& options) {
  struct Planned {
    LossScale scale;
    BatchFunction step;
    Planned(const Model& model, const FitOptions& options)
        : step("train_step", model, training_step("plan_step", options, scale), options.optimizer) {}
  };
  TW_CHECK_USER(!options.eager, "plan_step", "leave .eager out", "expected steps that are compiled, got .eager");
  const auto planned = std::make_shared<Planned>(model, options);
  return {planned, &planned->step.plan(batch)};
}

Batch parts_of(const Model& model, const Tensorlist& element) {
  const auto inputs = static_cast<std::size_t>(model.inputs());
  TW_CHECK_USER(element.size() == inputs + 1 || element.size() == inputs + 2, "fit",
                "elements are the inputs, the labels, and if there are any the examples' weights",
                "expected elements of {} or {} parts for a model with {} inputs, got {}", inputs + 1, inputs + 2,
                inputs, element.size());
  for (const auto& part : element)
    TW_CHECK_USER(part.rank() > 0 && part.shape()[0] == element[0].shape()[0], "fit", "batch the data: ds.batch(32)",
                  "expected batches with as many examples in every part, got parts of shape {} and {}",
                  element[0].shape(), part.shape());
  return {{element.data(), inputs}, element[inputs], element.size() > inputs + 1 ? element[inputs + 1] : Tensor()};
}

BatchFunction::BatchFunction(std::string name, const Model& model, const StepOptions& options,
                             optim::Optimizer* optimizer)
    : model_(model),
      options_(options),
      body_(body_of(model, options, optimizer)),
      compiled_(body_,
                {.name = std::move(name), .memory_budget = options.memory_budget, .precision = options.precision}) {
  TW_CHECK_USER(!options.eager || options.precision == Precision::f32, "fit", "leave .precision or .eager out",
                "expected f32 where steps are not compiled, got {}", dtype_of(options.precision));
  TW_CHECK_USER(!options.eager || options.memory_budget == 0, "fit", "leave .memory_budget or .eager out",
                "expected no budget where steps are not compiled, got {}", format_bytes(options.memory_budget));
  TW_CHECK_USER(static_cast<bool>(options.loss), "fit", "give one: {.loss = tw::losses::mean_squared_error}",
                "expected a loss, got none");
}

StepResult BatchFunction::operator()(const data::Element& element) const {
  Tensorlist results = options_.eager ? body_(list_of(element)) : compiled_(list_of(element));
  StepResult result{results[0], {}, {}, {}};
  std::size_t next = 1;
  if (options_.predictions) result.predictions = results[next++];
  if (options_.norms) result.norms = results[next++];
  if (next < results.size()) result.norm = results[next];
  return result;
}

const Plan* BatchFunction::plan(const data::Element& element) const {
  return options_.eager ? nullptr : &compiled_.plan(list_of(element));
}

const Plan& BatchFunction::plan(const std::vector<Spec>& element) const { return compiled_.plan(element); }

}  // namespace thalweg::train
