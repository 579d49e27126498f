#include "thalweg/plan/batch_split.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "thalweg/core/check.h"
#include "thalweg/core/serial.h"
#include "thalweg/graph/passes/passes.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/fill/fill_op.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"
#include "thalweg/ops/widen.h"
#include "thalweg/plan/ladder.h"
#include "thalweg/plan/micro_batches.h"

namespace thalweg {
namespace {

using Kind = BatchState::Kind;

// What every value is, and in which loop it can be computed: values of loop k need totals of the loops before.
class States {
 public:
  // stretch: values that are one number, or one row, spread over as many entries as the batch has are taken as rows.
  States(const Graph& graph, const std::vector<int>& batch, std::int64_t examples, bool stretch)
      : graph_(graph),
        examples_(examples),
        stretch_(stretch),
        maker_(producers(graph)),
        states_(graph.values.size()),
        stage_(graph.values.size(), 0) {
    for (int argument : batch) at(graph.arguments[static_cast<std::size_t>(argument)]) = BatchState::of_rows(0, 1);
    for (const auto& constant : graph.constants)
      if (stretch && has_extent(graph.spec(constant.value).shape))
        at(constant.value) = BatchState::of_rows(0, graph.spec(constant.value).shape[0] / examples);
  }

  // The obstacle, or nothing.
  std::string find() {
    for (const auto& node : graph_.nodes)
      if (std::string obstacle = visit(node); !obstacle.empty()) return obstacle;
    return {};
  }

  const BatchState& operator[](ValueId value) const { return states_[static_cast<std::size_t>(value)]; }
  bool is_total(ValueId value) const { return (*this)[value].kind == Kind::sum || (*this)[value].kind == Kind::mean; }
  // Whether it adds up totals of one loop: it may as well add up the parts that each turn makes.
  bool adds_totals(const Node& node) const {
    const bool adds = is_op(node, row_op(Row::add)) || (is_op(node, fused_info()) && only_adds(node));
    return adds && std::ranges::all_of(node.inputs, [&](ValueId input) {
             return is_total(input) && (*this)[input] == (*this)[node.inputs[0]] &&
                    stage(input) == stage(node.inputs[0]) && graph_.spec(input) == graph_.spec(node.outputs[0]);
           });
  }
  // 0: known before any loop. Rows and totals of loop k have stage k; what follows from totals of loop k is known at
  // stage k + 1.
  int stage(ValueId value) const { return stage_[static_cast<std::size_t>(value)]; }
  // Inputs of a node that it wants cut although they are whole.
  const std::map<std::pair<const Node*, int>, BatchState>& cut() const { return cut_; }

 private:
  BatchState& at(ValueId value) { return states_[static_cast<std::size_t>(value)]; }

  static bool only_adds(const Node& fused) {
    const Program& program = program_of(fused.op.get());
    return program.constants.empty() &&
           std::ranges::all_of(program.instructions, [](const Instruction& i) { return i.row == Row::add; });
  }

  // The same number everywhere: cut along any axis it is a smaller one.
  bool is_fill(ValueId value) const {
    const int maker = maker_[static_cast<std::size_t>(value)];
    return maker >= 0 && is_op(graph_.nodes[static_cast<std::size_t>(maker)], fill_info());
  }

  bool has_extent(const Shape& shape) const {
    return shape.rank() > 0 && shape[0] >= examples_ && shape[0] % examples_ == 0;
  }

  // A fill, or the broadcast of something without a batch axis, of the batch's extent. Whether it is meant as a batch
  // or only as long as one, cutting it and what follows from it gives the same values.
  bool is_stretched(const Node& node) const {
    const bool broadcast = is_op(node, broadcast_to_info());
    if (!stretch_ || (!broadcast && !is_op(node, fill_info()))) return false;
    const Shape& shape = graph_.spec(node.outputs[0]).shape;
    if (!has_extent(shape)) return false;
    if (!broadcast) return true;
    const Shape& from = graph_.spec(node.inputs[0]).shape;
    return from.rank() < shape.rank() || from[0] == 1;
  }

