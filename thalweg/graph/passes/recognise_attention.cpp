// Attention written in single ops, forward and backward, becomes the attention op, which never holds all scores:
//   %3 = matmul %q %k {transpose_b = 1};  %4 = multiply %3 0.125;  %5 = where %seen %4 -1e9;  %6 = softmax %5
//   %7 = matmul %6 %v     becomes     %7, %8 = attention %q %k %v %seen {scale = 0.125}
// and its gradient (two products around softmax_backward, two after it) becomes attention_backward. Dropout between the
// softmax and the product becomes that of the op, by the same key: the same weights are dropped. Nothing changes if the
// scores or weights are read by anything else.
//
// Results differ by rounding. A query that sees no key gives the mean of all values where hidden scores are set to one
// number, as the single ops do. Where they are lowered by it, or set to -infinity, it gives zeros and no gradients: the
// single ops give weights by what rounding leaves of the scores, or NaN. Masks that are known while compiling and have
// such a query are left alone. Scores must lie well above the number by which keys are hidden, at most -10000.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "thalweg/graph/passes/passes.h"
#include "thalweg/graph/passes/score_terms.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

constexpr double hiding = -1e4;  // scores lower by this much weigh exactly 0

struct Match {
  Matrix q, k, v;
  Term scores;
  const Node* dropout = nullptr;  // of the weights; null: none
  int forward = -1;               // the node that makes o
  int backward = -1;              // the first node of the gradient
  ValueId d_o = -1;               // -1: no gradient
  Matrix dq, dk, dv;              // what to replace; -1: not wanted
};

class Recogniser {
 public:
  explicit Recogniser(Graph graph)
      : graph_(std::move(graph)), view_(graph_), known_(known_values(graph_)), terms_(view_, known_), edits_(graph_) {}

  Graph run() {
    const Graph& graph = view_.graph();
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
      if (is_op(graph.nodes[i], softmax_info()))
        if (const auto match = match_attention(graph.nodes[i])) rewrite(*match);
    return std::move(edits_).apply();
  }

 private:
  const Shape& shape(ValueId value) const { return view_.graph().spec(value).shape; }
  bool is_same(ValueId a, ValueId b) const { return view_.behind_reshapes(a) == view_.behind_reshapes(b); }
  bool has_rows_of(ValueId a, ValueId b) const {  // and columns: only the axes before them may be others
    return shape(a).rank() >= 2 && shape(b).rank() >= 2 && shape(a).last() == shape(b).last() &&
           shape(a)[shape(a).rank() - 2] == shape(b)[shape(b).rank() - 2];
  }

  std::optional<Match> match_attention(const Node& softmax) {
    Match match;
    if (!match_scores(softmax, match)) return std::nullopt;
    WeightReaders readers;
    if (!match_readers(softmax, readers)) return std::nullopt;
    match.forward = readers.product;
    if (readers.dropout >= 0) match.dropout = &view_.node(readers.dropout);
    match.v = Product(view_.node(match.forward), 0).other;
    const ValueId weights = match.dropout ? match.dropout->outputs[0] : softmax.outputs[0];
    if (readers.values_gradient >= 0 && !match_values_gradient(weights, readers.values_gradient, match))
      return std::nullopt;
    if (readers.softmax_backward >= 0 && !match_scores_gradient(readers.softmax_backward, match)) return std::nullopt;
    if (match.d_o >= 0 && match.backward <= match.forward) return std::nullopt;
    return has_one_batch(match, softmax) ? std::optional(match) : std::nullopt;
  }

  struct WeightReaders {
    int product = -1, values_gradient = -1, softmax_backward = -1, dropout = -1;
  };

