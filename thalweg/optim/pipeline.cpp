#include "thalweg/optim/pipeline.h"

#include <algorithm>
#include <unordered_set>

#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/layer.h"
#include "thalweg/core/log.h"
#include "thalweg/core/mask.h"
#include "thalweg/ops/clip/norm.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/row_sparse/row_sparse.h"
#include "thalweg/ops/segment/segment.h"
#include "thalweg/ops/widen.h"
#include "thalweg/optim/loss_scale.h"

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

// Of the rows that a gradient has, those of the whole: [rows, 1, …].
Tensor touched(const Gradient& gradient) {
  const Shape& shape = gradient.shape();
  const Tensor ids = gradient.indices(), times = unsorted_segment_sum(ones({ids.size()}), ids, shape[0]);
  Ints sizes(shape.rank(), 1);
  sizes[0] = shape[0];
  return reshape(times > 0, Shape(sizes));
}

Tensor both(const Tensor& a, const Tensor& b) { return !a.defined() ? b : !b.defined() ? a : a & b; }

}  // namespace

bool some_defined(const std::vector<Gradient>& gradients) {
  return std::any_of(gradients.begin(), gradients.end(), [](const Gradient& g) { return g.defined(); });
}

void check_some_defined(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables) {
  TW_CHECK_USER(some_defined(gradients), "apply", "compute the loss from the variables while the tape records",
                "expected a gradient for some variable, got none: \"{}\" has no path to the loss",
                variables.front().name());
}

Tensor number_for(const Tensor& number, DType variable) { return cast(number, wide(variable)); }

// Variables without a gradient are left out, unless earlier calls have accumulated some: these make their part of the
// mean.
std::vector<Pipeline::Item> Pipeline::items_of(const std::vector<Gradient>& gradients,
                                               const std::vector<Variable>& variables, bool may_be_undefined) {
  TW_CHECK_USER(gradients.size() == variables.size(), "apply", "give one gradient for each variable",
                "expected as many gradients as variables, got {} and {}", gradients.size(), variables.size());
  std::vector<Item> items;
  left_out_.clear();
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
      Entry& entry = entries_[place->second];
      if (entry.accumulator.in_use())
        items.push_back({&entry, {}});
      else
        left_out_.push_back(&entry);
      continue;
    }
    check_gradient(gradients[i], variables[i]);
    Item& item = items.emplace_back(Item{&entries_[place->second], prepared(gradients[i], variables[i])});
    const bool by_rows = gradients[i].is_sparse() && options_.accumulate_steps == 1 && rule_->by_rows(variables[i]);
    if (by_rows && options_.sparse == Sparse::lazy && !item.gradient.is_sparse()) item.touched = touched(gradients[i]);
  }
  if (!may_be_undefined) check_some_defined(gradients, variables);
  if (!undefined.empty()) warn_of_undefined(undefined);
  return items;
}

// Masked elements have no gradient. Row-sparse gradients stay so where the rule can do with rows and they are few, with
// every row once; those that are accumulated are combined when all rows of an update are there.
Gradient Pipeline::prepared(const Gradient& gradient, const Variable& variable) const {
  if (const Variable mask = mask_of(variable); mask.defined()) return where(mask, gradient.dense(), 0);
  if (!gradient.is_sparse()) return gradient;
  if (!rule_->by_rows(variable)) return gradient.dense();
  if (options_.accumulate_steps > 1) return gradient;
  const std::int64_t count = gradient.indices().size(), rows = variable.shape()[0];
  const bool few = count < rows && 5 * count <= 4 * rows;
  return few ? combine_rows(gradient) : Gradient(gradient.dense());
}