  std::string visit(const Node& node) {
    BatchStates in;
    bool any_rows = false;
    int ready = 0;  // the first moment at which all whole inputs are known
    int loop = 0;   // of the rows inputs
    for (ValueId input : node.inputs) {
      const BatchState& state = (*this)[input];
      in.push_back(state.is_rows() ? state : BatchState{});
      any_rows |= state.is_rows();
      if (state.is_rows())
        loop = std::max(loop, stage(input));
      else
        ready = std::max(ready, is_total(input) ? stage(input) + 1 : stage(input));
    }
    if (!any_rows && is_stretched(node)) {
      const std::int64_t rows = graph_.spec(node.outputs[0]).shape[0] / examples_;
      return set(node, {BatchState::of_rows(0, rows)}, ready);
    }
    if (!any_rows && adds_totals(node)) {
      const ValueId first = node.inputs[0];
      return set(node, BatchStates(node.outputs.size(), (*this)[first]), stage(first));
    }
    if (!any_rows) return set(node, BatchStates(node.outputs.size()), ready);
    if (!node.info->batch_rule) return blocked(node);
    SmallVector<const Spec*, 4> specs;
    const BatchStates before = in;
    const BatchStates out = node.info->batch_rule(node.op.get(), input_specs(graph_, node, specs), in, examples_);
    for (std::size_t i = 0; i < in.size(); ++i)
      if (!(in[i] == before[i])) {
        if (in[i].axis != 0 && !is_fill(node.inputs[i])) return blocked(node);
        cut_[{&node, static_cast<int>(i)}] = in[i];
      }
    if (reads_all(node, out)) return set(node, out, std::max(loop + 1, ready));
    for (const auto& state : out)
      if (state.kind == Kind::blocked || state.kind == Kind::whole) return blocked(node);
    return set(node, out, std::max(loop, ready));
  }

  // A node that wants the rows of all examples at once, which the loop leaves one after the other.
  bool reads_all(const Node& node, const BatchStates& out) const {
    return std::all_of(out.begin(), out.end(), [](const BatchState& state) { return state.kind == Kind::whole; }) &&
           std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId input) { return !(*this)[input].is_rows() || (*this)[input].axis == 0; });
  }

  std::string set(const Node& node, const BatchStates& out, int stage) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      at(node.outputs[i]) = out[i];
      stage_[static_cast<std::size_t>(node.outputs[i])] = stage;
    }
    return {};
  }

  std::string blocked(const Node& node) const {
    std::string shapes;
    for (ValueId input : node.inputs)
      if ((*this)[input].is_rows()) shapes += (shapes.empty() ? "" : ", ") + graph_.spec(input).shape.to_string();
    return fmt::format("{} of {} mixes examples{}", node.info->name, shapes,
                       node.layer ? fmt::format(" (layer \"{}\")", path_of(node.layer)) : "");
  }

  const Graph& graph_;
  std::int64_t examples_;
  bool stretch_;
  const std::vector<int> maker_;
  std::vector<BatchState> states_;
  std::vector<int> stage_;
  std::map<std::pair<const Node*, int>, BatchState> cut_;
};

// One loop: which rows nodes it runs, what it reads, what it leaves.
struct LoopPlan {
  std::vector<const Node*> nodes;
  std::vector<ValueId> rows_in, whole_in, sums, rows_out;
  std::vector<ValueId> cut_in;  // whole values that are cut like rows
  std::set<ValueId> unread;     // 16-bit sums whose parts nobody else reads
};

// What parts of this spec are added up in: f32, if they are 16-bit.
Spec running_sum(const Spec& spec) { return {wide(spec.dtype), spec.shape}; }
bool is_narrow(const Spec& spec) { return wide(spec.dtype) != spec.dtype; }

