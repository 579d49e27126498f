#pragma once

// Steps that accumulate gradients of some rows of a table.
#include <functional>
#include <string>
#include <vector>

#include "thalweg/autodiff/tape.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/gather/gather.h"
#include "thalweg/ops/random/random.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/optim/optimizers.h"
#include "thalweg/plan/function.h"

namespace thalweg::testing {

using List = std::vector<double>;
using Ids = std::vector<std::int64_t>;

inline List values(const Tensor& tensor) { return tensor.to_vector<double>(); }
inline Variable table_of(std::int64_t rows, DType dtype = f64) {
  return Variable(random::normal({rows, 2}, {.seed = 7, .dtype = dtype}), {.name = "table"});
}
inline Tensor tensor_of(const Ids& ids) { return Tensor::from(ids, {static_cast<std::int64_t>(ids.size())}); }

// A step over some rows of a table. The gradient of each depends on what the row holds.
struct Step {
  Step(optim::Optimizer& optimizer, const Variable& table)
      : table(table), eager([this, &optimizer](const Tensor& ids) {
          GradientTape tape;
          const Tensor loss = reduce_sum(square(embedding_lookup(this->table, ids) - 1));
          return optimizer.apply(tape.gradient(loss, std::vector{this->table}), {this->table}).tensor();
        }) {}
  bool operator()(const Ids& ids) const {
    return (compiled ? traced(tensor_of(ids)) : eager(tensor_of(ids))).item<bool>();
  }

  Variable table;
  std::function<Tensor(const Tensor&)> eager;
  Function<std::function<Tensor(const Tensor&)>> traced = function(eager);
  bool compiled = false;
};

// The names of what holds gradients, behind those of the optimizer and the table, with their shapes.
inline std::vector<std::string> accumulators(const optim::Optimizer& optimizer) {
  std::vector<std::string> names;
  for (const auto& variable : optimizer.variables())
    if (const auto at = variable.name().find("gradient_"); at != std::string::npos)
      names.push_back(variable.name().substr(at) + " " + variable.shape().to_string());
  return names;
}

}  // namespace thalweg::testing
