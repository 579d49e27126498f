// Attention reads its heads where a product left them, and writes its result and gradients where the next product wants
// them: nothing is transposed. Either queries, keys and values stand apart, each transposed by itself,
//   %4 = transpose %1 {perm = [0, 2, 1, 3]} …;  %7, %8 = attention %4 %5 %6;  %9 = transpose %7 {perm = [0, 2, 1, 3]}
// becomes     %9, %8 = attention %1 %2 %3 {layout = 1}
// or they are the parts of one product, [batch, time, 3, heads, size]:
//   %2 = transpose %1 {perm = [2, 0, 3, 1, 4]};  %3, %4, %5 = split %2;  %7, %8 = attention %3 %4 %5;  …
// becomes     %9, %8 = attention %1 {layout = 2}
#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_map>

#include "thalweg/graph/passes/matching.h"
#include "thalweg/graph/passes/passes.h"
#include "thalweg/ops/attention/layout.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

using Axes = std::vector<std::int64_t>;

const Axes heads_and_time{0, 2, 1, 3};         // either way
const Axes parts_in_front{2, 0, 3, 1, 4};      // [batch, time, 3, heads, size] -> [3, batch, heads, time, size]
const Axes parts_side_by_side{1, 3, 0, 2, 4};  // and back
const Axes one_each{1, 1, 1};                  // of the three parts

struct Operands {
  AttentionLayout layout;
  ValueIds values;
};

class InPlace {
 public:
  explicit InPlace(const Graph& graph) : view_(graph), edits_(graph) {}

  Graph run() {
    for (std::size_t i = 0; i < view_.graph().nodes.size(); ++i) {
      const int index = static_cast<int>(i);
      if (!has_heads_first(view_.node(index))) continue;
      is_op(view_.node(index), attention_info()) ? forward(index) : backward(index);
    }
    return std::move(edits_).apply();
  }

 private:
  static bool has_heads_first(const Node& node) {
    return (is_op(node, attention_info()) || is_op(node, attention_backward_info())) &&
           integer_field(node, "layout") == static_cast<std::int64_t>(AttentionLayout::heads_first);
  }

  bool is_transpose(const Node* node, const Axes& perm) const {
    return node && is_op(*node, transpose_info()) && integers_field(*node, "perm") == perm;
  }

  // The value that this one is a transpose of, heads and time changed; -1: it is none.
  ValueId behind_transpose(ValueId value) const {
    const Node* maker = view_.maker(value);
    return is_transpose(maker, heads_and_time) ? maker->inputs[0] : -1;
  }

  // q, k and v as the parts of one tensor, or each behind its transpose.
  std::optional<Operands> operands_of(const Node& node) const {
    if (const ValueId all = packed(node); all >= 0) return Operands{AttentionLayout::packed, {all}};
    Operands apart{AttentionLayout::time_first, {}};
    for (int i = 0; i < 3; ++i) apart.values.push_back(behind_transpose(node.inputs[static_cast<std::size_t>(i)]));
    if (std::ranges::any_of(apart.values, [](ValueId value) { return value < 0; })) return std::nullopt;
    return apart;
  }

  ValueId packed(const Node& node) const {
    const Node* split = view_.maker(view_.behind_reshapes(node.inputs[0]));
    if (!split || !is_op(*split, split_info()) || integer_field(*split, "axis") != 0 ||
        integers_field(*split, "sizes") != one_each)
      return -1;
    const Node* transpose = view_.maker(split->inputs[0]);
    if (!is_transpose(transpose, parts_in_front)) return -1;
    const Shape& all = view_.graph().spec(split->inputs[0]).shape;
    for (std::size_t i = 0; i < 3; ++i)
      if (view_.behind_reshapes(node.inputs[i]) != split->outputs[i] ||
          view_.graph().spec(node.inputs[i]).shape != all.suffix(1))
        return -1;
    return transpose->inputs[0];
  }

  std::shared_ptr<const void> attributes(const Node& node, AttentionLayout layout) const {
    return with_field(node, "layout", static_cast<std::int64_t>(layout));
  }

  ValueId transposed(int before, ValueId value, const Axes& perm) {
    return edits_.insert(before, transpose_info(), make_attributes(transpose_info(), {{"perm", std::span(perm)}}),
                         {value})[0];
  }