// Whether the op can leave such a part unrounded.
bool has_wide_result(const Node& node) {
  const auto& ops = {&matmul_info(), &convolution_backward_weights_info(), &reduce_sum_info(), &reduce_mean_info()};
  return std::ranges::any_of(ops, [&](const OpInfo* info) { return is_op(node, *info); });
}

class Splitter {
 public:
  Splitter(const Graph& graph, const States& states, std::int64_t examples, const Rung& rung)
      : graph_(graph),
        states_(states),
        examples_(examples),
        part_((examples + rung.parts - 1) / rung.parts),
        rung_(rung),
        maker_(producers(graph)) {}

  bool adds_up() const {
    for (int stage = 0; stage <= last_loop(); ++stage)
      if (!plan_loop(stage).sums.empty()) return true;
    return false;
  }

  // Stops where a loop needs more than the limit, and then returns what it needs at least, else 0.
  std::int64_t run(Graph& result, std::int64_t limit) const {
    result = graph_;
    result.nodes.clear();
    const int last = last_loop();
    for (int stage = 0; stage <= last; ++stage) {
      add_whole(result, stage);
      const LoopPlan loop = plan_loop(stage);
      if (loop.sums.empty() && loop.rows_out.empty()) continue;
      if (const std::int64_t least = add_loop(result, loop, limit); least > limit) return least;
    }
    add_whole(result, last + 1);
    for (int stage = last + 2; add_whole(result, stage); ++stage) {
    }
    return 0;
  }

