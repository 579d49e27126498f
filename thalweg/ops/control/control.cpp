#include "thalweg/ops/control/control.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/creation/creation.h"

namespace thalweg {
namespace {

// A step of a loop must give back what it was given: the same number of tensors, of the same specs.
void check_same(const char* op, const std::vector<Tensor>& before, const std::vector<Tensor>& after) {
  TW_CHECK_USER(after.size() == before.size(), op, "return one value for each loop variable, in order",
                "expected {} values from the body, got {}", before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i)
    TW_CHECK_USER(after[i].spec() == before[i].spec(), op, "a loop variable keeps its dtype and shape",
                  "loop variable {} changed: expected {} {}, got {} {}", i, before[i].dtype(), before[i].shape(),
                  after[i].dtype(), after[i].shape());
}

std::int64_t steps_of(const std::vector<Tensor>& xs) {
  TW_CHECK_USER(!xs.empty(), "scan", "pass at least one tensor to walk along", "expected tensors to scan, got none");
  for (const auto& x : xs)
    TW_CHECK_USER(x.rank() >= 1 && x.shape()[0] == xs[0].shape()[0], "scan",
                  "every tensor is walked along its leading axis", "expected equal leading sizes, got {} and {}",
                  xs[0].shape(), x.shape());
  return xs[0].shape()[0];
}

}  // namespace

bool detail::predicate(const char* op, const Tensor& value) {
  TW_CHECK_USER(value.dtype() == boolean && value.rank() == 0, op, "compare and reduce first: tw::reduce_all(x > 0)",
                "expected a boolean scalar as predicate, got {} {}", value.dtype(), value.shape());
  return value.item<bool>();
}

std::vector<Tensor> while_loop(const std::function<Tensor(const std::vector<Tensor>&)>& cond,
                               const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& body,
                               std::vector<Tensor> vars, const WhileLoop& options) {
  TW_CHECK_USER(options.maximum_iterations >= -1, "while_loop", "-1 means no limit",
                "expected maximum_iterations of at least -1, got {}", options.maximum_iterations);
  for (std::int64_t i = 0; i != options.maximum_iterations && detail::predicate("while_loop", cond(vars)); ++i) {
    std::vector<Tensor> next = body(vars);
    check_same("while_loop", vars, next);
    vars = std::move(next);
  }
  return vars;
}

std::vector<Tensor> scan(
    const std::function<std::vector<Tensor>(const std::vector<Tensor>&, const std::vector<Tensor>&)>& f,
    const std::vector<Tensor>& init, const std::vector<Tensor>& xs) {
  const std::int64_t steps = steps_of(xs);
  std::vector<std::vector<Tensor>> slices, carries(init.size());  // slices[x][t], carries[variable][t]
  for (const auto& x : xs) slices.push_back(unstack(x));
  std::vector<Tensor> carry = init;
  for (std::size_t t = 0; t < static_cast<std::size_t>(steps); ++t) {
    std::vector<Tensor> x;
    for (const auto& list : slices) x.push_back(list[t]);
    std::vector<Tensor> next = f(carry, x);
    check_same("scan", carry, next);
    carry = std::move(next);
    for (std::size_t i = 0; i < carry.size(); ++i) carries[i].push_back(carry[i]);
  }
  std::vector<Tensor> result;
  for (std::size_t i = 0; i < init.size(); ++i)
    result.push_back(steps > 0 ? stack(carries[i]) : zeros(init[i].shape().inserted(0, 0), init[i].dtype()));
  return result;
}

}  // namespace thalweg
