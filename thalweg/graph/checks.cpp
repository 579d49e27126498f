// Which nodes may still refuse their values: a variable must not be overwritten before the last of them.
#include <numeric>
#include <optional>

#include "thalweg/graph/control/control.h"
#include "thalweg/graph/graph.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

// What a node lets its indices be: below `limit`, and not negative unless it says so.
struct Bound {
  std::int64_t limit;
  bool negative;
  // Whether indices that are inside of this bound are inside of the other.
  bool within(const Bound& other) const { return limit <= other.limit && (!negative || other.negative); }
};

struct IndexCheck {
  const OpInfo& (*op)();
  int indices;  // which input
  std::optional<Bound> (*bound)(const Graph&, const Node&);
};

const Shape& input_shape(const Graph& graph, const Node& node, int i) {
  return graph.spec(node.inputs[static_cast<std::size_t>(i)]).shape;
}
const Shape& output_shape(const Graph& graph, const Node& node) { return graph.spec(node.outputs[0]).shape; }

// Index vectors of one number into a tensor of this shape; longer ones have several bounds.
std::optional<Bound> vectors_into(const Shape& indices, const Shape& shape) {
  if (indices.last() != 1) return std::nullopt;
  return Bound{shape[0], false};
}

constexpr IndexCheck checks[] = {
    {gather_info, 1,
     [](const Graph& g, const Node& n) -> std::optional<Bound> {
       return Bound{input_shape(g, n, 0)[static_cast<int>(integer_field(n, "axis"))], false};
     }},
    {embedding_lookup_info, 1,
     [](const Graph& g, const Node& n) -> std::optional<Bound> {
       return Bound{input_shape(g, n, 0)[0], integer_field(n, "negative_is_zero") != 0};
     }},
    {scatter_nd_info, 0,
     [](const Graph& g, const Node& n) { return vectors_into(input_shape(g, n, 0), output_shape(g, n)); }},
    {tensor_scatter_nd_add_info, 1,
     [](const Graph& g, const Node& n) { return vectors_into(input_shape(g, n, 1), output_shape(g, n)); }},
    {tensor_scatter_nd_update_info, 1,
     [](const Graph& g, const Node& n) { return vectors_into(input_shape(g, n, 1), output_shape(g, n)); }},
    {unsorted_segment_sum_info, 1,
     [](const Graph& g, const Node& n) -> std::optional<Bound> {
       return Bound{output_shape(g, n)[0], true};
     }},
    {distinct_rows_info, 0,
     [](const Graph&, const Node& n) -> std::optional<Bound> {
       return Bound{integer_field(n, "rows"), true};
     }},
    {sparse_softmax_cross_entropy_info, 0,
     [](const Graph& g, const Node& n) -> std::optional<Bound> {
       return Bound{input_shape(g, n, 1).last(), false};
     }},
    {sparse_softmax_cross_entropy_backward_info, 0,
     [](const Graph& g, const Node& n) -> std::optional<Bound> {
       return Bound{input_shape(g, n, 1).last(), false};
     }},
    {linear_cross_entropy_info, 0,
     [](const Graph& g, const Node& n) -> std::optional<Bound> {
       return Bound{input_shape(g, n, 2)[integer_field(n, "transpose_w") ? 0 : 1], false};
     }},
    {linear_cross_entropy_backward_info, 0,
     [](const Graph& g, const Node& n) -> std::optional<Bound> {
       return Bound{input_shape(g, n, 2)[integer_field(n, "transpose_w") ? 0 : 1], false};
     }},
};

const IndexCheck* find_check(const Node& node) {
  for (const auto& check : checks)
    if (is_op(node, check.op())) return &check;
  return nullptr;
}

// Another shape, or a wider integer, of the same numbers.
bool keeps_numbers(const Graph& graph, const Node& node) {
  if (node.inputs.size() != 1) return false;
  const Spec &from = graph.spec(node.inputs[0]), &to = graph.spec(node.outputs[0]);
  if (from.size() != to.size() || is_float(from.dtype) || is_float(to.dtype)) return false;
  return node.info->alias || (is_op(node, cast_info()) && from.dtype == i32 && to.dtype == i64);
}

}  // namespace

std::vector<bool> checking_nodes(const Graph& graph) {
  std::vector<ValueId> first(graph.values.size());  // the first value with the same numbers
  std::iota(first.begin(), first.end(), 0);
  std::vector<std::optional<Bound>> passed(graph.values.size());
  std::vector<bool> checking(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (keeps_numbers(graph, node))
      first[static_cast<std::size_t>(node.outputs[0])] = first[static_cast<std::size_t>(node.inputs[0])];
    checking[i] = is_control(*node.info) || node.info->checks_values;  // the code of a branch may check anything
    const IndexCheck* check = checking[i] ? find_check(node) : nullptr;
    const auto bound = check ? check->bound(graph, node) : std::nullopt;
    if (!bound) continue;
    const ValueId indices = node.inputs[static_cast<std::size_t>(check->indices)];
    auto& known = passed[static_cast<std::size_t>(first[static_cast<std::size_t>(indices)])];
    checking[i] = !known || !known->within(*bound);
    if (checking[i]) known = bound;
  }
  return checking;
}

}  // namespace thalweg