  // The weights are read once as each of these; the products read what dropout leaves of them, if there is one.
  bool match_readers(const Node& softmax, WeightReaders& found) const {
    if (!match_readers_of(softmax.outputs[0], found)) return false;
    if (found.dropout < 0) return found.product >= 0;
    const Node& dropout = view_.node(found.dropout);
    if (found.product >= 0 || found.values_gradient >= 0 || !(real_field(dropout, "rate") < 1) ||
        !has_rows_of(dropout.outputs[0], softmax.outputs[0]))
      return false;
    const int softmax_backward = found.softmax_backward;
    return match_readers_of(dropout.outputs[0], found) && found.product >= 0 &&
           found.softmax_backward == softmax_backward;
  }

  bool match_readers_of(ValueId weights, WeightReaders& found) const {
    for (const Reader& reader : view_.readers(weights)) {
      const Node& node = view_.node(reader.node);
      int* place = nullptr;
      if (is_op(node, softmax_backward_info()) && reader.input == 0)
        place = &found.softmax_backward;
      else if (is_op(node, dropout_info()))
        place = &found.dropout;
      else if (is_op(node, matmul_info()) && has_rows_of(node.inputs[static_cast<std::size_t>(reader.input)], weights))
        place = reader.input == 0 && integer_field(node, "transpose_a") == 0 ? &found.product : &found.values_gradient;
      if (!place || *place >= 0) return false;
      *place = reader.node;
    }
    return true;
  }

  // The scores follow from one product, and only the softmax reads them.
  bool match_scores(const Node& softmax, Match& match) {
    match.scores = terms_.of(softmax.inputs[0]);
    if (!match.scores.is(Term::Kind::scores)) return false;
    for (ValueId value : match.scores.path)
      if (!view_.has_one_reader(value)) return false;
    for (double fill : match.scores.fills)
      if (!(fill <= hiding)) return false;
    const Node& product = *view_.maker(match.scores.path[0]);
    match.q = {product.inputs[0], integer_field(product, "transpose_a") != 0};
    match.k = {product.inputs[1], integer_field(product, "transpose_b") == 0};
    return true;
  }

  // p^T do, or do^T p where v is stored transposed.
  bool match_values_gradient(ValueId weights, int index, Match& match) {
    const Node& node = view_.node(index);
    const Product product(node, view_.behind_reshapes(node.inputs[0]) == weights ? 0 : 1);
    const bool fits = product.is_left ? product.transposed && !product.other.transposed
                                      : !product.transposed && product.other.transposed;
    if (!fits) return false;
    match.dv = {node.outputs[0], !product.is_left};
    return note_gradient(product.other.value, index, match);
  }

  bool note_gradient(ValueId d_o, int index, Match& match) {
    if (!has_rows_of(d_o, view_.node(match.forward).outputs[0])) return false;
    if (match.d_o >= 0 && !is_same(match.d_o, d_o)) return false;
    if (match.backward < 0 || index < match.backward) match.d_o = d_o, match.backward = index;
    return true;
  }

  bool match_scores_gradient(int index, Match& match) {
    const Node& softmax_backward = view_.node(index);
    int at = maker_for_one(softmax_backward.inputs[1]);
    if (match.dropout && at >= 0)
      at = is_same_dropout(view_.node(at), *match.dropout) ? maker_for_one(view_.node(at).inputs[0]) : -1;
    if (at < 0 || !is_op(view_.node(at), matmul_info())) return false;
    const Product product(view_.node(at), 0);  // do v^T
    if (product.transposed || !is_same(product.other.value, match.v.value) ||
        product.other.transposed == match.v.transposed)
      return false;
    if (!note_gradient(view_.node(at).inputs[0], at, match)) return false;
    const ValueId d_scores = gradient_of_product(softmax_backward.outputs[0], match.scores);
    return d_scores >= 0 && match_operand_gradients(d_scores, match);
  }

  // The node that makes what this value is a reshape of, if nobody else reads it; -1: none.
  int maker_for_one(ValueId value) const {
    const ValueId made = view_.behind_reshapes(value);
    return view_.readers(made).size() == 1 ? view_.maker_index(made) : -1;
  }

