// Values that are given to a module, and those that wait for weights that are not made yet.
#include <algorithm>
#include <set>

#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/log.h"
#include "thalweg/core/mask.h"
#include "thalweg/nn/module.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/elementwise.h"

namespace thalweg::nn {
namespace {

bool lies_in(const std::string& weight, const std::string& path) {
  return path.empty() || (weight.size() > path.size() && weight[path.size()] == '/' && weight.starts_with(path));
}

// The first few in quotation marks.
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t most = 6;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i)
    text += fmt::format("{}\"{}\"", i ? ", " : "", names[i]);
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return names.empty() ? "none" : text;
}

const char* op_of(const std::string& source) { return source.empty() ? "set_weights" : "load_weights"; }

const char* hint_of(const std::string& source) {
  return source.empty()
             ? "variables() tells the names of those that are made"
             : "the weights belong to another model, or a layer has another name; load_weights with {.strict "
               "= false} takes those that fit";
}

std::string in(const std::string& source) { return source.empty() ? "" : " in " + source; }

void check_mask(const Variable& variable, const Tensor& keep) {
  TW_CHECK_USER(keep.dtype() == boolean && keep.shape() == variable.shape(), "set_weights",
                "the mask belongs to a model of another size", "weight \"{}\": expected a mask of {} {}, got {} {}",
                variable.name(), boolean, variable.shape(), keep.dtype(), keep.shape());
}

// Values for weights that are made, before any of them changes.
void check_values(const std::vector<Variable>& variables, const std::map<std::string, Tensor>& values) {
  for (const auto& [name, value] : values)
    TW_CHECK_USER(value.defined(), "set_weights", "leave out weights that are to stay as they are",
                  "expected a value for weight \"{}\", got an undefined tensor", name);
  for (const auto& variable : variables) {
    if (const auto mask = values.find(mask_name(variable)); mask != values.end()) check_mask(variable, mask->second);
    const auto value = values.find(variable.name());
    TW_CHECK_USER(value == values.end() || value->second.shape() == variable.shape(), "set_weights",
                  "the weights belong to a model of another size",
                  "weight \"{}\": expected a value of shape {}, got {}", variable.name(), variable.shape(),
                  value->second.shape());
  }
}

}  // namespace

const Module* Module::owner_of(const std::string& weight) const {
  if (!lies_in(weight, path_)) return nullptr;
  for (const auto* module : modules_)
    if (const auto* owner = module->owner_of(weight)) return owner;
  return this;
}

// Its first call has ended; where no end is noted, as those that are built do, that of all modules inside.
bool Module::all_called() const {
  if (output_known_ || built_ || modules_.empty()) return output_known_;
  return std::all_of(modules_.begin(), modules_.end(), [](const Module* module) { return module->all_called(); });
}

std::string Module::weight_names() const {
  std::vector<std::string> names;
  for (const auto& variable : variables()) names.push_back(variable.name());
  return listed(names);
}

void Module::refuse(const std::string& weight, const std::string& source) const {
  TW_FAIL(invalid_argument, op_of(source), hint_of(source), "expected weights of this module, got \"{}\"{}; {} has {}",
          weight, in(source), path_.empty() ? "the module" : "module \"" + path_ + "\"", weight_names());
}

void Module::set_weights(const std::map<std::string, Tensor>& values, const SetWeightsOptions& options) {
  std::set<std::string> known;
  for (const auto& variable : variables()) known.insert({variable.name(), mask_name(variable)});
  for (const auto& [name, value] : values) {
    if (options.optional || known.contains(name)) continue;
    const Module* owner = owner_of(name);
    if (!owner || owner->all_called()) (owner ? owner : this)->refuse(name, options.source);
  }
  check_values(variables(), values);
  {
    const std::lock_guard lock(pending_mutex_);
    if (options.complete) {
      pending_.clear();
      complete_ = true;
      source_ = options.source;
    }
    for (const auto& [name, value] : values) pending_[name] = {value, options.optional, options.source};
  }
  const PauseRecording unseen;
  for (auto& variable : variables()) {
    const Tensor value = find_pending(variable.name());
    if (value.defined()) variable.assign(cast(value, variable.dtype()));
    load_pending_mask(variable);
    if (const Variable mask = mask_of(variable); mask.defined()) variable.assign(where(mask, variable, 0));
    drop_pending(variable);
  }
}

