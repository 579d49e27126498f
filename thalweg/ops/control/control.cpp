#include "thalweg/ops/control/control.h"

#include "thalweg/core/check.h"
#include "thalweg/core/ordinal.h"
#include "thalweg/core/tracer.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/control/traced.h"
#include "thalweg/ops/creation/creation.h"

namespace thalweg {
namespace {

std::int64_t steps_of(const std::vector<Tensor>& xs) {
  TW_CHECK_USER(!xs.empty(), "scan", "pass at least one tensor to walk along", "expected tensors to scan, got none");
  for (const auto& x : xs)
    TW_CHECK_USER(x.rank() >= 1 && x.shape()[0] == xs[0].shape()[0], "scan",
                  "every tensor is walked along its leading axis", "expected equal leading sizes, got {} and {}",
                  xs[0].shape(), x.shape());
  return xs[0].shape()[0];
}

thread_local int bodies = 0;

class OpenBody {
 public:
  OpenBody() { ++bodies; }
  ~OpenBody() { --bodies; }
  OpenBody(const OpenBody&) = delete;
};

bool holds(const char* op, const Tensor& predicate) {
  detail::check_predicate(op, predicate);
  return predicate.item<bool>();
}

}  // namespace

int detail::open_bodies() { return bodies; }

void detail::check_predicate(const char* op, const Tensor& value) {
  TW_CHECK_USER(value.dtype() == boolean && value.rank() == 0, op, "compare and reduce first: tw::reduce_all(x > 0)",
                "expected a boolean scalar as predicate, got {} {}", value.dtype(), value.shape());
}

void detail::check_loop_variables(const char* op, const TensorList& before, const TensorList& after) {
  TW_CHECK_USER(after.size() == before.size(), op, "return one value for each loop variable, in order",
                "expected {} values from the body, got {}", before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i)
    TW_CHECK_USER(after[i].spec() == before[i].spec(), op, "a loop variable keeps its dtype and shape",
                  "loop variable {} changed: expected {} {}, got {} {}", i, before[i].dtype(), before[i].shape(),
                  after[i].dtype(), after[i].shape());
}

std::vector<Tensor> detail::cond(const Tensor& pred, Branch f, Branch g) {
  check_predicate("cond", pred);
  const random::Position position = random::Position::fork();
  const auto branch = [&](Branch taken) {
    const OpenBody open;
    const random::Replay numbers(position);  // the same in both, so that either may be traced
    return taken();
  };
  if (tracer() && is_symbolic(pred))
    return traced_cond(
        pred, [&](const TensorList&) { return branch(f); }, [&](const TensorList&) { return branch(g); });
  return branch(pred.item<bool>() ? f : g);
}

std::vector<Tensor> while_loop(const std::function<Tensor(const std::vector<Tensor>&)>& cond,
                               const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& body,
                               std::vector<Tensor> vars, const WhileLoop& options) {
  TW_CHECK_USER(options.maximum_iterations >= -1, "while_loop", "-1 means no limit",
                "expected maximum_iterations of at least -1, got {}", options.maximum_iterations);
  const random::Position in_cond = random::Position::fork(), in_body = random::Position::fork();
  if (tracer())
    return detail::traced_while_loop(
        [&](const std::vector<Tensor>& v) {
          const OpenBody open;
          const random::Replay numbers(in_cond);
          return std::vector<Tensor>{cond(v)};
        },
        [&](const std::vector<Tensor>& v) {
          const OpenBody open;
          const random::Replay numbers(in_body);
          return body(v);
        },
        vars, options.maximum_iterations);
  const auto goes_on = [&](std::int64_t turn) {
    const OpenBody open;
    const random::LoopTurn numbers(in_cond, turn);
    return holds("while_loop", cond(vars));
  };
  for (std::int64_t turn = 0; turn != options.maximum_iterations && goes_on(turn); ++turn) {
    const OpenBody open;
    const random::LoopTurn numbers(in_body, turn);
    std::vector<Tensor> next = body(vars);
    detail::check_loop_variables("while_loop", vars, next);
    vars = std::move(next);
  }
  return vars;
}

std::vector<Tensor> scan(
    const std::function<std::vector<Tensor>(const std::vector<Tensor>&, const std::vector<Tensor>&)>& f,
    const std::vector<Tensor>& init, const std::vector<Tensor>& xs) {
  const std::int64_t steps = steps_of(xs);
  const random::Position position = random::Position::fork();
  if (tracer())
    return detail::traced_scan(
        [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& x) {
          const OpenBody open;
          const random::Replay numbers(position);
          return f(carry, x);
        },
        init, xs, steps);
  std::vector<std::vector<Tensor>> slices, carries(init.size());  // slices[x][t], carries[variable][t]
  for (const auto& x : xs) slices.push_back(unstack(x));
  std::vector<Tensor> carry = init;
  for (std::int64_t t = 0; t < steps; ++t) {
    const OpenBody open;
    const random::LoopTurn numbers(position, t);
    std::vector<Tensor> x;
    for (const auto& list : slices) x.push_back(list[static_cast<std::size_t>(t)]);
    std::vector<Tensor> next = f(carry, x);
    detail::check_loop_variables("scan", carry, next);
    carry = std::move(next);
    for (std::size_t i = 0; i < carry.size(); ++i) carries[i].push_back(carry[i]);
  }
  std::vector<Tensor> result;
  for (std::size_t i = 0; i < init.size(); ++i)
    result.push_back(steps > 0 ? stack(carries[i]) : zeros(init[i].shape().inserted(0, 0), init[i].dtype()));
  return result;
}

}  // namespace thalweg