  // Whether both drop elements of the same numbers.
  static bool is_same_dropout(const Node& a, const Node& b) {
    const auto key = [](const Node& node) { return fields::key(node.info->visit, node.op.get()); };
    return is_op(a, dropout_info()) && key(a) == key(b) && a.inputs.size() == b.inputs.size() &&
           (a.inputs.size() < 2 || a.inputs[1] == b.inputs[1]);
  }

  // Follows the gradient of the softmax to that of the product: scaled as the scores were, 0 where keys are hidden.
  ValueId gradient_of_product(ValueId from, const Term& scores) {
    ValueId value = from;
    while (true) {
      const auto readers = view_.readers(value);
      if (readers.empty()) return -1;
      const Node& next = view_.node(readers[0].node);
      if (is_op(next, matmul_info())) break;
      if (readers.size() != 1 || next.outputs.size() != 1) return -1;
      value = next.outputs[0];
    }
    ScoreTerms terms(view_, known_, from);
    const Term& found = terms.of(value);
    if (!found.is(Term::Kind::scores) || std::abs(found.scale - scores.scale) > 1e-6 * std::abs(scores.scale))
      return -1;
    for (double fill : found.fills)
      if (fill != 0) return -1;
    for (const Literal& literal : found.literals)
      if (std::none_of(scores.literals.begin(), scores.literals.end(),
                       [&](const Literal& seen) { return seen.is_same(literal); }))
        return -1;
    return value;
  }

  // ds k and ds^T q, or their transposes k^T ds^T and q^T ds.
  bool match_operand_gradients(ValueId d_scores, Match& match) {
    for (const Reader& reader : view_.readers(d_scores)) {
      const Node& node = view_.node(reader.node);
      if (!is_op(node, matmul_info())) return false;
      const Product product(node, reader.input);
      const bool of_queries = product.is_left != product.transposed;
      const Matrix& expected = of_queries ? match.k : match.q;
      Matrix& found = of_queries ? match.dq : match.dk;
      const bool turned = product.other.transposed != expected.transposed;  // enters as the transpose
      if (found.value >= 0 || !is_same(product.other.value, expected.value) || turned == product.is_left) return false;
      found = {node.outputs[0], !product.is_left};
    }
    return true;
  }

  // Every matrix of scores has queries, keys and values of its own. A single matrix stays: its rows may be the examples
  // of a batch, which attention could not split.
  bool has_one_batch(const Match& match, const Node& softmax) const {
    const Spec& scores = view_.graph().spec(softmax.inputs[0]);
    if (scores.rank() < 3 || scores.size() == 0 || !match_masks(match, scores.shape)) return false;
    const std::int64_t entries = scores.shape.product(0, scores.rank() - 2);
    for (ValueId value : {match.q.value, match.k.value, match.v.value}) {
      const Spec& spec = view_.graph().spec(value);
      if (spec.shape.product(0, spec.rank() - 2) != entries || spec.size() == 0 || spec.dtype != scores.dtype)
        return false;
    }
    return scores.dtype == f32 || scores.dtype == f64;
  }

  bool match_masks(const Match& match, const Shape& scores) const {
    const bool any = !match.scores.literals.empty();
    if (any && match.scores.masked.size() != scores.size()) return false;
    for (const Literal& literal : match.scores.literals)
      if (literal.known.defined() && literal.known.shape().last() != scores.last()) return false;
    return !any || (match.scores.masked.rank() <= 4 && !leaves_rows_empty(match.scores.literals) &&
                    !prefers_some_hidden(match.scores));
  }

  // The first axes of [batch, heads, queries, keys].
  static Shape leading_axes(const Term& scores, const Shape& softmax) {
    const Shape& from = scores.literals.empty() ? softmax : scores.masked;
    if (from.rank() == 4) return from.prefix(2);
    return {from.product(0, from.rank() - 2), 1};
  }