std::vector<std::string> Module::pending_weights() const {
  const std::lock_guard lock(pending_mutex_);
  std::vector<std::string> names;
  for (const auto& [name, waiting] : pending_) names.push_back(name);
  return names;
}

bool may_be_made(const Module& module, const std::string& weight) {
  const Module* owner = module.owner_of(weight);
  return owner && owner != &module && !owner->all_called();
}

std::map<std::string, Tensor> waiting_values(const Module& module) {
  std::set<std::string> names;
  const auto gather = [&](const Module& holder) {
    for (const auto& name : holder.pending_weights())
      if (lies_in(name, module.path_) && !module.owner_of(name)->all_called()) names.insert(name);
  };
  module.visit(gather);
  for (const auto* holder = module.parent_; holder; holder = holder->parent_) gather(*holder);
  std::map<std::string, Tensor> values;
  for (const auto& name : names) values.emplace(name, module.owner_of(name)->find_pending(name));
  return values;
}

Tensor Module::find_pending(const std::string& variable) const {
  {
    const std::lock_guard lock(pending_mutex_);
    if (const auto found = pending_.find(variable); found != pending_.end()) return found->second.value;
  }
  return parent_ ? parent_->find_pending(variable) : Tensor();
}

void Module::drop_pending(const Variable& variable) {
  {
    const std::lock_guard lock(pending_mutex_);
    pending_.erase(variable.name());
    pending_.erase(mask_name(variable));
  }
  if (parent_) parent_->drop_pending(variable);
}

void Module::load_pending_mask(const Variable& variable) {
  const Tensor keep = find_pending(mask_name(variable));
  if (!keep.defined()) return;
  check_mask(variable, keep);
  load_mask(variable, keep);
}

// A weight that is made without a value, while a module around it was given all of its values.
void Module::check_missing(const std::string& variable) const {
  for (const auto* holder = this; holder; holder = holder->parent_) {
    std::unique_lock lock(holder->pending_mutex_);
    if (!holder->complete_) continue;
    const std::string source = holder->source_;
    lock.unlock();
    TW_FAIL(not_found, op_of(source), hint_of(source),
            "expected a value for weight \"{}\"{}, got none; values that wait for weights of other names: {}", variable,
            in(source), listed(holder->pending_weights()));
  }
}

// At the end of the first call: what is named as if it was of this module, and was not taken, never will be.
void Module::check_leftovers() {
  for (auto* holder = this; holder; holder = holder->parent_) {
    const std::lock_guard lock(holder->pending_mutex_);
    for (const auto& [name, waiting] : holder->pending_)
      if (!waiting.optional && lies_in(name, path_) && owner_of(name) == this) refuse(name, waiting.source);
  }
  const std::lock_guard lock(pending_mutex_);
  complete_ = false;
}

void Module::warn_of_leftovers() {
  for (auto* holder = this; holder; holder = holder->parent_) {
    std::vector<std::string> left;
    std::string source;
    {
      const std::lock_guard lock(holder->pending_mutex_);
      for (auto& [name, waiting] : holder->pending_) {
        if (waiting.optional || !holder->owner_of(name)->all_called()) continue;
        left.push_back(name);
        source = waiting.source;
        waiting.optional = true;  // one warning is enough
      }
    }
    if (!left.empty())
      warn(fmt::format("[{}] values{} that no weight has taken: {}; the model has {}", op_of(source), in(source),
                       listed(left), holder->weight_names()));
  }
}

}  // namespace thalweg::nn
