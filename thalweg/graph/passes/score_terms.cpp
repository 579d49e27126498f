#include "thalweg/graph/passes/score_terms.h"

#include <algorithm>
#include <cmath>

#include "thalweg/core/dispatch.h"
#include "thalweg/core/tracer.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

using Kind = Term::Kind;

constexpr std::int64_t largest_known = std::int64_t{64} << 20;  // bytes
constexpr int farthest = 256;              // steps that are looked back, as each takes some of the stack
constexpr std::size_t most_literals = 64;  // of one choice: m & m has twice those of m

Term number(double value) { return {.kind = Kind::number, .number = value}; }

Term choice(std::vector<Literal> literals, double yes = 1, double no = 0) {
  return {.kind = Kind::choice, .yes = yes, .no = no, .literals = std::move(literals)};
}

std::optional<double> calculate(Row row, double x, double z) {
  switch (row) {
    case Row::add: return x + z;
    case Row::subtract: return x - z;
    case Row::multiply: return x * z;
    case Row::divide: return x / z;
    case Row::neg: return -x;
    case Row::logical_not: return x == 0;
    case Row::logical_and: return x != 0 && z != 0;
    case Row::logical_or: return x != 0 || z != 0;
    case Row::equal: return x == z;
    case Row::not_equal: return x != z;
    case Row::less: return x < z;
    case Row::less_equal: return x <= z;
    case Row::greater: return x > z;
    case Row::greater_equal: return x >= z;
    default: return std::nullopt;
  }
}

// Both sides are numbers or choices, at most one of them a choice.
Term calculate(Row row, const Term& x, const Term& z) {
  const auto side = [](const Term& term, bool holds) {
    return term.is(Kind::number) ? term.number : holds ? term.yes : term.no;
  };
  const auto yes = calculate(row, side(x, true), side(z, true)), no = calculate(row, side(x, false), side(z, false));
  if (!yes || !no || std::isnan(*yes) || std::isnan(*no)) return {};
  if (x.is(Kind::number) && z.is(Kind::number)) return number(*yes);
  return choice(x.is(Kind::choice) ? x.literals : z.literals, *yes, *no);
}

// x & z holds if all literals of both do; !x | !z fails if all do.
Term join(Row row, const Term& x, const Term& z) {
  const auto is = [&](double yes) { return x.yes == yes && x.no == 1 - yes && z.yes == yes && z.no == 1 - yes; };
  const bool conjunction = (row == Row::logical_and || row == Row::multiply) && is(1);
  if (!conjunction && !(row == Row::logical_or && is(0))) return {};
  if (x.literals.size() + z.literals.size() > most_literals) return {};
  Term result = choice(x.literals, x.yes, x.no);
  result.literals.insert(result.literals.end(), z.literals.begin(), z.literals.end());
  return result;
}

Literal inverse(Literal literal) {
  literal.inverted = !literal.inverted;
  const PauseRecording no_tapes;
  const TraceScope at_once(nullptr);
  if (literal.known.defined()) literal.known = !literal.known;
  return literal;
}

// The literals that hold where the choice has the value `wanted`; none if they cannot be told.
std::vector<Literal> literals_where(const Term& term, double wanted) {
  if (term.yes == wanted && term.no != wanted) return term.literals;
  if (term.no != wanted || term.yes == wanted || term.literals.size() != 1) return {};
  return {inverse(term.literals[0])};
}

Term scaled(Term scores, double factor) {
  if (!std::isfinite(factor) || factor == 0) return {};
  scores.scale *= factor;
  for (double& fill : scores.fills) fill *= factor;
  return scores;
}

Term hidden(Term scores, const std::vector<Literal>& seen, double fill, const Shape& shape) {
  if (seen.empty() || (!scores.literals.empty() && scores.masked != shape)) return {};
  scores.literals.insert(scores.literals.end(), seen.begin(), seen.end());
  scores.fills.insert(scores.fills.end(), seen.size(), fill);
  scores.masked = shape;
  return scores;
}

bool contains(const std::vector<Literal>& all, const std::vector<Literal>& some) {
  return std::all_of(some.begin(), some.end(), [&](const Literal& one) {
    return std::any_of(all.begin(), all.end(), [&](const Literal& other) { return other.is_same(one); });
  });
}

// Whether the scores that are hidden already are those that these literals hide.
bool hides_the_same(const Term& scores, const std::vector<Literal>& seen, const Shape& shape) {
  return !seen.empty() && scores.masked == shape && contains(seen, scores.literals) && contains(scores.literals, seen);
}

