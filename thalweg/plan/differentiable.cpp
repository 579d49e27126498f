#include "thalweg/plan/differentiable.h"

#include <algorithm>

#include "thalweg/autodiff/records.h"
#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/tracer.h"
#include "thalweg/graph/passes/passes.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/graph/trace.h"
#include "thalweg/ops/fill/fill_op.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {

// The graph with residuals among its results, and its derivative.
struct DifferentiableGraph::Pair {
  Graph forward;  // results, then residuals
  std::shared_ptr<const Procedure> procedure;
  std::size_t results = 0;
  std::shared_ptr<DifferentiableGraph> backward;
  // What the backward graph takes: inputs and outputs of the forward graph by number, then the seeds.
  std::vector<int> reads_inputs, reads_outputs, seeds;
  std::vector<GradientResult> gradients;  // its results
};

struct CallOp {
  std::shared_ptr<DifferentiableGraph> graph;

  static Keeps keeps(const DifferentiableGraph::Pair& pair) {
    Keeps keeps{.inputs = Positions::all(), .outputs = {}};
    for (int output : pair.reads_outputs) keeps.outputs.add(output);
    return keeps;
  }

  Gradients gradient(const Kept& kept, const Tensors& dy) const {
    TW_CHECK(unimplemented, !graph->has_custom_gradient_, "function",
             "take the gradient inside of the function, where the rule is called",
             "it uses custom_gradient, whose rule a tape outside of a traced function does not see");
    const auto& pair = graph->pair();
    for (std::size_t i = pair.results; i < dy.size(); ++i)
      if (dy[i].defined()) return through_residuals(kept, dy);
    Tensors inputs;
    std::vector<bool> given;
    for (int input : pair.reads_inputs) inputs.push_back(kept.input(input));
    for (int output : pair.reads_outputs) inputs.push_back(kept.output(output));
    for (int seed : pair.seeds) {
      const auto& gradient = dy[static_cast<std::size_t>(seed)];
      given.push_back(gradient.defined());
      if (given.back()) inputs.push_back(gradient);
    }
    const auto [backward, gradients] = graph->backward(given);
    const Tensors found = backward->call(inputs);
    Gradients result(static_cast<std::size_t>(kept.inputs()));
    std::size_t next = 0;
    for (const auto [input, is_sparse] : gradients) {
      auto& gradient = result[static_cast<std::size_t>(input)];
      gradient =
          is_sparse ? Gradient(found[next], found[next + 1], kept.input_spec(input).shape) : Gradient(found[next]);
      next += is_sparse ? 2 : 1;
    }
    return result;
  }

  // Of a higher order: a backward pass that read the residuals is itself differentiated. The forward graph is run
  // again, with the residuals as results like others.
  Gradients through_residuals(const Kept& kept, const Tensors& dy) const {
    GradientTape tape;
    Tensors inputs;
    std::vector<Tensor> sources, targets, seeds;
    std::vector<std::size_t> numbers;
    for (std::size_t i = 0; i < static_cast<std::size_t>(kept.inputs()); ++i) {
      inputs.push_back(kept.input(static_cast<int>(i)));
      if (!is_float(inputs[i].dtype()) || is_repeated({inputs.data(), inputs.size()}, i)) continue;
      tape.watch(inputs[i]);
      sources.push_back(inputs[i]);
      numbers.push_back(i);
    }
    const Tensors outputs = graph->with_residuals()->call(inputs);
    for (std::size_t i = 0; i < dy.size(); ++i)
      if (dy[i].defined()) targets.push_back(outputs[i]), seeds.push_back(dy[i]);
    const auto found = tape.gradient(targets, sources, {.output_gradients = seeds});
    Gradients result(static_cast<std::size_t>(kept.inputs()));
    for (std::size_t i = 0; i < found.size(); ++i) result[numbers[i]] = found[i];
    return result;
  }

  const DifferentiableGraph::Pair& pair() const { return graph->pair(); }
};

