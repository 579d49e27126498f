#include "thalweg/plan/input_gradients.h"

#include <algorithm>
#include <limits>

#include "thalweg/core/check.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/core/tracer.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/plan/function.h"
#include "thalweg/plan/infeasible.h"
#include "thalweg/plan/plan_state.h"

namespace thalweg {
namespace {

// Parts of a batch whose values stay in a core's caches are faster than larger ones: dense 100-256-256-1 on 200,000
// rows, two threads of a Zen 4, 374 ms within 6 MiB, 380 within 16 and 399 within 32.
constexpr std::int64_t cache_bytes_of_a_thread = MiB(3);

bool example_by_example_fits(const Graph& traced, std::int64_t bytes) {
  const Ladder ladder = ladder_of(traced, {});
  return ladder.build_within({.parts = ladder.examples(), .effort = 0}, bytes).has_value();
}

// One call of a function whose result does not count in the budget.
template <class F>
Tensor call_within(const char* name, F f, const Tensor& x, std::int64_t budget) {
  TW_CHECK_USER(budget >= 0, name, "pass bytes, for example tw::MiB(256), or 0 for no limit",
                "expected a memory budget of 0 or more, got {}", budget);
  TW_CHECK_USER(x.defined() && is_float(x.dtype()) && x.rank() >= 1, name, "pass a batch of float examples [n, …]",
                "expected a float tensor with examples along its leading axis");
  if (budget == 0 || tracer()) return function(f, {.name = name})(x);
  const auto unlimited = function(f, {.name = name});
  const PlanState& whole = unlimited.plan(x).state();
  const std::int64_t result_bytes = whole.compiled.result_bytes;
  std::int64_t bytes = std::min(budget, std::numeric_limits<std::int64_t>::max() - result_bytes) + result_bytes;
  const std::int64_t in_cache = config::threads() * cache_bytes_of_a_thread + whole.compiled.state_bytes + result_bytes;
  if (in_cache < bytes && example_by_example_fits(whole.traced, in_cache)) bytes = in_cache;
  try {
    return function(f, {.name = name, .memory_budget = bytes})(x);
  } catch (const InfeasibleBudget& none) {  // said again without the result; a smaller batch would have a smaller one
    BudgetAnswer answer = none.answer();
    answer.budget_bytes = budget;
    answer.peak_bytes -= result_bytes;
    answer.smallest_feasible_bytes -= result_bytes;
    answer.largest_batch.reset();
    throw_infeasible(name, answer, ladder_of(whole.traced, {}).obstacle());
  }
}

}  // namespace

Tensor input_gradients(const TensorFunction& f, const Tensor& x, const InputGradients& options) {
  const auto gradient = [&f](const Tensor& batch) {
    GradientTape tape({.watch_accessed_variables = false});
    tape.watch(batch);
    const Tensor y = f(batch);
    return tape.gradient(y, batch, {.unconnected = Unconnected::zero});
  };
  return call_within("input_gradients", gradient, x, options.memory_budget);
}

Tensor batch_jacobian(const TensorFunction& f, const Tensor& x, const BatchJacobian& options) {
  const auto jacobian = [&f](const Tensor& batch) {
    GradientTape tape({.persistent = true, .watch_accessed_variables = false});
    tape.watch(batch);
    const Tensor y = f(batch);
    const std::int64_t examples = batch.shape()[0];
    TW_CHECK_USER(y.rank() >= 1 && y.shape()[0] == examples, "batch_jacobian",
                  "return one entry for each example along the leading axis", "expected f(x) [{}, …], got {}", examples,
                  y.shape());
    const std::int64_t outputs = y.shape().product(1, y.rank());
    const Tensor flat = reshape(y, {examples, outputs});
    const auto pause = tape.stop_recording();
    return reshape(tape.batch_jacobian(flat, batch), concatenate(y.shape(), batch.shape().suffix(1)));
  };
  return call_within("batch_jacobian", jacobian, x, options.memory_budget);
}

}  // namespace thalweg