 private:
  bool is_rows(ValueId value) const { return states_[value].is_rows(); }
  bool in_loop(ValueId value) const { return is_rows(value) || states_.is_total(value); }
  bool runs_in_loop(const Node& node) const {
    return std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) { return in_loop(output); });
  }

  int last_loop() const {
    int last = 0;
    for (ValueId value = 0; value < static_cast<ValueId>(graph_.values.size()); ++value)
      if (in_loop(value)) last = std::max(last, states_.stage(value));
    return last;
  }

  // Nodes outside of the loops that are ready at this stage.
  bool add_whole(Graph& result, int stage) const {
    bool any = false;
    for (const auto& node : graph_.nodes) {
      if (runs_in_loop(node) || states_.stage(node.outputs[0]) != stage) continue;
      result.nodes.push_back(node);
      any = true;
    }
    return any;
  }

  // Totals of this stage and rows that leave the loop, with all rows nodes that they need: those of earlier stages are
  // run again, since rows are not kept between loops.
  LoopPlan plan_loop(int stage) const {
    std::set<ValueId> wanted_outside;
    for (ValueId value : kept_values(graph_)) wanted_outside.insert(value);
    for (const auto& node : graph_.nodes)
      if (!runs_in_loop(node))
        for (ValueId input : node.inputs) wanted_outside.insert(input);
    for (const auto& node : graph_.nodes)
      if (runs_in_loop(node) && !states_.adds_totals(node))
        for (ValueId input : node.inputs)
          if (states_.is_total(input)) wanted_outside.insert(input);
    LoopPlan plan;
    std::set<ValueId> needed;
    for (const auto& node : graph_.nodes)
      for (ValueId output : node.outputs) {
        if (states_.stage(output) != stage || !in_loop(output) || !wanted_outside.count(output)) continue;
        (is_rows(output) ? plan.rows_out : plan.sums).push_back(output);
        needed.insert(output);
      }
    std::vector<const Node*> nodes;
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = graph_.nodes[i];
      const bool used = std::any_of(node.outputs.begin(), node.outputs.end(),
                                    [&](ValueId output) { return needed.count(output) > 0; });
      if (!used || !runs_in_loop(node)) continue;
      for (ValueId input : node.inputs)
        if (!states_.is_total(input) || states_.adds_totals(node))
          needed.insert(input);  // those of the loops before are read, not made again
      nodes.push_back(&node);
    }
    plan.nodes.assign(nodes.rbegin(), nodes.rend());
    for (ValueId value : plan.sums)
      if (is_narrow(graph_.spec(value))) plan.unread.insert(value);
    for (const Node* node : plan.nodes)
      for (ValueId input : node->inputs) plan.unread.erase(input);
    collect_inputs(plan);
    return plan;
  }

  void collect_inputs(LoopPlan& plan) const {
    std::set<std::pair<const void*, ValueId>> seen;
    const auto add = [&](std::vector<ValueId>& list, ValueId value) {
      if (seen.insert({&list, value}).second) list.push_back(value);
    };
    for (const Node* node : plan.nodes)
      for (std::size_t i = 0; i < node->inputs.size() && !states_.adds_totals(*node); ++i) {
        const ValueId input = node->inputs[i];
        if (is_cut(node, i)) {
          if (!fill_of(input)) add(plan.cut_in, input);
        } else if (is_rows(input) && maker_[static_cast<std::size_t>(input)] < 0)
          add(plan.rows_in, input);
        else if (!is_rows(input) && input != graph_.random_state)
          add(plan.whole_in, input);
      }
  }

  // The node that fills the value with one number; null: another makes it.
  const Node* fill_of(ValueId value) const {
    const int maker = maker_[static_cast<std::size_t>(value)];
    const Node* node = maker >= 0 ? &graph_.nodes[static_cast<std::size_t>(maker)] : nullptr;
    return node && is_op(*node, fill_info()) ? node : nullptr;
  }

  // A smaller fill for the body.
  ValueId add_fill(Graph& body, const Node& fill, const BatchState& state, std::int64_t count) const {
    const Fill& whole = *static_cast<const Fill*>(fill.op.get());
    const Shape shape = whole.shape.with(state.axis, state.rows * count);
    return body.add_node(fill_info(), make_fill(shape, whole.value(), whole.dtype), {}, {Spec{whole.dtype, shape}}, 0)
        .outputs[0];
  }

  bool is_cut(const Node* node, std::size_t i) const { return states_.cut().count({node, static_cast<int>(i)}) > 0; }

  // Returns bytes that one turn needs at least; the loop is not added if these are more than the limit.
  std::int64_t add_loop(Graph& result, const LoopPlan& loop, std::int64_t limit) const {
    MicroBatches op;
    if (loop.sums.empty()) op.lanes = rung_.lanes;
    std::optional<SerialScope> serial;  // the scratch of a lane is that of one thread
    if (op.lanes > 1) serial.emplace();
    Draft body = make_draft(make_body(loop, part_), rung_.effort);
    const std::int64_t least = body.memory.lower_bound;
    if (least > limit) return least;
    op.examples = examples_;
    op.part = part_;
    Node node{&micro_batches_info(), nullptr, {}, {}, 0};
    for (const auto* list : {&loop.rows_in, &loop.cut_in})
      for (ValueId value : *list) {
        node.inputs.push_back(value);
        op.inputs.push_back(BatchState::of_rows(0, 1));
      }
    for (ValueId value : loop.whole_in) node.inputs.push_back(value), op.inputs.push_back({});
    for (ValueId value : loop.sums) {
      op.sums.push_back(running_sum(graph_.spec(value)));
      node.outputs.push_back(is_narrow(graph_.spec(value)) ? result.add_value(op.sums.back()) : value);
    }
    for (ValueId value : loop.rows_out) {
      node.outputs.push_back(value);
      op.rows.push_back(graph_.spec(value));
      op.row_bytes.push_back(graph_.spec(value).bytes() / examples_);
    }
    op.random = body.graph.random_state >= 0;
    if (op.random) node.inputs.push_back(graph_.random_state), op.inputs.push_back({});
    op.body = make_procedure(std::move(body));
    if (const std::int64_t rest = examples_ % part_; rest > 0)
      op.tail = make_procedure(make_body(loop, rest), rung_.effort);
    node.op = make_micro_batches(std::move(op));
    const ValueIds sums = node.outputs;
    result.nodes.push_back(std::move(node));
    for (std::size_t i = 0; i < loop.sums.size(); ++i)
      if (sums[i] != loop.sums[i]) add_rounding(result, sums[i], loop.sums[i]);
    return least;
  }

  void add_rounding(Graph& result, ValueId sum, ValueId value) const {
    const auto dtype = static_cast<std::int64_t>(graph_.spec(value).dtype);
    result.nodes.push_back({&cast_info(), make_attributes(cast_info(), {{"dtype", dtype}}), {sum}, {value}, 0});
  }

  // The loop's nodes for this many examples.
  Graph make_body(const LoopPlan& loop, std::int64_t count) const {
    Graph body;
    body.name = graph_.name;
    std::vector<ValueId> map(graph_.values.size(), -1), cut(graph_.values.size(), -1);
    const auto sized = [&](const Spec& spec, const BatchState& state) {
      return state.is_rows() ? Spec{spec.dtype, spec.shape.with(state.axis, state.rows * count)} : spec;
    };
    for (ValueId value : loop.rows_in) {
      map[static_cast<std::size_t>(value)] = body.add_value(sized(graph_.spec(value), states_[value]));
      body.arguments.push_back(map[static_cast<std::size_t>(value)]);
    }
    for (ValueId value : loop.cut_in) {
      const std::int64_t rows = graph_.spec(value).shape[0] / examples_;
      cut[static_cast<std::size_t>(value)] = body.add_value(sized(graph_.spec(value), BatchState::of_rows(0, rows)));
      body.arguments.push_back(cut[static_cast<std::size_t>(value)]);
    }
    for (ValueId value : loop.whole_in) {
      map[static_cast<std::size_t>(value)] = body.add_value(graph_.spec(value));
      body.arguments.push_back(map[static_cast<std::size_t>(value)]);
    }
    for (const Node* node : loop.nodes)
      add_body_node(body, *node, map, cut, count, has_wide_result(*node) && loop.unread.count(node->outputs[0]));
    for (ValueId value : loop.sums) add_sum(body, value, map[static_cast<std::size_t>(value)], count);
    for (ValueId value : loop.rows_out) body.results.push_back(map[static_cast<std::size_t>(value)]);
    return body;
  }

  // unrounded: it makes the part of a sum.
  void add_body_node(Graph& body, const Node& node, std::vector<ValueId>& map, const std::vector<ValueId>& cut,
                     std::int64_t count, bool unrounded) const {
    Node made{node.info, node.op, {}, {}, node.layer};
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto input = static_cast<std::size_t>(node.inputs[i]);
      if (node.inputs[i] == graph_.random_state && map[input] < 0)
        map[input] = body.random_state = body.add_value(graph_.values[input]);
      if (!is_cut(&node, i)) {
        made.inputs.push_back(map[input]);
      } else if (const Node* fill = fill_of(node.inputs[i])) {
        made.inputs.push_back(add_fill(body, *fill, states_.cut().at({&node, static_cast<int>(i)}), count));
      } else {
        made.inputs.push_back(cut[input]);
      }
    }
    if (node.info->with_batch && is_rows(node.outputs[0]))
      made.op = node.info->with_batch(node.op.get(), states_[node.outputs[0]], count);
    if (unrounded) made.op = with_field(node, "wide_result", 1);
    SmallVector<const Spec*, 4> specs;
    const Specs inferred = made.info->infer(made.op.get(), input_specs(body, made, specs));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      made.outputs.push_back(body.add_value(inferred[i]));
      ValueId& known = map[static_cast<std::size_t>(node.outputs[i])];
      if (known < 0) known = made.outputs[i];  // else the total of an earlier loop, which is read
    }
    body.nodes.push_back(std::move(made));
  }

  // total = total + part; a mean's part counts for its share of the examples.
  void add_sum(Graph& body, ValueId value, ValueId part, std::int64_t count) const {
    const Spec spec = running_sum(graph_.spec(value));
    const bool narrow = is_narrow(body.spec(part));
    const auto row = [&](Row which, ValueId a, ValueId b) {
      const auto& info = row_op(which);
      return body.add_node(info, info.copy(&row_info(which)), {a, b}, {spec}, 0).outputs[0];
    };
    ValueId share = -1;
    if (states_[value].kind == Kind::mean)
      share = body.add_constant(scalar(static_cast<double>(count) / static_cast<double>(examples_), spec.dtype));
    if (share >= 0 && !narrow) part = row(Row::multiply, part, share);
    const ValueId total = body.add_value(spec);
    body.carries.push_back({total, narrow ? add_narrow(body, total, part, share) : row(Row::add, total, part)});
  }

  // A part of 16 bits, or the share of it that counts, on a sum in f32.
  static ValueId add_narrow(Graph& body, ValueId total, ValueId part, ValueId share) {
    const Program sum{2, {}, {{Row::add, {0, 1, -1}}}, {2}};
    const Program mean{3, {}, {{Row::multiply, {1, 2, -1}}, {Row::add, {0, 3, -1}}}, {4}};
    const Spec spec = body.spec(total);
    const auto op = make_fused(share < 0 ? sum : mean, {static_cast<std::int64_t>(spec.dtype)});
    ValueIds inputs{total, part};
    if (share >= 0) inputs.push_back(share);
    return body.add_node(fused_info(), op, inputs, {spec}, 0).outputs[0];
  }

  const Graph& graph_;
  const States& states_;
  const std::int64_t examples_, part_;
  const Rung& rung_;
  const std::vector<int> maker_;
};

