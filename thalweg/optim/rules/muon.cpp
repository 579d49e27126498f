#include <algorithm>
#include <cctype>
#include <cmath>

#include "thalweg/core/check.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/transpose/transpose.h"
#include "thalweg/optim/optimizers.h"
#include "thalweg/optim/pipeline.h"
#include "thalweg/optim/rules/adam.h"

namespace thalweg::optim {
namespace {

// The step of the matrices.
struct MatrixRule : CompositeRule {
  explicit MatrixRule(const MuonOptions& options) : o(options) {}

  std::vector<Slot> slots(const Variable& variable) const override { return {{"momentum", variable.shape()}}; }
  Tensors scalars(const Step& step) override { return {step.rate}; }

  Tensors change(const Tensor& w, const Tensor& g, const Tensors& slots, const Tensors& scalars) const override {
    const Tensor momentum = o.momentum * slots[0] + g;
    const Tensor direction = orthogonal(o.nesterov ? g + o.momentum * momentum : momentum);
    const auto size = static_cast<double>(std::max(w.shape()[0], w.shape()[1]));
    return {w - scalars[0] * (o.rms_rate * std::sqrt(size)) * direction, momentum};
  }

  // Nearly the orthogonal matrix nearest to x: Newton-Schulz steps on the wide one of x and its transpose.
  Tensor orthogonal(const Tensor& matrix) const {
    const bool tall = matrix.shape()[0] > matrix.shape()[1];
    Tensor x = tall ? transpose(matrix, {1, 0}) : matrix;
    x = x / (norm(x) + 1e-7);
    for (int i = 0; i < o.ns_steps; ++i) {
      const Tensor a = matmul(x, x, {.transpose_b = true});
      x = o.muon_a * x + matmul(o.muon_b * a + o.muon_c * matmul(a, a), x);
    }
    return tall ? transpose(x, {1, 0}) : x;
  }

  const MuonOptions o;
};

struct MuonRule : Rule {
  explicit MuonRule(const MuonOptions& options)
      : o(options), matrices(options), others({o.adam_beta_1, o.adam_beta_2, o.epsilon}) {
    for (const auto& pattern : o.exclude_layers) excluded.push_back(regular_expression("muon", pattern));
  }

  bool is_matrix(const Variable& variable) const {
    std::string name = variable.name();
    if (variable.shape().rank() != 2) return false;
    if (std::any_of(excluded.begin(), excluded.end(), [&](auto& pattern) { return std::regex_search(name, pattern); }))
      return false;
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    return !o.exclude_embeddings || name.find("embedding") == std::string::npos;
  }

  std::vector<Slot> slots(const Variable& variable) const override {
    return is_matrix(variable) ? matrices.slots(variable) : others.slots(variable);
  }
  Tensors scalars(const Step& step) override {
    return {matrices.scalars(step)[0], others.scalars({step.t, step.rate * o.adam_lr_ratio, step.due})[0]};
  }
  bool by_rows(const Variable& variable) const override { return !is_matrix(variable); }
  std::optional<double> weight_decay(const Variable& variable, std::optional<double> common) const override {
    return is_matrix(variable) ? common : o.adam_weight_decay;
  }
  Tensors update(const Variable& variable, const Update& update) override {
    Rule& rule = is_matrix(variable) ? static_cast<Rule&>(matrices) : others;
    return rule.update(variable, with_own_scalar(variable, update));
  }
  bool update_in_place(const std::vector<Variable>& tables, const Update& update) override {
    const Variable& variable = tables.front();
    return !is_matrix(variable) && others.update_in_place(tables, with_own_scalar(variable, update));
  }
  Update with_own_scalar(const Variable& variable, Update update) const {
    update.scalars = {update.scalars[is_matrix(variable) ? 0 : 1]};
    return update;
  }

  const MuonOptions o;
  MatrixRule matrices;
  AdamRule others;
  std::vector<std::regex> excluded;
};

}  // namespace

Muon::Muon(const MuonOptions& o)
    : Optimizer(std::make_unique<Pipeline>("muon", common_of(o), std::make_unique<MuonRule>(o))) {
  check_part("muon", ".momentum", o.momentum);
  check_beta("muon", ".adam_beta_1", o.adam_beta_1), check_beta("muon", ".adam_beta_2", o.adam_beta_2);
  TW_CHECK_USER(!o.adam_weight_decay || (*o.adam_weight_decay >= 0 && std::isfinite(*o.adam_weight_decay)), "muon",
                "0.004 is usual", "expected .adam_weight_decay of 0 or more, got {}", *o.adam_weight_decay);
  TW_CHECK_USER(o.ns_steps >= 0, "muon", "5 is usual", "expected .ns_steps of 0 or more, got {}", o.ns_steps);
}

}  // namespace thalweg::optim
