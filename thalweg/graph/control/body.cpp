#include "thalweg/graph/control/body.h"

#include <cstring>

#include "thalweg/autodiff/custom_gradient.h"
#include "thalweg/autodiff/tape.h"
#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/ordinal.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/graph/trace.h"
#include "thalweg/ops/fill/fill.h"
#include "thalweg/ops/random/key.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

static_assert(random::state_size * static_cast<std::int64_t>(sizeof(std::int64_t)) <= state_bytes);

std::atomic<std::int64_t> bodies_made{0};

double flops_of(const Graph& graph) {
  double total = 1;
  SmallVector<const Spec*, 4> specs;
  for (const auto& node : graph.nodes)
    if (node.info->flops) total += node.info->flops(node.op.get(), input_specs(graph, node, specs));
  return total;
}

}  // namespace

Body::Body(Graph graph, std::size_t sums, bool has_custom_gradient)
    : graph_(std::move(graph)),
      sums_(sums),
      has_custom_gradient_(has_custom_gradient),
      flops_(flops_of(graph_)),
      number_(++bodies_made) {}

const Procedure& Body::procedure() const {
  std::call_once(made_, [&] {
    Graph graph = graph_;
    const std::vector<ValueId> parts(graph.results.begin() + static_cast<std::ptrdiff_t>(results()),
                                     graph.results.end());
    graph.results.resize(results());
    const OpInfo& add = row_op(Row::add);
    for (ValueId part : parts) {  // total = total + part
      const Spec spec = graph.spec(part);
      const ValueId total = graph.add_value(spec);
      graph.carries.push_back(
          {total, graph.add_node(add, add.copy(&row_info(Row::add)), {total, part}, {spec}, 0).outputs[0]});
    }
    procedure_ = compile_procedure(std::move(graph));
  });
  return *procedure_;
}

void Body::check_inputs(const char* op, Inputs in, int from, int count, std::size_t first) const {
  TW_CHECK_INTERNAL(first + static_cast<std::size_t>(count) <= graph_.arguments.size() && from + count <= in.size(), op,
                    "expected {} inputs of its body, got {}", graph_.arguments.size(), in.size());
  for (int i = 0; i < count; ++i) {
    const Spec& expected = graph_.spec(graph_.arguments[first + static_cast<std::size_t>(i)]);
    TW_CHECK_INTERNAL(in[from + i] == expected, op, "input {} is {} {}, its body was traced with {} {}", from + i,
                      in[from + i].dtype, in[from + i].shape, expected.dtype, expected.shape);
  }
}

void visit(FieldVisitor& visitor, std::string_view name, BodyPointer& body) {
  std::int64_t number = body ? body->number() : 0;
  visitor.integer(name, number);
}

TracedBody trace_body(const char* op, std::span<const Spec> arguments, detail::ListFunction f, std::size_t sums) {
  Trace trace(op, tracer());
  TensorList symbols, results;
  for (const auto& spec : arguments) symbols.push_back(trace.add_argument(spec));
  const auto rules = detail::custom_gradients_traced();
  {
    const PauseRecording no_tapes;
    const TraceScope inside(&trace);
    results = f(symbols);
  }
  const bool has_custom_gradient = detail::custom_gradients_traced() != rules;
  Graph graph = trace.finish(results);
  return {std::make_shared<const Body>(std::move(graph), sums, has_custom_gradient), trace.captured(),
          trace.captured_random_state()};
}

TensorList differentiate(const char* op, const Body& body, const TensorList& arguments, const TensorList& seeds,
                         const std::vector<bool>& wanted) {
  TW_CHECK(unimplemented, !body.has_custom_gradient(), op,
           "take it out of the body, or write the gradient as ops: x + stop_gradient(y - x) passes gradients through",
           "its body uses custom_gradient, whose rule a traced body does not keep");
  GradientTape tape;
  TensorList sources, targets, weights;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (wanted[i]) tape.watch(arguments[i]), sources.push_back(arguments[i]);
  const Tensors outputs = replay(body.graph(), arguments);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (seeds[i].defined()) targets.push_back(outputs[i]), weights.push_back(seeds[i]);
  const auto found = tape.gradient(targets, sources, {.output_gradients = weights});
  TensorList result(arguments.size());
  for (std::size_t i = 0, next = 0; i < arguments.size(); ++i)
    if (wanted[i]) result[i] = found[next++].dense();
  return result;
}

void append(TensorList& list, const TensorList& more) { list.insert(list.end(), more.begin(), more.end()); }

Tensor or_zeros(const Tensor& tensor, const Spec& spec) {
  return tensor.defined() ? tensor : fill(spec.shape, 0, spec.dtype);
}

void set_turn(std::byte* state, const void* whole, std::int64_t turn) {
  std::int64_t words[random::state_size];
  std::memcpy(words, whole, sizeof(words));
  words[1] = static_cast<std::int64_t>(random::in_turn(static_cast<std::uint64_t>(words[1]), turn));
  std::memcpy(state, words, sizeof(words));
}

}  // namespace thalweg