// Hands a splitter to `use`, unless there is an obstacle, which is returned.
template <class Use>
std::string with_splitter(const Graph& graph, const std::vector<int>& batch, const Rung& rung, Use use) {
  if (batch.empty()) return "no argument carries examples along its leading axis";
  const std::int64_t examples = graph.spec(graph.arguments[static_cast<std::size_t>(batch[0])]).shape[0];
  if (rung.parts > examples) return fmt::format("the batch has only {} examples", examples);
  std::string obstacle;
  for (const bool stretch : {true, false}) {
    States states(graph, batch, examples, stretch);
    obstacle = states.find();
    for (ValueId result : kept_values(graph))
      if (states[result].is_rows() && states[result].axis != 0)
        obstacle = "a result has its examples along an inner axis";
    if (!obstacle.empty()) continue;
    use(Splitter(graph, states, examples, rung));
    break;
  }
  return obstacle;
}

}  // namespace

std::vector<int> batch_arguments(const Graph& graph, const std::vector<int>& asked) {
  if (!asked.empty() || graph.arguments.empty()) return asked;
  const Spec& first = graph.spec(graph.arguments[0]);
  std::vector<int> found;
  for (std::size_t i = 0; i < graph.arguments.size() && first.rank() > 0; ++i) {
    const Spec& spec = graph.spec(graph.arguments[i]);
    if (spec.rank() > 0 && spec.shape[0] == first.shape[0]) found.push_back(static_cast<int>(i));
  }
  return found;
}

BatchSplit split_batch(const Graph& graph, const std::vector<int>& batch, const Rung& rung, std::int64_t limit) {
  BatchSplit split;
  split.obstacle = with_splitter(graph, batch, rung,
                                 [&](const Splitter& splitter) { split.too_large = splitter.run(split.graph, limit); });
  return split;
}

BatchLoops batch_loops(const Graph& graph, const std::vector<int>& batch, std::int64_t parts) {
  BatchLoops loops;
  loops.obstacle = with_splitter(graph, batch, {.parts = parts},
                                 [&](const Splitter& splitter) { loops.add_up = splitter.adds_up(); });
  return loops;
}

}  // namespace thalweg