Term added(const Term& scores, const Term& other, double sign, const Shape& shape) {
  if (other.is(Kind::number)) return other.number == 0 ? scores : Term{};
  if (!other.is(Kind::choice) || (other.yes != 0 && other.no != 0)) return {};
  const double fill = sign * (other.yes != 0 ? other.yes : other.no);
  const std::vector<Literal> seen = literals_where(other, 0);
  Term result = scores;
  if (hides_the_same(scores, seen, shape)) {
    for (double& hiding : result.fills) hiding += fill;
    return result;
  }
  result = hidden(std::move(result), seen, fill, shape);
  result.lowered = true;
  return result;
}

Term selected(const Term& condition, const Term& x, const Term& z, const Shape& shape) {
  if (condition.is(Kind::number)) return condition.number != 0 ? x : z;
  if (!condition.is(Kind::choice)) return {};
  if (x.is(Kind::scores) && z.is(Kind::number)) return hidden(x, literals_where(condition, 1), z.number, shape);
  if (x.is(Kind::number) && z.is(Kind::scores)) return hidden(z, literals_where(condition, 0), x.number, shape);
  if (!x.is(Kind::number) || !z.is(Kind::number)) return {};
  const auto pick = [&](double on) { return on != 0 ? x.number : z.number; };
  return choice(condition.literals, pick(condition.yes), pick(condition.no));
}

// What the row gives for these operands; the scores have this shape.
Term combine(Row row, const Term& x, const Term& z, const Term& a, const Shape& shape) {
  if (row == Row::where) return selected(x, z, a, shape);
  const bool left = x.is(Kind::scores), right = z.is(Kind::scores);
  if (left && right) return {};
  if (left || right) {
    const Term &scores = left ? x : z, &other = left ? z : x;
    if (row == Row::add) return added(scores, other, 1, shape);
    if (row == Row::subtract && left) return added(scores, other, -1, shape);
    // Where a choice is 0 scores are set to that, to be lowered later; the others must stay as they are.
    if (row == Row::multiply && other.is(Kind::choice) && std::min(other.yes, other.no) == 0)
      return hidden(scores, literals_where(other, 1), 0, shape);
    if (!other.is(Kind::number)) return {};
    if (row == Row::multiply) return scaled(scores, other.number);
    if (row == Row::divide && left) return scaled(scores, 1 / other.number);
    return {};
  }
  if (x.is(Kind::unknown) || z.is(Kind::unknown)) return {};
  return x.is(Kind::choice) && z.is(Kind::choice) ? join(row, x, z) : calculate(row, x, z);
}

Term converted(Term term, DType dtype) {
  if (term.is(Kind::scores)) return {};
  for (double* value : {&term.number, &term.yes, &term.no})
    *value = dtype == boolean ? static_cast<double>(*value != 0) : is_float(dtype) ? *value : std::trunc(*value);
  return term;
}

std::vector<double> numbers(const Tensor& tensor) { return cast(tensor, f64).to_vector<double>(); }

}  // namespace

std::vector<bool> known_values(const Graph& graph) {
  std::vector<int> steps(graph.values.size(), -1);  // from constants to the value
  const auto steps_to = [&](ValueId value) -> int& { return steps[static_cast<std::size_t>(value)]; };
  const auto is_small = [&](ValueId value) { return graph.spec(value).bytes() <= largest_known; };
  for (const auto& constant : graph.constants)
    if (is_small(constant.value)) steps_to(constant.value) = 0;
  for (const Node& node : graph.nodes) {
    if (node.outputs.size() != 1 || node.info->checks_values || !is_small(node.outputs[0])) continue;
    if (std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return steps_to(input) < 0; }))
      continue;
    int before = 0;
    for (ValueId input : node.inputs) before = std::max(before, steps_to(input));
    if (before < farthest) steps_to(node.outputs[0]) = before + 1;
  }
  std::vector<bool> known(steps.size());
  std::transform(steps.begin(), steps.end(), known.begin(), [](int count) { return count >= 0; });
  return known;
}

const Term& ScoreTerms::of(ValueId value) {
  static const Term unknown{};
  if (const auto at = terms_.find(value); at != terms_.end()) return at->second;
  if (depth_ >= farthest) return unknown;
  ++depth_;
  Term term = value == base_ ? Term{.kind = Kind::scores} : read(value);
  --depth_;
  const Spec& spec = view_.graph().spec(value);
  // A boolean that is not seen through is a condition of its own.
  if (term.is(Kind::unknown) && spec.dtype == boolean) term = choice({{value, spec.shape}});
  if (term.is(Kind::scores)) term.path.push_back(value);
  return terms_.emplace(value, std::move(term)).first->second;
}

