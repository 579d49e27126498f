// A softmax written in single ops becomes the softmax op, forward and backward:
//   %1 = reduce_max %0 {-1};  %2 = subtract %0 %1;  %3 = exp %2;  %4 = reduce_sum %3 {-1};  %5 = divide %3 %4
//   becomes     %5 = softmax %0
// and what a tape makes of it, (dp / sum + sum(-dp p / sum)) e, becomes softmax_backward of p and dp; the share that a
// maximum under the tape has in it, a sum of elements that add up to 0, goes. exp(log_softmax(x)) is a softmax too. The
// maximum and the sum must be those of rows along the last axis. Nothing changes if the exponentials or their sums are
// read by anything else.
//
// Results differ by rounding. Where a maximum is subtracted, infinities and NaN give what they gave. Where none is,
// rows whose exponentials overflow or all vanish come out right, of which the single ops make NaN.
#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "thalweg/graph/passes/matching.h"
#include "thalweg/graph/passes/passes.h"
#include "thalweg/ops/reduce/reduce_op.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

// A value, seen through to the instruction that computes its elements; only the value where it is no elementwise
// result.
struct Place {
  ValueId value = -1;  // -1: held within a program
  const Node* node = nullptr;
  int operand = -1;  // of the node's program

  bool is_same(const Place& other) const {
    return node == other.node && (node ? operand == other.operand : value == other.value);
  }
};

using Operands = std::array<Place, 3>;

// The elementwise program that a node runs; null: none, or one that changes dtypes on the way.
const Program* program_of_node(const Node& node) {
  if (const RowInfo* row = row_of(*node.info)) return &row_program(row->row);
  const bool plain = is_op(node, fused_info()) && integers_field(node, "dtypes").empty();
  return plain ? &program_of(node.op.get()) : nullptr;
}

struct Softmax {
  ValueId x, e, sum, p;  // e: the exponentials; -1 where the way is by log_softmax
  int at;                // the node that makes p
  bool less_maximum = false;
};

struct Backward {
  ValueId dp, dx;
  int at;  // the node that makes dx
};

class Recogniser {
 public:
  explicit Recogniser(Graph graph) : graph_(std::move(graph)), view_(graph_), edits_(graph_) {}

