#include "thalweg/plan/compare.h"

#include <cmath>
#include <utility>

#include "thalweg/core/check.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

double tolerance_of(DType dtype) {
  if (dtype == f64) return 1e-9;
  if (dtype == f32) return 1e-3;
  return is_float(dtype) ? 5e-2 : 0;
}

// Gradients may differ by the tolerance of this share of the largest of all, whatever their own size: they are sums of
// numbers like those that the others are sums of.
constexpr double share_of_rounding = 1e-3;

std::vector<double> numbers_of(const Tensor& tensor) {
  if (is_float(tensor.dtype())) return tensor.to_vector<double>();
  std::vector<double> numbers;
  if (tensor.dtype() == boolean)
    for (const bool value : tensor.to_vector<bool>()) numbers.push_back(value);
  else
    for (const auto value : tensor.to_vector<std::int64_t>()) numbers.push_back(static_cast<double>(value));
  return numbers;
}

double largest_of(const std::vector<double>& numbers) {
  double largest = 0;
  for (double value : numbers) largest = std::max(largest, std::isfinite(value) ? std::abs(value) : 0);
  return largest;
}

double largest_change(const Tensor& from, const Tensor& to) {
  std::vector<double> change = numbers_of(to);
  const auto before = numbers_of(from);
  for (std::size_t i = 0; i < change.size(); ++i) change[i] -= before[i];
  return largest_of(change);
}

double larger_of(const Tensor& a, const Tensor& b) {
  return std::max(largest_of(numbers_of(a)), largest_of(numbers_of(b)));
}

void compare(const std::string& function, const std::string& what, const Tensor& got, const Tensor& want,
             double allowed) {
  const auto a = numbers_of(got), b = numbers_of(want);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    TW_CHECK(internal, same || std::abs(a[i] - b[i]) <= allowed, "function",
             "this is a fault in the library, or the callable reads something that changes between calls",
             "\"{}\" compiled differs from eager in {}: element {} is {} instead of {}", function, what, i, a[i], b[i]);
  }
}

void compare_specs(const std::string& function, const std::string& what, const Tensor& got, const Tensor& want) {
  TW_CHECK(internal, got.spec() == want.spec(), "function", "report it with the program",
           "\"{}\" compiled gives {} of {} {}, eager {} {}", function, what, got.shape(), got.dtype(), want.shape(),
           want.dtype());
}

// Differences are measured against the largest magnitude: small entries of a sum carry the rounding of large ones.
double allowed_of_result(const Tensor& got, const Tensor& want, double times) {
  return tolerance_of(want.dtype()) * (times > 1 ? times * larger_of(got, want) : largest_of(numbers_of(want)));
}

// What follows from a gradient that is rounding in part may differ in that part of what the step changed, and where it
// is rounding alone by all of that, with either sign.
double allowed_of_variable(const Tensor& got, const Tensor& want, const Tensor& before, double times) {
  const double tolerance = tolerance_of(want.dtype()), value = tolerance * largest_of(numbers_of(want));
  if (times <= 1 || before.shape() != want.shape()) return value;
  return value + std::min(2.0, tolerance * times) * std::max(largest_change(before, got), largest_change(before, want));
}

// Result or gradient number i.
std::string name_of(const PlanState& plan, std::size_t i) {
  if (i < plan.traced.results.size()) return fmt::format("result {}", i);
  return fmt::format("the gradient of variable \"{}\"", plan.gradient_names[i - plan.traced.results.size()]);
}

double norm_of(const std::vector<double>& numbers) {
  double sum = 0;
  for (double value : numbers) sum += value * value;
  return std::sqrt(sum);
}

// A step in 16 bits against the eager one in f32: as vectors, since single numbers differ by any amount. What is small
// beside the largest of all (the gradient of a bias before a norm, say) is rounding.
void compare_roughly(const std::string& function, const std::string& what, const Tensor& got, const Tensor& want,
                     double largest, double tolerance) {
  std::vector<double> a = numbers_of(got);
  const auto b = numbers_of(want);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = a[i] == b[i] ? 0 : a[i] - b[i];
  const double distance = norm_of(a), size = norm_of(b);
  TW_CHECK(internal, !std::isfinite(size) || distance <= tolerance * (size + 0.01 * largest), "function",
           "16 bits are not enough for this step, or this is a fault in the library; compare without `precision`",
           "\"{}\" compiled differs from eager in {} by {:.1f} %", function, what, 100 * distance / size);
}