  // [batch, heads, rows, columns]
  ValueId as_four_axes(int before, const Matrix& operand, const Shape& leading) {
    const Shape& own = edits_.spec(operand.value).shape;
    const Shape stored{own[own.rank() - 2], own.last()};
    const ValueId result = edits_.reshape(before, operand.value, concatenate(leading, stored));
    return operand.transposed ? edits_.swap_last_two(before, result) : result;
  }

  ValueId row(int before, Row which, ValueIds inputs) {
    return edits_.insert(before, row_op(which), make_attributes(row_op(which)), std::move(inputs))[0];
  }

  // The mask that all literals make together; -1: none is left but that of causal attention, which is told in `causal`
  // unless that is null.
  ValueId make_mask(int before, const Term& scores, bool* causal) {
    ValueId mask = -1;
    const std::int64_t queries = scores.literals.empty() ? 0 : scores.masked[scores.masked.rank() - 2];
    for (const Literal& literal : scores.literals) {
      if (causal && literal.known.defined() && is_causal(literal.known, queries)) {
        *causal = true;
        continue;
      }
      Shape sizes = literal.shape;
      if (scores.masked.rank() == 3 && sizes.rank() == 3) sizes = {sizes[0], 1, sizes[1], sizes[2]};
      ValueId seen = literal.known.defined() ? edits_.add_constant(literal.known) : literal.value;
      seen = edits_.reshape(before, seen, sizes);
      if (literal.inverted && !literal.known.defined()) seen = row(before, Row::logical_not, {seen});
      mask = mask < 0 ? seen : row(before, Row::logical_and, {mask, seen});
    }
    return mask;
  }

  // Whether scores are set to numbers where keys are hidden, and there may be a query that sees none.
  static bool sets_all_of_some(const Term& scores) {
    const auto is_given = [](const Literal& literal) { return !literal.known.defined(); };
    return !scores.lowered && std::any_of(scores.literals.begin(), scores.literals.end(), is_given);
  }

  // Whether such a query has equal weights for all keys.
  static bool gives_means(const Term& scores) {
    const auto is_first = [&](double fill) { return std::isfinite(fill) && fill == scores.fills[0]; };
    return sets_all_of_some(scores) && std::ranges::all_of(scores.fills, is_first);
  }

  // Whether it has weights for those alone that are hidden by the highest of several numbers, -infinity among them.
  static bool prefers_some_hidden(const Term& scores) {
    const std::set<double> fills(scores.fills.begin(), scores.fills.end());
    return sets_all_of_some(scores) && fills.size() > 1;
  }

  ValueId number(double value, DType dtype) { return edits_.add_constant(scalar(value, dtype)); }

  // [batch, heads, queries, 1]: true where the weight that attention keeps is that of no key.
  ValueId queries_without_keys(int before, ValueId statistics) {
    const Shape sizes = edits_.spec(statistics).shape;
    const auto last =
        make_attributes(slice_info(), {{"begin", Shape{0, 0, 0, 1}}, {"size", Shape{sizes[0], sizes[1], sizes[2], 1}}});
    const ValueId weights = edits_.insert(before, slice_info(), last, {statistics})[0];
    return row(before, Row::equal, {weights, number(0, edits_.spec(statistics).dtype)});
  }

  // [batch, heads, rows, columns] -> [batch, heads, 1, columns]
  ValueId over_rows(int before, const OpInfo& reduction, ValueId value) {
    const auto rows =
        make_attributes(reduction, {{"axes", std::vector<std::int64_t>{2}}, {"keepdims", std::int64_t{1}}});
    return edits_.insert(before, reduction, rows, {value})[0];
  }

  // What queries without keys add to the gradient of the values: their share of each.
  ValueId add_shares(int before, ValueId d_v, ValueId without_keys, ValueId d_o) {
    const Spec spec = edits_.spec(d_v);
    const ValueId shared = row(before, Row::where, {without_keys, d_o, number(0, spec.dtype)});
    const ValueId share = number(1 / static_cast<double>(spec.shape[2]), spec.dtype);
    return row(before, Row::add,
               {d_v, row(before, Row::multiply, {over_rows(before, reduce_sum_info(), shared), share})});
  }

