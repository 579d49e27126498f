#include "thalweg/optim/pipeline.h"

#include <unordered_set>

#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/layer.h"
#include "thalweg/core/log.h"
#include "thalweg/ops/clip/norm.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/row_language.h"
#include "thalweg/ops/row_sparse/row_sparse.h"
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

// A gradient's values as the update of a variable reads them.
Tensor values_for(const Gradient& gradient, DType variable) {
  return gradient.dtype() == variable ? gradient.values() : cast(gradient.values(), wide(variable));
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
    items.push_back({&entries_[place->second], prepared(gradients[i], variables[i]), {}});
  }
  TW_CHECK_USER(!items.empty(), "apply", "compute the loss from the variables while the tape records",
                "expected a gradient for some variable, got none: \"{}\" has no path to the loss", undefined.front());
  if (!undefined.empty()) warn_of_undefined(undefined);
  return items;
}

// Row-sparse gradients stay so, with every row once, where the rule can do with rows and they are few.
Gradient Pipeline::prepared(const Gradient& gradient, const Variable& variable) const {
  if (!gradient.is_sparse()) return gradient;
  const bool few = 5 * gradient.indices().size() <= 4 * variable.shape()[0];
  if (!few || options_.accumulate_steps > 1 || !rule_->by_rows(variable)) return gradient.dense();
  return combine_rows(gradient);
}

Applied Pipeline::apply(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables,
                        const Apply& options) {
  living_.touch();
  if (gradients.empty() && variables.empty()) return Applied(scalar(false, boolean));
  const PauseRecording pause;
  const LayerScope here(layer_of(optimizer_layer));
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
    for (auto& item : items) item.scale = bounded(norm_of_distinct("apply", {item.gradient}), *options_.clip_norm);
  if (!options_.global_clip_norm) return;
  std::vector<Gradient> gradients;
  for (const auto& item : items) gradients.push_back(item.gradient);
  const Tensor norm = norm_of_distinct("apply", gradients);
  // The difference is NaN where the norm is not finite: then every gradient becomes NaN.
  const Tensor scale = bounded(norm, *options_.global_clip_norm) + (norm - norm);
  for (auto& item : items) item.scale = scale;
}

Step Pipeline::next_step(const Tensor& due) const { return {cast(iterations_, f64) + 1, learning_rate(), due}; }

// The frame with what an update starts from: the whole of the tables, or the rows that the gradient has.
Update Pipeline::read(const Entry& entry, const Update& frame, const Gradient& gradient) {
  Update update = frame;
  for (const auto& table : entry.tables)
    update.tables.push_back(gradient.is_sparse() ? take_rows(table, gradient.indices()) : table.value());
  update.g = values_for(gradient, entry.tables.front().dtype());
  return update;
}

void Pipeline::update_whole(Entry& entry, Update frame, const Gradient& gradient) {
  frame.g = values_for(gradient, entry.variable().dtype());
  if (!tracer() && rule_->update_in_place(entry.tables, frame)) return;
  const Tensors changed = rule_->update(entry.variable(), read(entry, frame, gradient));
  for (std::size_t i = 0; i < changed.size(); ++i) entry.tables[i].assign(changed[i]);
}

void Pipeline::update(const std::vector<Item>& items, const Step& step) {
  const Tensors scalars = rule_->scalars(step);
  Tensor share;
  if (options_.ema_momentum) share = where(step.t == 1, 1, 1 - *options_.ema_momentum + 0 * step.t);
  for (const auto& item : items) {
    const DType dtype = item.entry->variable().dtype();
    Update frame{.bound = options_.clip_value, .due = step.due};
    for (const auto& number : scalars) frame.scalars.push_back(number_for(number, dtype));
    if (item.entry->decay) frame.decay = number_for(step.rate * *item.entry->decay, dtype);
    if (item.scale.defined()) frame.scale = number_for(item.scale, dtype);
    if (share.defined()) frame.share = number_for(share, dtype);
    if (item.gradient.is_sparse())
      update_rows(item, frame);
    else
      update_whole(*item.entry, frame, item.gradient);
  }
}

// The touched rows are computed from what they were. Unless rows without a gradient rest, all rows then take the update
// with a gradient of zero; at last the touched ones are put in.
void Pipeline::update_rows(const Item& item, const Update& frame) {
  auto& [entry, gradient, scale] = item;
  const Tensors changed = rule_->update(entry->variable(), read(*entry, frame, gradient));
  const bool rest = options_.sparse == Sparse::lazy || (rule_->rests() && !entry->decay && !frame.share.defined());
  if (!rest) update_whole(*entry, frame, scalar(0, entry->variable().dtype()));
  for (std::size_t i = 0; i < changed.size(); ++i) put_rows(entry->tables[i], gradient.indices(), changed[i]);
}

}  // namespace thalweg::optim