Term ScoreTerms::read(ValueId value) {
  if (known_values_[static_cast<std::size_t>(value)]) return read_known(value);
  const Node* node = view_.maker(value);
  if (!node || node->outputs.size() != 1) return {};
  if (base_ < 0 && is_op(*node, matmul_info())) return {.kind = Kind::scores};
  if (is_op(*node, reshape_info())) return read_reshape(*node);
  if (is_op(*node, cast_info())) return converted(of(node->inputs[0]), view_.graph().spec(value).dtype);
  if (is_op(*node, broadcast_to_info())) return converted(of(node->inputs[0]), f64);
  if (is_op(*node, fused_info())) return read_program(program_of(node->op.get()), *node);
  if (const RowInfo* row = row_of(*node->info))
    return read_program(
        {row->arity, {}, {{row->row, {0, row->arity > 1 ? 1 : -1, row->arity > 2 ? 2 : -1}}}, {row->arity}}, *node);
  return {};
}

Term ScoreTerms::read_program(const Program& program, const Node& node) {
  std::vector<Term> operands;
  for (ValueId input : node.inputs) operands.push_back(of(input));
  for (double constant : program.constants) operands.push_back(number(constant));
  const auto operand = [&](int which) { return which < 0 ? number(0) : operands[static_cast<std::size_t>(which)]; };
  for (const auto& [row, which] : program.instructions)
    operands.push_back(combine(row, operand(which[0]), operand(which[1]), operand(which[2]),
                               view_.graph().spec(node.outputs[0]).shape));
  Term result = operand(program.outputs[0]);
  // Scores that broadcast to more scores are not those of one product.
  if (result.is(Kind::scores) &&
      view_.graph().spec(result.path.back()).size() != view_.graph().spec(node.outputs[0]).size())
    return {};
  return result;
}

Term ScoreTerms::read_reshape(const Node& node) {
  Term term = of(node.inputs[0]);
  const Shape &from = view_.graph().spec(node.inputs[0]).shape, &to = view_.graph().spec(node.outputs[0]).shape;
  if (term.is(Kind::scores)) {
    const bool same =
        from.rank() >= 2 && to.rank() >= 2 && from.last() == to.last() && from[from.rank() - 2] == to[to.rank() - 2];
    return same ? term : Term{};
  }
  if (!term.is(Kind::choice)) return term;
  if (term.literals.size() != 1 || term.literals[0].shape != from) return {};
  term.literals[0].shape = to;
  return term;
}

Tensor ScoreTerms::evaluate(ValueId value) {
  if (const Tensor* constant = view_.graph().constant(value)) return *constant;
  if (const auto at = known_.find(value); at != known_.end()) return at->second;
  const Node& node = *view_.maker(value);
  Tensors inputs;
  for (ValueId input : node.inputs) inputs.push_back(evaluate(input));
  Tensor result = apply(*node.info, node.op.get(), {inputs.data(), inputs.size()})[0];
  known_.emplace(value, result);
  return result;
}

Term ScoreTerms::read_known(ValueId value) {
  const PauseRecording no_tapes;
  const TraceScope at_once(nullptr);
  const Tensor tensor = evaluate(value);
  const std::vector<double> all = numbers(tensor);
  if (all.empty()) return {};
  const auto [least, most] = std::minmax_element(all.begin(), all.end());
  const double low = *least, high = *most;
  if (!std::all_of(all.begin(), all.end(), [&](double x) { return x == low || x == high; })) return {};
  if (low == high) return number(low);
  return choice({{value, tensor.shape(), false, cast(tensor, f64) == high}}, high, low);
}

bool Literal::is_same(const Literal& other) const {
  if (shape != other.shape) return false;
  if (value == other.value) return inverted == other.inverted;
  if (!known.defined() || !other.known.defined()) return false;
  const PauseRecording no_tapes;
  const TraceScope at_once(nullptr);
  return reduce_all(known == other.known).item<bool>();
}

bool is_causal(const Tensor& seen, std::int64_t queries) {
  const Shape& shape = seen.shape();
  if (shape.rank() < 2 || shape[shape.rank() - 2] != queries || shape.product(0, shape.rank() - 2) != 1) return false;
  const std::vector<double> all = numbers(seen);
  const std::int64_t keys = shape.last();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if ((all[i] != 0) != (at % keys <= at / keys)) return false;
  }
  return true;
}

bool leaves_rows_empty(const std::vector<Literal>& literals) {
  const PauseRecording no_tapes;
  const TraceScope at_once(nullptr);
  Tensor seen;
  for (const Literal& literal : literals)
    if (literal.known.defined()) seen = seen.defined() ? logical_and(seen, literal.known) : literal.known;
  return seen.defined() && !reduce_all(reduce_any(seen, {.axes = {-1}})).item<bool>();
}

}  // namespace thalweg