namespace {

const OpInfo& call_info() {
  static const OpInfo info = [] {
    OpInfo made{};
    made.name = "function";
    made.owner = memory::owner("function");
    made.kind = GradientKind::rule;
    made.keeps = [](const void* op, Needs) {
      const auto& call = *static_cast<const CallOp*>(op);
      return CallOp::keeps(call.pair());
    };
    made.gradient = [](const void* op, const Kept& kept, const Tensors& dy, Needs) {
      return static_cast<const CallOp*>(op)->gradient(kept, dy);
    };
    made.copy = [](const void* op) -> std::shared_ptr<const void> {
      return std::make_shared<CallOp>(*static_cast<const CallOp*>(op));
    };
    return made;
  }();
  return info;
}

bool watched(const Tensors& inputs) {
  return std::any_of(recorders().begin(), recorders().end(), [&](const Recorder* recorder) {
    return std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& input) { return recorder->tracks(input); });
  });
}

// Of the results from this one on.
std::int64_t result_bytes(const Graph& graph, std::size_t first = 0) {
  std::int64_t bytes = 0;
  for (std::size_t i = first; i < graph.results.size(); ++i)
    bytes += memory::rounded(graph.spec(graph.results[i]).bytes());
  return bytes;
}

// Forward and backward in one graph: arguments are those of `graph`, then a seed for each float result. Results are
// those of `graph`, then the gradients that exist.
struct Joint {
  Graph graph;
  std::vector<int> seeds;
  std::vector<GradientResult> gradients;
};

Joint trace_joint(const Graph& graph) {
  Trace trace(graph.name);
  Joint joint;
  Tensors inputs, results;
  std::vector<Tensor> sources, targets, seeds;
  std::vector<int> source_numbers;
  for (ValueId argument : graph.arguments) inputs.push_back(trace.add_argument(graph.spec(argument)));
  const PauseRecording outer_tapes;
  const TraceScope here(&trace);
  GradientTape tape;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (is_float(inputs[i].dtype())) {
      tape.watch(inputs[i]);
      sources.push_back(inputs[i]);
      source_numbers.push_back(static_cast<int>(i));
    }
  results = replay(graph, {inputs.data(), inputs.size()});
  for (std::size_t i = 0; i < results.size(); ++i)
    if (is_float(results[i].dtype())) {
      targets.push_back(results[i]);
      seeds.push_back(trace.add_argument(results[i].spec()));
      joint.seeds.push_back(static_cast<int>(i));
    }
  const auto gradients = tape.gradient(targets, sources, {.output_gradients = seeds});
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined()) {
      results.push_back(gradients[i].values());
      if (gradients[i].is_sparse()) results.push_back(gradients[i].indices());
      joint.gradients.push_back({source_numbers[i], gradients[i].is_sparse()});
    }
  joint.graph = trace.finish({results.data(), results.size()});
  joint.graph.precision = graph.precision;
  return joint;
}

// The joint graph cut in two: what depends on a seed is backward, and what that reads of the rest are residuals.
class Cut {
 public:
  // inputs, results: how many of the joint graph's are the forward graph's.
  Cut(const Graph& whole, std::size_t inputs, std::size_t results)
      : forward(whole), whole_(whole), late_(whole.values.size(), false) {
    const auto seeds = whole.arguments.begin() + static_cast<std::ptrdiff_t>(inputs);
    forward.nodes.clear();
    forward.arguments.resize(inputs);
    forward.results.resize(results);
    backward = forward;
    backward.arguments.clear();
    backward.results.assign(whole.results.begin() + static_cast<std::ptrdiff_t>(results), whole.results.end());
    for (auto seed = seeds; seed != whole.arguments.end(); ++seed) late_[static_cast<std::size_t>(*seed)] = true;
    divide_nodes();
    hand_over();
    backward.arguments.insert(backward.arguments.end(), seeds, whole.arguments.end());
  }

  Graph forward, backward;  // the results of the forward graph are followed by the residuals
  std::vector<int> reads_inputs,
      reads_outputs;  // of the forward graph, by number: the backward graph's first arguments

 private:
  bool is_late(ValueId value) const { return late_[static_cast<std::size_t>(value)]; }  // depends on a seed

