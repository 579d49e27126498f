#pragma once

// An update rule as the pipeline sees it.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "thalweg/core/variable.h"
#include "thalweg/ops/expression.h"

namespace thalweg::optim {

// What one update has for all variables. Scalars; f64 where they are numbers.
struct Step {
  Tensor t;  // 1 at the first update
  Tensor rate;
  Tensor due;  // boolean: whether the update is made; undefined: it is
};

// State that a rule keeps for a variable.
struct Slot {
  std::string name;
  Shape shape;
  double initial = 0;
};

// One variable, or some of its rows, in one update. Undefined: not in use.
struct Update {
  Tensors tables = {};  // w, the slots, and with `share` the average
  Tensor g = {};
  Tensors scalars = {};              // of the rule, in the dtype that computes
  Tensor decay = {};                 // weight decay times rate
  Tensor scale = {};                 // of the gradient
  std::optional<double> bound = {};  // of the gradient's elements
  Tensor due = {};                   // whether anything changes
  Tensor share = {};                 // of the new value in the average
};

class Rule {
 public:
  virtual ~Rule() = default;
  virtual std::vector<Slot> slots(const Variable& variable) const = 0;
  // Numbers that all variables share in one update.
  virtual Tensors scalars(const Step& step) = 0;
  // The new values of the tables.
  virtual Tensors update(const Variable& variable, const Update& update) = 0;
  // The same outside of traces, in the memory of the tables, which `update` then lacks. False: it cannot.
  virtual bool update_in_place(const std::vector<Variable>&, const Update&) { return false; }
  virtual std::optional<double> weight_decay(const Variable&, std::optional<double> common) const { return common; }
  // Whether rows of the variable can be updated apart from the others.
  virtual bool by_rows(const Variable&) const { return false; }
  // Whether a gradient of zero changes nothing.
  virtual bool rests() const { return false; }
  // State that belongs to no variable.
  virtual std::vector<Variable> shared() const { return {}; }
};

// A rule that treats every element alike: all of an update is one program, one pass over memory.
class ElementwiseRule : public Rule {
 public:
  Tensors update(const Variable& variable, const Update& update) override;
  bool update_in_place(const std::vector<Variable>& tables, const Update& update) override;
  bool by_rows(const Variable&) const override { return true; }

 protected:
  // The new values of w and of the slots.
  virtual Expressions formula(const Expression& w, const Expression& g, const Expressions& slots,
                              const Expressions& scalars) const = 0;

 private:
  const WrittenProgram& program(std::size_t tables, const Update& update);
  std::array<const WrittenProgram*, 32> programs_{};  // by what is in use
};

// A rule that needs sums or products over the variable: `change` works in ops.
class CompositeRule : public Rule {
 public:
  Tensors update(const Variable& variable, const Update& update) override;

 protected:
  virtual Tensors change(const Tensor& w, const Tensor& g, const Tensors& slots, const Tensors& scalars) const = 0;
};

}  // namespace thalweg::optim
