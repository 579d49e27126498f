#include <algorithm>
#include <charconv>
#include <deque>
#include <regex>

#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/row_sparse/row_sparse.h"
#include "thalweg/optim/loss_scale.h"
#include "thalweg/optim/optimizers.h"
#include "thalweg/optim/pipeline.h"

namespace thalweg::optim {
namespace {

// The norm of several lists of gradients together, from the norms of each; of those that are defined.
class JointNorm {
 public:
  explicit JointNorm(Tensor* target) : target_(target) {}
  Tensor* next() { return target_ ? &parts_.emplace_back() : nullptr; }
  void finish() const {
    Tensor squares;
    for (const auto& part : parts_)
      if (part.defined()) squares = squares.defined() ? squares + part * part : part * part;
    if (squares.defined()) *target_ = sqrt(squares);
  }

 private:
  Tensor* target_;
  std::deque<Tensor> parts_;  // whose places stay
};

}  // namespace

Multi::Multi(std::vector<Choice> choices, Optimizer& otherwise) : Optimizer(nullptr), choices_(std::move(choices)) {
  for (const auto& choice : choices_) {
    TW_CHECK_USER(choice.optimizer != nullptr, "multi", "give the address of an optimizer for every pattern",
                  "expected an optimizer for \"{}\", got none", choice.pattern);
    regular_expression("multi", choice.pattern);
  }
  choices_.push_back({"", &otherwise});
  for (const auto& choice : choices_)
    if (std::find(optimizers_.begin(), optimizers_.end(), choice.optimizer) == optimizers_.end())
      optimizers_.push_back(choice.optimizer);
}

std::size_t Multi::place_of(const Variable& variable) const {
  const std::size_t rest = choices_.size() - 1;
  std::size_t place = rest;
  for (std::size_t i = 0; i < rest; ++i) {
    if (!std::regex_search(variable.name(), std::regex(choices_[i].pattern))) continue;
    TW_CHECK_USER(place == rest || choices_[place].optimizer == choices_[i].optimizer, "multi",
                  "make the patterns exclude each other",
                  "expected one optimizer for variable \"{}\", got the patterns \"{}\" and \"{}\"", variable.name(),
                  choices_[place].pattern, choices_[i].pattern);
    place = i;
  }
  return static_cast<std::size_t>(std::find(optimizers_.begin(), optimizers_.end(), choices_[place].optimizer) -
                                  optimizers_.begin());
}

// With a loss scale all gradients are judged together: either all optimizers make a step or none.
Applied Multi::apply(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables,
                     const Apply& options) {
  TW_CHECK_USER(gradients.size() == variables.size(), "apply", "give one gradient for each variable",
                "expected as many gradients as variables, got {} and {}", gradients.size(), variables.size());
  if (gradients.empty()) return Applied(scalar(false, boolean));
  if (!options.may_be_undefined) check_some_defined(gradients, variables);
  if (!options.loss_scale || !some_defined(gradients)) return apply_parts(gradients, variables, options);
  const PauseRecording pause;
  std::vector<Gradient> distinct;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    distinct.push_back(combine_rows(gradients[i]));
    names.push_back(variables[i].name());
  }
  LossScale& scale = *options.loss_scale;
  const auto verdict = scale.judge(distinct, names, options.only_if);
  for (std::size_t i = 0; i < distinct.size(); ++i) distinct[i] = scale.unscaled(distinct[i], variables[i].dtype());
  Apply part = options;
  part.loss_scale = nullptr;
  part.only_if = options.only_if.defined() ? options.only_if & verdict.finite : verdict.finite;
  Applied applied = apply_parts(distinct, variables, part);
  scale.settle(verdict);
  return applied;
}

Applied Multi::apply_parts(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables,
                           Apply options) {
  std::vector<std::vector<Gradient>> parts(optimizers_.size());
  std::vector<std::vector<Variable>> owners(optimizers_.size());
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const std::size_t place = place_of(variables[i]);
    parts[place].push_back(gradients[i]);
    owners[place].push_back(variables[i]);
  }
  JointNorm norm(options.gradient_norm);
  Tensor applied = scalar(false, boolean);
  options.may_be_undefined = true;  // those of one part, where another one has some
  for (std::size_t i = 0; i < optimizers_.size(); ++i) {
    if (owners[i].empty()) continue;
    options.gradient_norm = norm.next();
    applied = applied | optimizers_[i]->apply(parts[i], owners[i], options).tensor();
  }
  norm.finish();
  return Applied(applied);
}