  void divide_nodes() {
    for (const auto& node : whole_.nodes) {
      const bool late =
          std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return is_late(input); });
      for (ValueId output : node.outputs) late_[static_cast<std::size_t>(output)] = late;
      (late ? backward : forward).nodes.push_back(node);
    }
  }

  // What the backward graph reads of the forward one, once each.
  std::vector<ValueId> values_read() const {
    std::vector<ValueId> read;
    const auto note = [&](ValueId value) {
      if (!is_late(value) && !whole_.constant(value) && std::find(read.begin(), read.end(), value) == read.end())
        read.push_back(value);
    };
    for (const auto& node : backward.nodes)
      for (ValueId input : node.inputs) note(input);
    for (ValueId result : backward.results) note(result);
    return read;
  }

  void hand_over() {
    const auto& arguments = forward.arguments;
    std::vector<ValueId> residuals;
    for (ValueId value : values_read()) {
      const auto at = std::find(arguments.begin(), arguments.end(), value);
      if (at == arguments.end()) {
        residuals.push_back(value);
        continue;
      }
      reads_inputs.push_back(static_cast<int>(at - arguments.begin()));
      backward.arguments.push_back(value);
    }
    for (ValueId value : residuals) {
      auto& results = forward.results;
      auto at = std::find(results.begin(), results.end(), value);
      if (at == results.end()) at = results.insert(results.end(), value);
      reads_outputs.push_back(static_cast<int>(at - results.begin()));
      backward.arguments.push_back(value);
    }
  }

  const Graph& whole_;
  std::vector<bool> late_;
};

// A backward graph without some of its seeds, the last arguments: those of results that nothing was made of. What only
// these reach is not there, as on a tape; zeros would meet what may be infinite.
DifferentiableGraph::Backward without_seeds(Graph graph, const std::vector<GradientResult>& gradients,
                                            const std::vector<bool>& given) {
  enum : char { early, late, missing };
  std::vector<char> state(graph.values.size(), early);
  const auto at = [&](ValueId value) -> char& { return state[static_cast<std::size_t>(value)]; };
  const ValueIds arguments = graph.arguments;
  const std::size_t first = arguments.size() - given.size();
  graph.arguments.resize(first);
  for (std::size_t i = 0; i < given.size(); ++i) {
    at(arguments[first + i]) = given[i] ? late : missing;
    if (given[i]) graph.arguments.push_back(arguments[first + i]);
  }
  std::vector<std::pair<ValueId, ValueId>> sums;  // and what is left of them
  std::vector<Node> nodes;
  nodes.swap(graph.nodes);
  for (Node& node : nodes) {
    const auto reads = [&](char which) {
      return std::ranges::any_of(node.inputs, [&](ValueId input) { return at(input) == which; });
    };
    const bool lacks = reads(missing), is_there = reads(late) || !lacks;
    for (ValueId output : node.outputs) at(output) = is_there ? late : missing;
    if (!is_there) continue;
    if (lacks && is_op(node, row_op(Row::add))) {
      sums.emplace_back(node.outputs[0], node.inputs[at(node.inputs[0]) == missing ? 1 : 0]);
      continue;
    }
    for (ValueId& input : node.inputs) {
      if (at(input) != missing) continue;
      const Spec spec = graph.spec(input);
      input = graph.add_node(fill_info(), make_fill(spec.shape, 0, spec.dtype), {}, {spec}).outputs[0];
      state.resize(graph.values.size(), early);
    }
    graph.nodes.push_back(std::move(node));
  }
  DifferentiableGraph::Backward made;
  const ValueIds results = std::exchange(graph.results, {});
  std::size_t next = 0;
  for (const auto& gradient : gradients)
    for (const bool is_there = at(results[next]) != missing; const int part : {0, 1}) {
      if (part == 1 && !gradient.is_sparse) break;
      if (is_there) graph.results.push_back(results[next]);
      if (is_there && part == 0) made.gradients.push_back(gradient);
      ++next;
    }
  Replacements replaced(graph.values.size());  // zeros are among them by now
  for (const auto& [sum, rest] : sums) replaced.set(sum, rest);
  replaced.apply(graph);
  made.graph = std::make_shared<DifferentiableGraph>(prune(std::move(graph)));
  return made;
}

}  // namespace