  // `by` stands for `old` with time before heads: for readers that transpose it as it is, for others turned back.
  void replace_turned(int before, ValueId old, ValueId by) {
    for (const Reader& reader : view_.readers(old))
      if (const Node& node = view_.node(reader.node); is_transpose(&node, heads_and_time) && node.inputs[0] == old)
        edits_.replace(node.outputs[0], by);
    edits_.replace(old, transposed(before, by, heads_and_time));
  }

  // Whether nobody but its gradient wants the result with heads before time.
  bool is_turned_by_all(ValueId o) const {
    const auto readers = view_.readers(o);
    return !readers.empty() && std::ranges::all_of(readers, [&](const Reader& reader) {
      const Node& node = view_.node(reader.node);
      return is_transpose(&node, heads_and_time) || is_op(node, attention_backward_info());
    });
  }

  void forward(int index) {
    const Node& node = view_.node(index);
    const auto operands = operands_of(node);
    if (!operands || !is_turned_by_all(node.outputs[0])) return;
    ValueIds inputs = operands->values;
    std::copy(node.inputs.begin() + 3, node.inputs.end(), std::back_inserter(inputs));
    const ValueIds made = edits_.insert(index, attention_info(), attributes(node, operands->layout), std::move(inputs));
    replace_turned(index, node.outputs[0], made[0]);
    edits_.replace(node.outputs[1], made[1]);
    turned_[node.outputs[0]] = made[0];
  }

  void backward(int index) {
    const Node& node = view_.node(index);
    const auto operands = operands_of(node);
    const auto o = turned_.find(node.inputs[3]);
    if (!operands || o == turned_.end()) return;
    ValueId d_o = behind_transpose(node.inputs[5]);
    if (d_o < 0) d_o = transposed(index, node.inputs[5], heads_and_time);
    ValueIds inputs = operands->values;
    for (const ValueId value : {o->second, node.inputs[4], d_o}) inputs.push_back(value);
    std::copy(node.inputs.begin() + 6, node.inputs.end(), std::back_inserter(inputs));
    const ValueIds made =
        edits_.insert(index, attention_backward_info(), attributes(node, operands->layout), std::move(inputs));
    if (operands->layout == AttentionLayout::packed)
      replace_parts(index, node, made[0]);
    else
      for (std::size_t i = 0; i < 3; ++i) replace_turned(index, node.outputs[i], made[i]);
  }

  // The gradients side by side: for the concat that would put them so as they are, for others cut apart.
  void replace_parts(int before, const Node& node, ValueId all) {
    for (const Reader& reader : view_.readers(node.outputs[0]))
      if (const Node& joined = view_.node(reader.node); joins(joined, node)) edits_.replace(joined.outputs[0], all);
    const ValueIds parts =
        edits_.insert(before, split_info(),
                      make_attributes(split_info(), {{"sizes", std::span(one_each)}, {"axis", std::int64_t{0}}}),
                      {transposed(before, all, parts_in_front)});
    for (std::size_t i = 0; i < 3; ++i)
      edits_.replace(node.outputs[i], edits_.reshape(before, parts[i], edits_.spec(node.outputs[i]).shape));
  }

  // Whether it stacks dq, dk and dv along a first axis, which becomes the third.
  bool joins(const Node& joined, const Node& gradients) const {
    if (!is_op(joined, concat_info()) || joined.inputs.size() != 3 || integer_field(joined, "axis") != 0 ||
        integers_field(joined, "perm") != parts_side_by_side)
      return false;
    for (std::size_t i = 0; i < 3; ++i) {
      const Shape &part = view_.graph().spec(joined.inputs[i]).shape,
                  &gradient = view_.graph().spec(gradients.outputs[i]).shape;
      if (view_.behind_reshapes(joined.inputs[i]) != gradients.outputs[i] || part.rank() != 5 || part[0] != 1 ||
          part.suffix(1) != gradient)
        return false;
    }
    return true;
  }

  GraphView view_;
  Edits edits_;
  std::unordered_map<ValueId, ValueId> turned_;  // results that stand with time before heads now
};

}  // namespace

Graph heads_in_place(Graph graph) { return prune(InPlace(graph).run()); }

}  // namespace thalweg