void compare_narrow(const PlanState& plan, const Tensors& compiled, const Tensors& eager) {
  const double tolerance = plan.traced.precision == Precision::bf16 ? 0.1 : 0.05;
  double largest = 0;
  for (std::size_t i = plan.traced.results.size(); i < eager.size(); ++i)
    largest = std::max(largest, norm_of(numbers_of(eager[i])));
  for (std::size_t i = 0; i < compiled.size(); ++i)
    compare_roughly(plan.function, name_of(plan, i), compiled[i], eager[i],
                    i < plan.traced.results.size() ? 0 : largest, tolerance);
}

// Whether an output of the node is made of that input alone or element by element with others, or holds its rows.
bool carries_over(const Graph& graph, const Node& node, std::size_t input, ValueId output) {
  if (row_of(*node.info) || is_op(node, fused_info()))
    return graph.spec(node.inputs[input]).shape == graph.spec(output).shape;
  if (is_op(node, put_rows_info())) return input != 1;
  return is_op(node, unsorted_segment_sum_info()) && input == 0;
}

// times: of values, 0 where nothing is known. Those that follow from others have the most of them.
void follow(const Graph& graph, std::vector<double>& times) {
  for (const Node& node : graph.nodes)
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      for (ValueId output : node.outputs)
        if (carries_over(graph, node, i, output)) {
          double& made = times[static_cast<std::size_t>(output)];
          made = std::max(made, times[static_cast<std::size_t>(node.inputs[i])]);
        }
}

// Updates read the rows that a row-sparse gradient was made of.
void note_rows(const Graph& graph, std::vector<double>& times) {
  for (const Node& node : graph.nodes)
    if (is_op(node, unsorted_segment_sum_info()))
      if (const double found = times[static_cast<std::size_t>(node.outputs[0])]; found > 0)
        times[static_cast<std::size_t>(node.inputs[0])] = found;
}

thread_local bool runs_eagerly = false;

}  // namespace

EagerScope::EagerScope() : outer_(std::exchange(runs_eagerly, true)) {}
EagerScope::~EagerScope() { runs_eagerly = outer_; }
bool EagerScope::active() { return runs_eagerly; }

Roundings find_roundings(const PlanState& plan, const Tensors& compiled, const Tensors& eager) {
  const Graph& graph = *plan.with_gradients;
  const auto size_of_gradient = [&](std::size_t i) { return larger_of(compiled[i], eager[i]); };
  if (compiled.size() != eager.size()) return {};
  const std::size_t first = plan.traced.results.size();
  double largest = 0;
  for (std::size_t i = first; i < eager.size(); ++i) largest = std::max(largest, size_of_gradient(i));
  std::vector<double> times(graph.values.size());
  for (std::size_t i = first; i < eager.size(); ++i)
    if (const double size = size_of_gradient(i); size > 0 && size < share_of_rounding * largest)
      times[static_cast<std::size_t>(graph.results[i])] = share_of_rounding * largest / size;
  Roundings found;
  for (ValueId result : graph.results) found.results.push_back(times[static_cast<std::size_t>(result)]);
  note_rows(graph, times);
  follow(graph, times);
  for (const auto& variable : graph.variables)
    found.variables.push_back(variable.update < 0 ? 0 : times[static_cast<std::size_t>(variable.update)]);
  return found;
}

void compare_with_eager(const PlanState& plan, const StepOutcome& compiled, const StepOutcome& eager,
                        const std::vector<Tensor>& before, const Roundings& roundings) {
  TW_CHECK(failed_precondition, compiled.results.size() == eager.results.size(), "function",
           "the callable must do the same in every call: no branches on counters or on the outside",
           "\"{}\" gave {} results and gradients while traced, {} in the eager run", plan.function,
           compiled.results.size(), eager.results.size());
  // Updates may amplify what is small (Adam divides by its root), so that variables say nothing.
  if (plan.traced.precision != Precision::f32) return compare_narrow(plan, compiled.results, eager.results);
  const auto times = [](const std::vector<double>& list, std::size_t i) { return list.empty() ? 0 : list[i]; };
  for (std::size_t i = 0; i < compiled.results.size(); ++i) {
    const Tensor &got = compiled.results[i], &want = eager.results[i];
    compare_specs(plan.function, name_of(plan, i), got, want);
    compare(plan.function, name_of(plan, i), got, want, allowed_of_result(got, want, times(roundings.results, i)));
  }
  for (std::size_t i = 0; i < compiled.variables.size(); ++i) {
    const Tensor &got = compiled.variables[i], &want = eager.variables[i];
    const std::string name = fmt::format("variable \"{}\"", plan.traced.variables[i].variable.name());
    compare_specs(plan.function, name, got, want);
    compare(plan.function, name, got, want, allowed_of_variable(got, want, before[i], times(roundings.variables, i)));
  }
}

}  // namespace thalweg