Applied Pipeline::apply(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables,
                        const Apply& options) {
  living_.touch();
  TW_CHECK_USER(options.examples >= 0, "apply", "the number of examples that the gradients are the mean of",
                "expected 0 examples or more, got {}", options.examples);
  if (gradients.empty() && variables.empty()) return Applied(scalar(false, boolean));
  const std::lock_guard lock(mutex_);
  const PauseRecording pause;
  const LayerScope here(layer_of(optimizer_layer));
  if (entries_.empty()) build(variables);
  auto items = items_of(gradients, variables, options.may_be_undefined);
  if (items.empty() && options_.accumulate_steps == 1) return Applied(scalar(false, boolean));
  if (!options.loss_scale || !some_defined(gradients)) return advance(items, options.only_if, options);

  std::vector<Gradient> given;
  std::vector<std::string> names;
  for (auto& item : items) {
    Variable& variable = item.entry->variable();
    given.push_back(item.gradient);
    names.push_back(variable.name());
    item.gradient = options.loss_scale->unscaled(item.gradient, variable.dtype());
  }
  const auto verdict = options.loss_scale->judge(given, names, options.only_if);
  Applied applied = advance(items, both(options.only_if, verdict.finite), options);
  options.loss_scale->settle(verdict);
  return applied;
}

// What is left to do when gradients are no longer scaled. `proceed` undefined: true.
Applied Pipeline::advance(std::vector<Item>& items, Tensor proceed, const Apply& options) {
  if (proceed.defined() && !is_symbolic(proceed)) {  // known now: nothing to predicate
    if (!proceed.item<bool>()) {
      if (options.gradient_norm) *options.gradient_norm = norm_of_skipped(items, proceed, options);
      return Applied(proceed);
    }
    proceed = Tensor();
  }
  const Tensor due = accumulate(items, proceed, options);
  if (items.empty()) return Applied(scalar(false, boolean));  // the call counts among those of an update all the same
  return finish(items, due, options.gradient_norm);
}

// Of a call that changes nothing: as if its gradients were accumulated.
Tensor Pipeline::norm_of_skipped(std::vector<Item>& items, const Tensor& proceed, const Apply& options) {
  accumulate(items, proceed, options);
  for (auto& item : items) item.gradient = combine_rows(item.gradient);
  return norm_of(items);
}

// Clips and updates. `due` undefined: true.
Applied Pipeline::finish(std::vector<Item>& items, Tensor due, Tensor* gradient_norm) {
  Tensor norm;
  if (gradient_norm) *gradient_norm = norm = norm_of(items);
  if (due.defined() && !is_symbolic(due)) {
    if (!due.item<bool>()) return Applied(due);
    due = Tensor();
  }
  if (options_.global_clip_norm && !norm.defined()) norm = norm_of(items);
  clip(items, norm);
  update(items, next_step(due));
  iterations_.assign_add(due.defined() ? cast(due, i64) : scalar(1, i64));
  if (due.defined()) return Applied(due);
  const Tensor made = iterations_.value();  // in a trace nothing that the host could ask for
  return Applied(is_symbolic(made) ? made > 0 : scalar(true, boolean));
}

Tensor Pipeline::accumulate(std::vector<Item>& items, const Tensor& proceed, const Apply& options) {
  if (options_.accumulate_steps == 1) return proceed;
  for (auto& item : items)
    if (!item.gradient.defined()) item.gradient = item.entry->accumulator.nothing();
  for (const auto& item : items) item.entry->accumulator.make_room(item.gradient, calls_, roomless_);
  const Tensor part = scalar(std::max<std::int64_t>(options.examples, 1), f64);
  const Tensor calls = calls_ + 1, weight = weight_ + part;
  const Tensor due = until_room(both(calls >= options_.accumulate_steps, proceed));
  const auto next = [&](const Tensor& value, const Variable& before) {
    const Tensor after = where(due, 0, value);
    return proceed.defined() ? where(proceed, after, before) : after;
  };
  const AccumulatedCall call{calls_, part, weight, due, proceed, options.gradient_norm != nullptr};
  for (auto& item : items) item.gradient = item.entry->accumulator.add(item.gradient, call);
  const Tensor next_calls = next(calls, calls_), next_weight = next(weight, weight_);
  calls_.assign(next_calls);
  weight_.assign(next_weight);
  return due;
}

