#pragma once

// The one way of a gradient into a variable: accumulate, clip, decay, rule, average. Nothing here reads a value on the
// host, so that it can be traced.
#include <map>
#include <memory>
#include <mutex>
#include <regex>
#include <unordered_map>

#include "thalweg/core/tracer.h"
#include "thalweg/optim/accumulator.h"
#include "thalweg/optim/learning_rate.h"
#include "thalweg/optim/optimizer.h"
#include "thalweg/optim/rule.h"

namespace thalweg::optim {

struct CommonOptions {
  LearningRate learning_rate;
  std::optional<double> clip_norm, clip_value, global_clip_norm, weight_decay, ema_momentum;
  int accumulate_steps;
  Sparse sparse;
};

template <class Options>
CommonOptions common_of(const Options& o) {
  return {o.learning_rate, o.clip_norm,    o.clip_value,       o.global_clip_norm,
          o.weight_decay,  o.ema_momentum, o.accumulate_steps, o.sparse};
}

class Pipeline {
 public:
  Pipeline(std::string name, CommonOptions options, std::unique_ptr<Rule> rule);

  Applied apply(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables, const Apply& options);
  Applied flush(Tensor* gradient_norm);
  void build(const std::vector<Variable>& variables);
  std::vector<Variable> variables() const;
  std::map<std::string, Variable> state() const;
  void check_state(std::map<std::string, Tensor> values) const;
  void set_state(const std::map<std::string, Tensor>& values);
  const Iterations& iterations() const { return iterations_; }
  void exclude_from_weight_decay(const std::vector<std::string>& patterns);
  Tensor learning_rate() const;
  void set_learning_rate(double rate);
  void set_accumulate_steps(int steps);
  int accumulate_steps() const { return options_.accumulate_steps; }
  void trim();
  bool averages() const { return options_.ema_momentum.has_value(); }
  void assign_averages();

 private:
  // A variable with its state.
  struct Entry {
    std::vector<Variable> tables;  // the variable, the slots of the rule, the average if there is one
    Accumulator accumulator;       // of gradients
    std::optional<double> decay;
    Variable& variable() { return tables.front(); }
  };
  // A gradient on its way.
  struct Item {
    Entry* entry;
    Gradient gradient;
    Tensor scale = {};
    Tensor touched = {};  // [rows, 1, …] boolean: the rows that move; undefined: all, or those of the gradient
  };

  std::vector<Item> items_of(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables,
                             bool may_be_undefined);
  static Update read(const Entry& entry, const Update& frame, const Gradient& gradient);
  void update_whole(Entry& entry, Update frame, const Gradient& gradient);
  Gradient prepared(const Gradient& gradient, const Variable& variable) const;
  Entry make_entry(const Variable& variable);
  Variable make_state(const std::string& name, const Shape& shape, double initial, DType dtype);
  std::vector<Variable> lasting_variables() const;
  std::vector<Accumulator::State> take_state(std::map<std::string, Tensor>& values) const;
  void check_restored(const std::map<std::string, Tensor>& left) const;
  Step next_step(const Tensor& due) const;
  Applied advance(std::vector<Item>& items, Tensor proceed, const Apply& options);
  Applied finish(std::vector<Item>& items, Tensor due, Tensor* gradient_norm);
  Tensor accumulate(std::vector<Item>& items, const Tensor& proceed, const Apply& options);
  Tensor until_room(const Tensor& condition);
  static Tensor norm_of(const std::vector<Item>& items);
  Tensor norm_of_skipped(std::vector<Item>& items, const Tensor& proceed, const Apply& options);
  void clip(std::vector<Item>& items, const Tensor& norm) const;
  void update(const std::vector<Item>& items, const Step& step);
  void update_rows(const Item& item, const Update& frame);
  void update_touched(const Item& item, const Update& frame);
  static void update_average(Entry& entry, const Update& frame);
  void hold_mask(Entry& entry) const;

  const std::string name_;
  CommonOptions options_;
  const std::unique_ptr<Rule> rule_;
  const Living living_;
  // Functions that share the optimizer trace it on several threads: state is made, and room for gradients grows, on one
  // at a time. A rate that the program computes may ask the optimizer.
  mutable std::recursive_mutex mutex_;
  Iterations iterations_;
  Variable rate_;            // where the learning rate is a number
  Variable calls_, weight_;  // of the gradients accumulated so far
  Variable roomless_;        // functions that hold it are traced anew when gradients get their first room
  std::vector<std::regex> undecayed_;
  std::vector<Entry> entries_;
  std::vector<Entry*> left_out_;                           // of this call: they have no gradient
  std::map<std::string, Tensor> pending_;                  // given to set_state, for what is not made yet
  bool restored_ = false;                                  // set_state was called
  std::unordered_map<std::uint64_t, std::size_t> places_;  // of variables among the entries
};

bool some_defined(const std::vector<Gradient>& gradients);
// Throws if there is no gradient at all.
void check_some_defined(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables);

// An option that is a part of 1.
void check_part(const char* optimizer, const char* option, double value);
// One that a moment keeps of itself and is corrected for: with 1 it would be 0 / 0.
void check_beta(const char* optimizer, const char* option, double value);

std::regex regular_expression(const char* op, const std::string& pattern);

// A scalar of the kind that computes for a variable's dtype.
Tensor number_for(const Tensor& number, DType variable);

}  // namespace thalweg::optim
