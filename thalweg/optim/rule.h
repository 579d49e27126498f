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

// One variable in one update. Undefined: not in use.
struct Update {
  Tensor w, g;
  Tensors slots = {}, scalars = {};           // scalars in the dtype that computes
  Tensor decay = {};                          // weight decay times rate
  Tensor scale = {};                          // of the gradient
  std::optional<double> bound = {};           // of the gradient's elements
  Tensor due = {}, average = {}, share = {};  // share: of the new value in the average
};

class Rule {
 public:
  virtual ~Rule() = default;
  virtual std::vector<Slot> slots(const Variable& variable) const = 0;
  // Numbers that all variables share in one update.
  virtual Tensors scalars(const Step& step) = 0;
  // The new values: of w, of the slots, of the average if there is one.
  virtual Tensors update(const Variable& variable, const Update& update) = 0;
  virtual std::optional<double> weight_decay(const Variable&, std::optional<double> common) const { return common; }
  // State that belongs to no variable.
  virtual std::vector<Variable> shared() const { return {}; }
};

// A rule that treats every element alike: all of an update is one program, one pass over memory.
class ElementwiseRule : public Rule {
 public:
  Tensors update(const Variable& variable, const Update& update) override;

 protected:
  // The new values of w and of the slots.
  virtual Expressions formula(const Expression& w, const Expression& g, const Expressions& slots,
                              const Expressions& scalars) const = 0;

 private:
  const WrittenProgram& program(const Update& update);
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