  // Lets queries without keys see them all. Gives the condition of the others, [.., queries or 1, 1].
  ValueId show_all_keys(int before, ValueId& mask) {
    const std::vector<std::int64_t> last{edits_.spec(mask).rank() - 1};
    const auto keys = make_attributes(reduce_any_info(), {{"axes", last}, {"keepdims", std::int64_t{1}}});
    const ValueId sees = edits_.insert(before, reduce_any_info(), keys, {mask})[0];
    mask = row(before, Row::logical_or, {mask, row(before, Row::logical_not, {sees})});
    return sees;
  }

  // x where the condition holds, or everywhere if it is -1; else 0.
  ValueId select(int before, ValueId condition, ValueId x) {
    return condition < 0 ? x : row(before, Row::where, {condition, x, number(0, edits_.spec(x).dtype)});
  }

  // The attributes of attention or of its gradient.
  static std::shared_ptr<const void> attributes(const OpInfo& info, const Match& match, bool causal) {
    const FieldValue is_causal{"causal", std::int64_t{causal}}, scale{"scale", match.scores.scale};
    if (!match.dropout) return make_attributes(info, {is_causal, scale});
    const auto number = [&](const char* name) { return FieldValue{name, integer_field(*match.dropout, name)}; };
    return make_attributes(info, {is_causal, scale, FieldValue{"rate", real_field(*match.dropout, "rate")},
                                  number("seed"), number("ordinal"), number("first")});
  }

  void rewrite(const Match& match) {
    const int at = match.forward;
    const Node& product = view_.node(at);
    const Shape leading = leading_axes(match.scores, shape(product.inputs[0]));
    const bool drops = match.dropout && real_field(*match.dropout, "rate") > 0;
    const bool means = gives_means(match.scores);
    bool causal = false;
    ValueId mask = make_mask(at, match.scores, drops && means ? nullptr : &causal);
    // Under dropout queries without keys give what it leaves of equal weights: such a query is 0 and sees all keys.
    const ValueId sees = drops && means ? show_all_keys(at, mask) : -1;
    const auto operands = [&](ValueIds list) {
      if (mask >= 0) list.push_back(mask);
      if (drops && match.dropout->inputs.size() > 1) list.push_back(match.dropout->inputs[1]);
      return list;
    };
    const ValueId q = select(at, sees, as_four_axes(at, match.q, leading)), k = as_four_axes(at, match.k, leading),
                  v = as_four_axes(at, match.v, leading);
    const ValueIds made =
        edits_.insert(at, attention_info(), attributes(attention_info(), match, causal), operands({q, k, v}));
    const ValueId without_keys = means && !drops ? queries_without_keys(at, made[1]) : -1;
    ValueId o = made[0];
    if (without_keys >= 0) o = row(at, Row::where, {without_keys, over_rows(at, reduce_mean_info(), v), o});
    edits_.replace(at, Matrix{product.outputs[0]}, o);
    if (match.d_o < 0) return;
    const int then = match.backward;
    const ValueId d_o = as_four_axes(then, {match.d_o}, leading);
    const ValueIds gradients =
        edits_.insert(then, attention_backward_info(), attributes(attention_backward_info(), match, causal),
                      operands({q, k, v, o, made[1], d_o}));
    edits_.replace(then, match.dq, select(then, sees, gradients[0]));
    edits_.replace(then, match.dk, gradients[1]);
    const ValueId d_v = gradients[2];
    edits_.replace(then, match.dv, without_keys < 0 ? d_v : add_shares(then, d_v, without_keys, d_o));
  }

  const Graph graph_;
  GraphView view_;
  const std::vector<bool> known_;
  ScoreTerms terms_;
  Edits edits_;
};

}  // namespace

Graph recognise_attention(Graph graph) { return prune(Recogniser(std::move(graph)).run()); }

}  // namespace thalweg