DifferentiableGraph::Backward DifferentiableGraph::backward(const std::vector<bool>& given) {
  const auto& both = pair();
  if (std::ranges::all_of(given, [](bool is_there) { return is_there; })) return {both.backward, both.gradients};
  std::lock_guard lock(mutex_);
  Backward& known = partial_[given];
  if (!known.graph) known = without_seeds(both.backward->graph_, both.gradients, given);
  return known;
}

Graph as_pure_graph(const Graph& traced) {
  Graph pure = traced;
  for (const auto& variable : traced.variables) pure.arguments.push_back(variable.entry);
  for (const auto& number : traced.host_numbers) pure.arguments.push_back(number.value);
  if (traced.random_state >= 0) pure.arguments.push_back(traced.random_state);
  for (const auto& variable : traced.variables)
    if (variable.update >= 0) pure.results.push_back(variable.update);
  pure.variables.clear();
  pure.host_numbers.clear();
  pure.random_state = -1;
  return pure;
}

const DifferentiableGraph::Pair& DifferentiableGraph::pair() {
  std::lock_guard lock(mutex_);
  if (pair_) return *pair_;
  Joint joint = trace_joint(graph_);
  joint.graph = eliminate_common(simplify_for_gradients(prune(std::move(joint.graph))));
  Cut cut(joint.graph, graph_.arguments.size(), graph_.results.size());
  auto pair = std::make_shared<Pair>();
  pair->results = graph_.results.size();
  pair->seeds = std::move(joint.seeds);
  pair->gradients = std::move(joint.gradients);
  pair->reads_inputs = std::move(cut.reads_inputs);
  pair->reads_outputs = std::move(cut.reads_outputs);
  pair->forward = prune(std::move(cut.forward));
  pair->procedure = compile_procedure(pair->forward);
  pair->backward = std::make_shared<DifferentiableGraph>(prune(std::move(cut.backward)));
  pair_ = std::move(pair);
  return *pair_;
}

std::shared_ptr<DifferentiableGraph> DifferentiableGraph::with_residuals() {
  const Graph& forward = pair().forward;
  std::lock_guard lock(mutex_);
  if (!with_residuals_) with_residuals_ = std::make_shared<DifferentiableGraph>(forward);
  return with_residuals_;
}

Tensors DifferentiableGraph::run(const Procedure& procedure, const Graph& graph, const Tensors& inputs) const {
  Tensors results;
  SmallVector<void*, 32> from, to;
  for (const auto& input : inputs) from.push_back(mutable_data(input));
  for (ValueId result : graph.results) {
    results.push_back(allocate_tensor(graph.spec(result), call_info().owner));
    to.push_back(mutable_data(results.back()));
  }
  const auto workspace = Buffer::allocate(procedure.workspace(), memory::owner("arena"));
  procedure.run({from.data(), from.size()}, {}, {to.data(), to.size()}, static_cast<std::byte*>(workspace->data()));
  return results;
}

const Procedure& DifferentiableGraph::plain() {
  std::lock_guard lock(mutex_);
  if (!plain_) plain_ = compile_procedure(graph_);
  return *plain_;
}

std::int64_t DifferentiableGraph::residual_bytes() {
  const auto& both = pair();
  return result_bytes(both.forward, both.results);
}

std::int64_t DifferentiableGraph::peak_bytes() {
  const auto& both = pair();
  const std::int64_t backward = result_bytes(both.backward->graph_) + both.backward->plain().workspace();
  return result_bytes(both.forward) + std::max(both.procedure->workspace(), backward);
}

Tensors DifferentiableGraph::call(const Tensors& inputs) {
  if (any_symbolic({inputs.data(), inputs.size()})) return replay(graph_, {inputs.data(), inputs.size()});
  if (!watched(inputs)) return run(plain(), graph_, inputs);
  const auto& both = pair();
  Tensors outputs = run(*both.procedure, both.forward, inputs);
  const CallOp op{shared_from_this()};
  for (auto* recorder : recorders())
    recorder->record({call_info(), &op, {inputs.data(), inputs.size()}, {outputs.data(), outputs.size()}});
  return Tensors(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(both.results));
}

}  // namespace thalweg