Applied Pipeline::flush(Tensor* gradient_norm) {
  living_.touch();
  const std::lock_guard lock(mutex_);
  const PauseRecording pause;
  const LayerScope here(layer_of(optimizer_layer));
  std::vector<Item> items;
  left_out_.clear();
  for (auto& entry : entries_)
    if (entry.accumulator.in_use()) items.push_back({&entry, {}});
  if (!calls_.defined()) return Applied(scalar(false, boolean));
  const Tensor due = until_room(calls_ > 0);
  if (!is_symbolic(due) && !due.item<bool>()) return Applied(due);
  TW_CHECK(failed_precondition, pending_.empty(), "flush", "call the model once, then build() with its variables",
           "expected an optimizer that knows its variables, got one whose state waits for the first apply()");
  for (auto& item : items) item.gradient = item.entry->accumulator.take(weight_);
  calls_.assign(where(due, 0, calls_));
  weight_.assign(where(due, 0, weight_));
  if (items.empty()) return Applied(scalar(false, boolean));  // no call brought a gradient
  return finish(items, due, gradient_norm);
}

Tensor Pipeline::norm_of(const std::vector<Item>& items) {
  std::vector<Gradient> gradients;
  for (const auto& item : items) gradients.push_back(item.gradient);
  return norm_of_distinct("apply", gradients);
}

void Pipeline::clip(std::vector<Item>& items, const Tensor& norm) const {
  const auto bounded = [](const Tensor& length, double bound) { return bound / maximum(length, bound); };
  if (options_.clip_norm)
    for (auto& item : items) item.scale = bounded(norm_of_distinct("apply", {item.gradient}), *options_.clip_norm);
  if (!options_.global_clip_norm) return;
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
    else if (item.touched.defined())
      update_touched(item, frame);
    else
      update_whole(*item.entry, frame, item.gradient);
    hold_mask(*item.entry);
  }
  if (!share.defined()) return;
  for (Entry* entry : left_out_)
    update_average(*entry, {.due = step.due, .share = number_for(share, entry->variable().dtype())});
}

// Masked elements stay zero, whatever momentum they had.
void Pipeline::hold_mask(Entry& entry) const {
  const Variable mask = mask_of(entry.variable());
  if (!mask.defined()) return;
  entry.variable().assign(where(mask, entry.variable(), 0));
  if (options_.ema_momentum) entry.tables.back().assign(where(mask, entry.tables.back(), 0));
}

// The average follows the variable, whose values stay. So it ends at these, not where they were on the way.
void Pipeline::update_average(Entry& entry, const Update& frame) {
  Variable& average = entry.tables.back();
  const Tensor before = widen(average), after = before + (widen(entry.variable()) - before) * frame.share;
  average.assign(cast(frame.due.defined() ? where(frame.due, after, before) : after, average.dtype()));
}

// The touched rows are computed from what they were. Unless rows without a gradient rest, all rows then take the update
// with a gradient of zero; at last the touched ones are put in. Averages never rest.
void Pipeline::update_rows(const Item& item, const Update& frame) {
  Entry* const entry = item.entry;
  const Gradient& gradient = item.gradient;
  const Tensors changed = rule_->update(entry->variable(), read(*entry, frame, gradient));
  const bool rest = options_.sparse == Sparse::lazy || (rule_->rests() && !entry->decay && !frame.share.defined());
  if (!rest) update_whole(*entry, frame, scalar(0, entry->variable().dtype()));
  if (rest && frame.share.defined()) update_average(*entry, frame);
  for (std::size_t i = 0; i < changed.size(); ++i) put_rows(entry->tables[i], gradient.indices(), changed[i]);
}

// The same where so many rows have a gradient that it is dense.
void Pipeline::update_touched(const Item& item, const Update& frame) {
  Update moving = frame, resting = frame;
  moving.due = both(frame.due, item.touched), resting.due = both(frame.due, !item.touched);
  update_whole(*item.entry, moving, item.gradient);
  if (frame.share.defined()) update_average(*item.entry, resting);
}

}  // namespace thalweg::optim