  Graph run() {
    for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i) {
      if (is_op(view_.node(i), log_softmax_info())) by_logarithm(view_.node(i));
      if (row_is(view_.node(i), Row::divide)) by_division(i);
    }
    return edits_.empty() ? graph_ : std::move(edits_).apply();
  }

 private:
  const Spec& spec(ValueId value) const { return graph_.spec(value); }

  static bool row_is(const Node& node, Row row) {
    const RowInfo* found = row_of(*node.info);
    return found && found->row == row;
  }

  Place at(ValueId value) const {
    const Node* node = view_.maker(value);
    const Program* program = node ? program_of_node(*node) : nullptr;
    if (!program) return {value};
    const auto which = std::find(node->outputs.begin(), node->outputs.end(), value) - node->outputs.begin();
    Place place = inside(*node, *program, program->outputs[static_cast<std::size_t>(which)]);
    place.value = value;
    return place;
  }

  Place inside(const Node& node, const Program& program, int operand) const {
    if (operand < 0) return {};
    if (operand >= program.inputs) return {-1, &node, operand};
    const ValueId input = node.inputs[static_cast<std::size_t>(operand)];
    Place place = at(input);
    place.value = input;
    return place;
  }

  // The operands if this row computes the place. Notes the node as one of the pattern.
  std::optional<Operands> match(const Place& place, Row row) {
    if (!place.node) return std::nullopt;
    const Program& program = *program_of_node(*place.node);
    const int index = place.operand - program.first_result();
    if (index < 0) return std::nullopt;
    const Instruction& instruction = program.instructions[static_cast<std::size_t>(index)];
    if (instruction.row != row) return std::nullopt;
    used_.insert(place.node);
    Operands found;
    for (std::size_t i = 0; i < 3; ++i) found[i] = inside(*place.node, program, instruction.operands[i]);
    return found;
  }

  // The same of a row that does not mind the order; the operand that is `known` comes first.
  std::optional<Operands> match_with(const Place& place, Row row, const Place& known) {
    auto found = match(place, row);
    if (!found) return std::nullopt;
    if (!(*found)[0].is_same(known)) std::swap((*found)[0], (*found)[1]);
    return (*found)[0].is_same(known) ? found : std::nullopt;
  }

  static Shape rows_of(const Shape& shape) { return concatenate(shape.prefix(shape.rank() - 1), Shape{1}); }

  // What this op reduces along the last axis to `value`, which stands for its row in tensors of this shape; -1:
  // nothing.
  ValueId reduced_rows(ValueId value, const OpInfo& reduction, const Shape& shape) const {
    if (value < 0) return -1;
    const Node* node = view_.maker(value);
    if (node && is_op(*node, broadcast_to_info())) value = node->inputs[0];
    if (spec(value).shape != rows_of(shape)) return -1;
    node = view_.maker(view_.behind_reshapes(value));
    if (!node || !is_op(*node, reduction)) return -1;
    const Spec& from = spec(node->inputs[0]);
    const bool fits = from.shape == shape && from.dtype == spec(value).dtype &&
                      reduction_of(reduction, node->op.get(), shape.rank()).axes == Ints{shape.rank() - 1};
    return fits ? node->inputs[0] : -1;
  }

  bool is_sum_of_rows(const Place& place, const Softmax& found) const {
    return reduced_rows(place.value, reduce_sum_info(), spec(found.e).shape) == found.e;
  }

  // exp(log_softmax(x)), where no other than its gradient reads the logarithms.
  void by_logarithm(const Node& log_softmax) {
    const ValueId logarithms = log_softmax.outputs[0];
    Softmax found{log_softmax.inputs[0], -1, -1, -1, -1};
    int gradient = -1;
    for (const Reader& reader : view_.readers(logarithms)) {
      const Node& node = view_.node(reader.node);
      const bool direct = node.inputs[static_cast<std::size_t>(reader.input)] == logarithms;
      const bool backward = is_op(node, log_softmax_backward_info()) && reader.input == 0;
      int& place = backward ? gradient : found.at;
      if (!direct || place >= 0 || (!backward && !row_is(node, Row::exp))) return;
      place = reader.node;
    }
    if (found.at < 0) return;
    found.p = view_.node(found.at).outputs[0];
    std::optional<Backward> backward;
    if (gradient >= 0 && !(backward = match_logarithm_gradient(found, gradient))) return;
    rewrite(found, backward);
  }

  std::optional<Backward> match_logarithm_gradient(const Softmax& found, int index) {
    const Node& node = view_.node(index);
    const auto product = match_with(at(node.inputs[1]), Row::multiply, at(found.p));
    if (!product) return std::nullopt;
    const ValueId dp = (*product)[1].value;
    if (dp < 0 || spec(dp) != spec(found.p)) return std::nullopt;
    return Backward{dp, node.outputs[0], index};
  }

  // e / sum(e)
  void by_division(int index) {
    const Node& node = view_.node(index);
    used_ = {&node};
    Softmax found{-1, node.inputs[0], node.inputs[1], node.outputs[0], index};
    const Spec& whole = spec(found.p);
    if (whole.rank() == 0 || whole.size() == 0 || spec(found.e) != whole || !is_sum_of_rows({found.sum}, found)) return;
    used_.insert(view_.maker(view_.behind_reshapes(found.sum)));
    const auto exponent = match(at(found.e), Row::exp);
    if (!exponent || !match_exponent((*exponent)[0], found)) return;
    const auto forward = used_;
    const auto backward = match_gradient(found);
    if (!backward) used_ = forward;
    if (reads_only_pattern(found.e) && reads_only_pattern(found.sum)) rewrite(found, backward);
  }

  // x, or x less the maximum of its row.
  bool match_exponent(const Place& exponent, Softmax& found) {
    if (const auto difference = match(exponent, Row::subtract)) {
      const auto& [x, maximum, none] = *difference;
      const Shape& shape = spec(found.e).shape;
      if (x.value >= 0 && reduced_rows(maximum.value, reduce_max_info(), shape) == x.value) {
        found.x = x.value;
        found.less_maximum = true;
        return true;
      }
    }
    found.x = exponent.value;
    return found.x >= 0 && spec(found.x) == spec(found.e);
  }

  bool reads_only_pattern(ValueId value) const {
    const auto readers = view_.readers(view_.behind_reshapes(value));
    return !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](const Reader& reader) {
      return used_.contains(&view_.node(reader.node));
    });
  }

  std::optional<Backward> match_gradient(const Softmax& found) {
    for (const Reader& reader : view_.readers(found.e)) {
      const Node& node = view_.node(reader.node);
      for (ValueId dx : node.outputs) {
        const auto dp = match_exponent_gradient(at(dx), found);
        if (!dp || spec(dx) != spec(found.p)) continue;
        Backward backward{*dp, dx, reader.node};
        if (found.less_maximum) add_share_of_maximum(found, backward);
        return backward;
      }
    }
    return std::nullopt;
  }

  // dp of (dp / sum + sum(-dp p / sum)) e.
  std::optional<ValueId> match_exponent_gradient(const Place& place, const Softmax& found) {
    const auto product = match_with(place, Row::multiply, at(found.e));
    if (!product) return std::nullopt;
    const auto sum = match((*product)[1], Row::add);
    if (!sum) return std::nullopt;
    for (const int which : {0, 1}) {
      const Place &direct = (*sum)[static_cast<std::size_t>(which)],
                  &shared = (*sum)[static_cast<std::size_t>(1 - which)];
      const auto quotient = match(direct, Row::divide);
      if (!quotient || !is_sum_of_rows((*quotient)[1], found)) continue;
      const ValueId dp = (*quotient)[0].value;
      if (dp >= 0 && spec(dp) == spec(found.p) && is_gradient_of_sum(shared, at(dp), found)) return dp;
    }
    return std::nullopt;
  }

  // sum(-dp p / sum)
  bool is_gradient_of_sum(const Place& place, const Place& dp, const Softmax& found) {
    const ValueId summed = reduced_rows(place.value, reduce_sum_info(), spec(found.p).shape);
    if (summed < 0) return false;
    const auto quotient = match(at(summed), Row::divide);
    if (!quotient || !is_sum_of_rows((*quotient)[1], found)) return false;
    const auto product = match_with((*quotient)[0], Row::multiply, at(found.p));
    const auto negative = product ? match((*product)[1], Row::neg) : std::nullopt;
    return negative && (*negative)[0].is_same(dp);
  }

  // Looks for dx + where(x == maximum, sum(-dx) / count, 0), which equals dx, and takes it instead.
  void add_share_of_maximum(const Softmax& found, Backward& backward) {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (!program_of_node(node)) continue;
      for (ValueId value : node.outputs) {
        const auto sum = match_with(at(value), Row::add, at(backward.dx));
        if (!sum || spec(value) != spec(backward.dx) || !is_share_of_maximum((*sum)[1], found, backward)) continue;
        backward.dx = value;
        backward.at = static_cast<int>(i);
        return;
      }
    }
  }

  bool is_share_of_maximum(const Place& place, const Softmax& found, const Backward& backward) {
    const auto choice = match(place, Row::where);
    if (!choice || !is_zero((*choice)[2]) || !is_where_largest((*choice)[0], found)) return false;
    const auto quotient = match((*choice)[1], Row::divide);
    if (!quotient) return false;
    const Shape& shape = spec(found.p).shape;
    const ValueId negative = reduced_rows((*quotient)[0].value, reduce_sum_info(), shape);
    const ValueId count = reduced_rows((*quotient)[1].value, reduce_sum_info(), shape);
    if (negative < 0 || count < 0) return false;
    const auto dx = match(at(negative), Row::neg);
    const Node* cast = view_.maker(count);
    return dx && (*dx)[0].is_same(at(backward.dx)) && cast && is_op(*cast, cast_info()) &&
           at(cast->inputs[0]).is_same((*choice)[0]);
  }

  bool is_where_largest(const Place& place, const Softmax& found) {
    const auto equal = match_with(place, Row::equal, at(found.x));
    return equal && (*equal)[1].value >= 0 &&
           reduced_rows((*equal)[1].value, reduce_max_info(), spec(found.p).shape) == found.x;
  }

  bool is_zero(const Place& place) const {
    if (place.node && place.value < 0) {
      const Program& program = *program_of_node(*place.node);
      const int constant = place.operand - program.inputs;
      return constant < static_cast<int>(program.constants.size()) &&
             program.constants[static_cast<std::size_t>(constant)] == 0;
    }
    const Tensor* tensor = place.value < 0 ? nullptr : graph_.constant(place.value);
    return tensor && tensor->rank() == 0 && tensor->item<double>() == 0;
  }

  void rewrite(const Softmax& found, const std::optional<Backward>& backward) {
    const ValueId p = edits_.insert(found.at, softmax_info(), softmax_info().make(), {found.x})[0];
    edits_.replace(found.p, p);
    if (!backward) return;
    const ValueIds operands{p, backward->dp};
    edits_.replace(backward->dx,
                   edits_.insert(backward->at, softmax_backward_info(), softmax_backward_info().make(), operands)[0]);
  }

  const Graph graph_;
  const GraphView view_;
  Edits edits_;
  std::set<const Node*> used_;  // the nodes of the pattern at hand
};

}  // namespace

Graph recognise_softmax(Graph graph) { return prune(Recogniser(std::move(graph)).run()); }

}  // namespace thalweg
