#include "thalweg/optim/pipeline.h"

#include <unordered_set>

#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/log.h"
#include "thalweg/ops/clip/clip.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/row_language.h"
#include "thalweg/ops/widen.h"

namespace thalweg::optim {
namespace {

void check_gradient(const Gradient& gradient, const Variable& variable) {
  TW_CHECK_USER(gradient.shape() == variable.shape(), "apply",
                "give the gradients in the order of the variables, as tape.gradient returns them",
                "variable \"{}\": expected a gradient of shape {}, got {}", variable.name(), variable.shape(),
                gradient.shape());
  TW_CHECK_USER(is_float(gradient.dtype()) && is_float(variable.dtype()), "apply",
                "only float variables can be trained", "variable \"{}\" of {}: expected floats, got a gradient of {}",
                variable.name(), variable.dtype(), gradient.dtype());
}

void warn_of_undefined(const std::vector<std::string>& names) {
  std::string list;
  for (const auto& name : names) list += (list.empty() ? "\"" : ", \"") + name + "\"";
  warn("apply: no gradient for " + list + "; the loss does not depend on them, they stay as they are");
}

// The dense gradient as the update reads it.
Tensor dense_for(const Gradient& gradient, DType variable) {
  const Tensor g = gradient.dense();
  return g.dtype() == variable ? g : cast(g, wide(variable));
}

// {the mean of what was added so far, the sum to go on with} from sum, g, the weights of g and of all, due
const WrittenProgram& accumulation() {
  static const WrittenProgram& program = write_program(5, [](const Expressions& in) {
    using namespace rows;
    const Expression sum = in[0] + in[1] * in[2];
    return Expressions{sum / in[3], where(in[4], 0, sum)};
  });
  return program;
}

}  // namespace

Tensor number_for(const Tensor& number, DType variable) { return cast(number, wide(variable)); }

std::vector<Pipeline::Item> Pipeline::items_of(const std::vector<Gradient>& gradients,
                                               const std::vector<Variable>& variables) {
  TW_CHECK_USER(gradients.size() == variables.size(), "apply", "give one gradient for each variable",
                "expected as many gradients as variables, got {} and {}", gradients.size(), variables.size());
  std::vector<Item> items;
  std::vector<std::string> undefined;
  std::unordered_set<std::uint64_t> seen;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const auto place = places_.find(variables[i].id());
    TW_CHECK_USER(place != places_.end(), "apply",
                  "an optimizer keeps the variables of its first apply(); make a new one for others",
                  "expected a variable of the first call, got \"{}\"", variables[i].name());
    TW_CHECK_USER(seen.insert(variables[i].id()).second, "apply", "name every variable once",
                  "expected different variables, got \"{}\" twice", variables[i].name());
    if (!gradients[i].defined()) {
      undefined.push_back(variables[i].name());
      continue;
    }
    check_gradient(gradients[i], variables[i]);
    items.push_back({&entries_[place->second], gradients[i], {}});
  }
  TW_CHECK_USER(!items.empty(), "apply", "compute the loss from the variables while the tape records",
                "expected a gradient for some variable, got none: \"{}\" has no path to the loss", undefined.front());
  if (!undefined.empty()) warn_of_undefined(undefined);
  return items;
}

Applied Pipeline::apply(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables,
                        const Apply& options) {
  living_.touch();
  if (gradients.empty() && variables.empty()) return Applied(scalar(false, boolean));
  const PauseRecording pause;
  if (entries_.empty()) build(variables);
  auto items = items_of(gradients, variables);
  Tensor due = accumulate(items, options);
  if (due.defined() && !is_symbolic(due)) {  // known now: nothing to predicate
    if (!due.item<bool>()) return Applied(due);
    due = Tensor();
  }
  clip(items);
  update(items, next_step(due));
  iterations_.assign_add(due.defined() ? cast(due, i64) : scalar(1, i64));
  return Applied(due.defined() ? due : scalar(true, boolean));
}

Tensor Pipeline::accumulate(std::vector<Item>& items, const Apply& options) {
  TW_CHECK_USER(options.examples >= 0, "apply", "the number of examples that the gradients are the mean of",
                "expected 0 examples or more, got {}", options.examples);
  if (options_.accumulate_steps == 1) return {};
  const Tensor part = scalar(std::max<std::int64_t>(options.examples, 1), f64);
  const Tensor calls = calls_ + 1, weight = weight_ + part;
  const Tensor due = calls == options_.accumulate_steps;
  calls_.assign(where(due, 0, calls));
  weight_.assign(where(due, 0, weight));
  for (auto& [entry, gradient, scale] : items) {
    const DType dtype = entry->sum.dtype();
    const Tensors results = run_written(
        accumulation(), {entry->sum, cast(gradient.dense(), dtype), cast(part, dtype), cast(weight, dtype), due});
    gradient = Gradient(results[0]);
    entry->sum.assign(results[1]);
  }
  return due;
}

void Pipeline::clip(std::vector<Item>& items) const {
  const auto bounded = [](const Tensor& norm, double bound) { return bound / maximum(norm, bound); };
  if (options_.clip_norm)
    for (auto& item : items) item.scale = bounded(global_norm({item.gradient}), *options_.clip_norm);
  if (!options_.global_clip_norm) return;
  std::vector<Gradient> gradients;
  for (const auto& item : items) gradients.push_back(item.gradient);
  const Tensor norm = global_norm(gradients);
  // The difference is NaN where the norm is not finite: then every gradient becomes NaN.
  const Tensor scale = bounded(norm, *options_.global_clip_norm) + (norm - norm);
  for (auto& item : items) item.scale = scale;
}

Step Pipeline::next_step(const Tensor& due) const { return {cast(iterations_, f64) + 1, learning_rate(), due}; }

void Pipeline::update(std::vector<Item>& items, const Step& step) {
  const Tensors scalars = rule_->scalars(step);
  Tensor share;
  if (options_.ema_momentum) share = where(step.t == 1, 1, 1 - *options_.ema_momentum + 0 * step.t);
  for (const auto& [entry, gradient, scale] : items) {
    const DType dtype = entry->variable.dtype();
    Update update{.w = entry->variable.value(), .g = dense_for(gradient, dtype), .bound = options_.clip_value};
    for (const auto& slot : entry->slots) update.slots.push_back(slot);
    for (const auto& number : scalars) update.scalars.push_back(number_for(number, dtype));
    if (entry->decay) update.decay = number_for(step.rate * *entry->decay, dtype);
    if (scale.defined()) update.scale = number_for(scale, dtype);
    update.due = step.due;
    if (entry->average.defined()) update.average = entry->average, update.share = number_for(share, dtype);

    const Tensors changed = rule_->update(entry->variable, update);
    entry->variable.assign(changed[0]);
    for (std::size_t i = 0; i < entry->slots.size(); ++i) entry->slots[i].assign(changed[i + 1]);
    if (entry->average.defined()) entry->average.assign(changed.back());
  }
}

}  // namespace thalweg::optim