Applied Multi::flush(Tensor* gradient_norm) {
  JointNorm norm(gradient_norm);
  Tensor applied = scalar(false, boolean);
  for (auto* optimizer : optimizers_) applied = applied | optimizer->flush(norm.next()).tensor();
  norm.finish();
  return Applied(applied);
}

void Multi::build(const std::vector<Variable>& variables) {
  std::vector<std::vector<Variable>> owners(optimizers_.size());
  for (const auto& variable : variables) owners[place_of(variable)].push_back(variable);
  for (std::size_t i = 0; i < optimizers_.size(); ++i)
    if (!owners[i].empty()) optimizers_[i]->build(owners[i]);
}

std::vector<Variable> Multi::variables() const {
  std::vector<Variable> list;
  for (const auto* optimizer : optimizers_)
    for (const auto& variable : optimizer->variables()) list.push_back(variable);
  return list;
}

std::map<std::string, Variable> Multi::state() const {
  std::map<std::string, Variable> all;
  for (std::size_t i = 0; i < optimizers_.size(); ++i)
    for (const auto& [name, variable] : optimizers_[i]->state()) all.emplace(std::to_string(i) + "/" + name, variable);
  return all;
}

std::vector<std::map<std::string, Tensor>> Multi::parts_of(const std::map<std::string, Tensor>& state) const {
  std::vector<std::map<std::string, Tensor>> parts(optimizers_.size());
  for (const auto& [name, value] : state) {
    std::size_t place = 0;
    const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), place);
    TW_CHECK_USER(fault == std::errc() && place < parts.size() && *end == '/', "set_state",
                  "the state belongs to an optimizer of another kind",
                  "expected names that begin with the number of one of {} optimizers, got \"{}\"", parts.size(), name);
    parts[place].emplace(end + 1, value);
  }
  return parts;
}

void Multi::check_state(const std::map<std::string, Tensor>& values) const {
  const auto parts = parts_of(values);
  for (std::size_t i = 0; i < parts.size(); ++i) optimizers_[i]->check_state(parts[i]);
}

void Multi::set_state(const std::map<std::string, Tensor>& values) {
  check_state(values);  // of all, before one takes its part
  const auto parts = parts_of(values);
  for (std::size_t i = 0; i < parts.size(); ++i) optimizers_[i]->set_state(parts[i]);
}

const Iterations& Multi::iterations() const { return choices_.back().optimizer->iterations(); }
Tensor Multi::learning_rate() const { return choices_.back().optimizer->learning_rate(); }

void Multi::exclude_from_weight_decay(const std::vector<std::string>& patterns) {
  for (auto* optimizer : optimizers_) optimizer->exclude_from_weight_decay(patterns);
}

void Multi::set_learning_rate(double rate) {
  for (auto* optimizer : optimizers_) optimizer->set_learning_rate(rate);
}

void Multi::lower_learning_rate(double factor, double least) {
  for (auto* optimizer : optimizers_) optimizer->lower_learning_rate(factor, least);
}

void Multi::set_accumulate_steps(int steps) {
  for (auto* optimizer : optimizers_) optimizer->set_accumulate_steps(steps);
}

int Multi::accumulate_steps() const {
  int steps = 1;
  for (const auto* optimizer : optimizers_) steps = std::max(steps, optimizer->accumulate_steps());
  return steps;
}

void Multi::trim() {
  for (auto* optimizer : optimizers_) optimizer->trim();
}

bool Multi::averages() const {
  return std::any_of(optimizers_.begin(), optimizers_.end(),
                     [](const Optimizer* optimizer) { return optimizer->averages(); });
}

void Multi::assign_averages() {
  for (auto* optimizer : optimizers_)
    if (optimizer->averages() || !averages()) optimizer->assign_averages();  // or the error that none does
}

}  // namespace thalweg::optim
