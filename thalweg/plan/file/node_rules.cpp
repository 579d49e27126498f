#include "thalweg/plan/file/node_rules.h"

#include <algorithm>
#include <limits>
#include <map>

#include "thalweg/core/check.h"
#include "thalweg/graph/control/control.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/attention/layout.h"
#include "thalweg/ops/fused/fused_product.h"
#include "thalweg/ops/random/key.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"
#include "thalweg/plan/file/bytes.h"

namespace thalweg {
namespace {

// A node as the rules see it.
class Subject final : public FieldVisitor {
 public:
  Subject(const Graph& graph, const Node& node) : node_(node) {
    for (ValueId input : node.inputs) specs_.push_back(&graph.spec(input));
    if (node.info->visit) node.info->visit(const_cast<void*>(node.op.get()), *this);  // changes nothing
  }

  int size() const { return static_cast<int>(specs_.size()); }
  const Spec& operator[](int i) const { return *specs_[static_cast<std::size_t>(i)]; }
  Inputs first(int n) const { return Inputs({specs_.data(), static_cast<std::size_t>(std::min(n, size()))}); }
  std::int64_t number(const char* field) const { return list(field).at(0); }
  const std::vector<std::int64_t>& list(const char* field) const { return integers_.at(field); }
  double fraction(const char* field) const { return reals_.at(field); }

  void require(bool condition, const char* what) const {
    if (!condition) throw_damaged(fmt::format("{}: expected {}", node_.info->name, what));
  }
  void require_spec(int input, const Spec& spec) const {
    require((*this)[input] == spec, "inputs that fit each other");
  }
  void require_shape(int input, const Shape& shape) const { require_spec(input, {(*this)[0].dtype, shape}); }

 private:
  void integer(std::string_view name, std::int64_t& value) override { integers_[std::string(name)] = {value}; }
  void integers(std::string_view name, std::vector<std::int64_t>& values) override {
    integers_[std::string(name)] = values;
  }
  void real(std::string_view name, double& value) override { reals_[std::string(name)] = value; }
  void reals(std::string_view, std::vector<double>&) override {}
  void text(std::string_view, std::string&) override {}

  const Node& node_;
  SmallVector<const Spec*, 4> specs_;
  std::map<std::string, std::vector<std::int64_t>, std::less<>> integers_;
  std::map<std::string, double, std::less<>> reals_;
};

void any(const Subject&) {}

bool is_between(std::int64_t value, std::int64_t least, std::int64_t most) { return value >= least && value <= most; }

void check_dtype(const Subject& s, std::int64_t dtype) {
  s.require(is_between(dtype, 0, std::size(all_dtypes) - 1), "a dtype");
}
void with_dtype(const Subject& s) { check_dtype(s, s.number("dtype")); }

void one_dtype(const Subject& s) {
  for (int i = 1; i < s.size(); ++i) s.require(s[i].dtype == s[0].dtype, "inputs of one dtype");
}

// Kernels that know f32 and f64 alone, over the last axis.
void wide_rows(const Subject& s) {
  s.require((s[0].dtype == f32 || s[0].dtype == f64) && s[0].rank() >= 1, "rows of f32 or f64");
}

void check_axis(const Subject& s, int rank) {
  s.require(is_between(s.number("axis"), 0, rank - 1), "an axis of the input");
}
void with_axis(const Subject& s) { check_axis(s, s[0].rank()); }

void fused(const Subject& s) {
  s.require(!s.list("outputs").empty() && s.list("dtypes").size() <= s.list("outputs").size(), "outputs");
  for (std::int64_t dtype : s.list("dtypes")) check_dtype(s, dtype);
}

void fused_each(const Subject& s) {
  fused(s);
  const std::int64_t sets = s.number("sets"), inputs = s.number("inputs");
  s.require(is_between(sets, 1, s.size()) && is_between(inputs, 1, s.size()) && sets * inputs == s.size(),
            "whole sets");
}

void factors(const Subject& s) {
  s.require(are_factors(s[0], s[1]) && s[0].shape[0] <= deepest_fused_product, "factors of a shallow product");
}

void fused_product(const Subject& s) {
  fused(s);
  factors(s);
  s.require(is_between(s.number("product"), 0, s.number("inputs") - 1) && s.size() == s.number("inputs") + 1,
            "the program's inputs");
}

void fused_reduce(const Subject& s) {
  bool has_float = false;
  for (int i = 0; i < s.size(); ++i) {
    s.require(s[i].dtype == f32 || s[i].dtype == f64 || s[i].dtype == boolean, "operands of f32 or f64");
    has_float |= s[i].dtype != boolean;
  }
  s.require(has_float && s.list("outputs").size() == 1, "one output of f32 or f64");
}

void split(const Subject& s) {
  with_axis(s);
  std::int64_t left = s[0].shape[static_cast<int>(s.number("axis"))];
  for (std::int64_t size : s.list("sizes")) {
    s.require(is_between(size, 0, left), "parts of the axis");
    left -= size;
  }
}

void transpose(const Subject& s) {
  for (std::int64_t axis : s.list("perm")) s.require(is_between(axis, 0, s[0].rank() - 1), "axes of the input");
}

void concat(const Subject& s) {
  with_axis(s);
  std::vector<std::int64_t> perm = s.list("perm");
  if (perm.empty()) return;
  std::ranges::sort(perm);
  s.require(static_cast<int>(perm.size()) == s[0].rank(), "an order of the input's axes");
  for (std::size_t i = 0; i < perm.size(); ++i)
    s.require(perm[i] == static_cast<std::int64_t>(i), "each axis of the input once");
}

// Places begin + k * stride, k below size, of an array of the attribute `shape`.
void places(const Subject& s) {
  const auto &shape = s.list("shape"), &begin = s.list("begin"), &strides = s.list("strides"), &sizes = s.list("sizes");
  s.require(begin.size() == shape.size() && strides.size() == shape.size() && sizes.size() == shape.size(),
            "lists with an entry for each axis");
  for (std::size_t i = 0; i < shape.size(); ++i) {
    s.require(sizes[i] >= 0 && is_between(begin[i], -1, shape[i]), "places of the array");
    if (sizes[i] == 0) continue;
    std::int64_t last = 0;
    const bool overflows =
        __builtin_mul_overflow(sizes[i] - 1, strides[i], &last) || __builtin_add_overflow(last, begin[i], &last);
    s.require(!overflows && is_between(begin[i], 0, shape[i] - 1) && is_between(last, 0, shape[i] - 1),
              "places of the array");
  }
}
void strided_slice(const Subject& s) {
  places(s);
  s.require(s[0].shape == Shape(s.list("shape")), "the shape of the input");
}

void pad(const Subject& s) {
  for (const char* side : {"before", "after"}) {
    const auto& list = s.list(side);
    s.require(static_cast<int>(list.size()) == s[0].rank(), "a padding for each axis");
    for (std::int64_t places : list) s.require(is_between(places, 0, std::int64_t{1} << 59), "paddings of 0 or more");
  }
}

void roll(const Subject& s) {
  with_axis(s);
  s.require(is_between(s.number("shift"), 0, s[0].shape[static_cast<int>(s.number("axis"))]),
            "a shift within the axis");
}

void one_hot(const Subject& s) {
  with_dtype(s);
  check_axis(s, s[0].rank() + 1);
}

void check_spatial(const Subject& s) {
  const auto spatial = static_cast<int>(s.number("spatial"));
  s.require(is_between(spatial, 1, 3) && is_between(s.number("groups"), 1, 1 << 30), "a convolution");
  for (int i = 0; i < 2; ++i)
    s.require(s[i].rank() == spatial + 2 && s[i].dtype != u8 && s[i].dtype != boolean, "operands of a convolution");
  one_dtype(s);
}
void convolution_backward_data(const Subject& s) {
  check_spatial(s);
  s.require(static_cast<std::int64_t>(s.list("input").size()) == s.number("spatial"), "sizes of the image");
}
void convolution_backward_weights(const Subject& s) {
  check_spatial(s);
  s.require(static_cast<std::int64_t>(s.list("kernel").size()) == s.number("spatial"), "sizes of the kernel");
}
void avg_pool_backward(const Subject& s) {
  s.require(is_between(s[0].rank(), 3, 5) && static_cast<int>(s.list("input").size()) == s[0].rank() - 2,
            "sizes of the image");
}
void resize(const Subject& s) { s.require(is_between(s.number("method"), 0, 1), "a method"); }
void resize_backward(const Subject& s) {
  resize(s);
  s.require(is_float(s[0].dtype), "a float dtype");
}

void wide_alike(const Subject& s) {
  wide_rows(s);
  for (int i = 1; i < s.size(); ++i) s.require_spec(i, s[0]);
}

void cross_entropy(const Subject& s) { s.require(s[1].dtype == f32 || s[1].dtype == f64, "logits of f32 or f64"); }
void dense_cross_entropy(const Subject& s) {
  cross_entropy(s);
  s.require(s[0].dtype == s[1].dtype, "labels of the dtype of the logits");
}
// labels, logits, statistics, dloss
void check_loss(const Subject& s, const OpInfo& forward) {
  const auto op = forward.make();
  const Specs made = forward.infer(op.get(), s.first(2));
  s.require_spec(2, made[1]);
  s.require_spec(3, made[0]);
}
void dense_cross_entropy_backward(const Subject& s) {
  dense_cross_entropy(s);
  check_loss(s, softmax_cross_entropy_info());
}
void sparse_cross_entropy_backward(const Subject& s) {
  cross_entropy(s);
  check_loss(s, sparse_softmax_cross_entropy_info());
}

// labels, x, w and, from this input on, the bias
void check_head(const Subject& s, int bias) {
  s.require(s[1].dtype == f32 || s[1].dtype == f64, "x of f32 or f64");
  for (int i : {2, bias})
    if (i < s.size()) s.require(s[i].dtype == s[1].dtype, "inputs of one dtype");
}
void linear_cross_entropy(const Subject& s) { check_head(s, 3); }
// labels, x, w, statistics, dloss [, bias]
void linear_cross_entropy_backward(const Subject& s) {
  check_head(s, 5);
  SmallVector<const Spec*, 4> forward{&s[0], &s[1], &s[2]};
  if (s.size() == 6) forward.push_back(&s[5]);
  const OpInfo& info = linear_cross_entropy_info();
  const auto op = make_attributes(info, {{"transpose_w", s.number("transpose_w")}});
  const Specs made = info.infer(op.get(), Inputs({forward.data(), forward.size()}));
  s.require_spec(3, made[1]);
  s.require_spec(4, made[0]);
}

void check_state(const Subject& s, int input) {
  if (s.size() > input) s.require_spec(input, {i64, {random::state_size}});
}
void dropout(const Subject& s) {
  s.require(is_float(s[0].dtype) && s.number("first") >= 0, "a float dtype");
  check_state(s, 1);
}
void random_tensor(const Subject& s) {
  enum { normal, truncated_normal, uniform, whole, bernoulli, permutation };
  with_dtype(s);
  const auto distribution = s.number("distribution");
  const auto dtype = static_cast<DType>(s.number("dtype"));
  s.require(is_between(distribution, normal, permutation), "a distribution");
  s.require(distribution == permutation ? dtype == i64 && s.list("shape").size() == 1
            : distribution == whole     ? is_integer(dtype)
                                        : is_float(dtype),
            "a dtype that the distribution has");
  check_state(s, 0);
}

// x, then vectors over its last axis, statistics of its rows, and dy, as many of each as told.
void check_norm(const Subject& s, int vectors, const Shape& statistics_shape, int statistics) {
  wide_rows(s);
  int input = 1;
  for (int i = 0; i < vectors; ++i) s.require_shape(input++, {s[0].shape.last()});
  for (int i = 0; i < statistics; ++i) s.require_shape(input++, statistics_shape);
  if (input < s.size()) s.require_spec(input, s[0]);
}
Shape rows(const Subject& s) { return s[0].rank() > 0 ? s[0].shape.without(s[0].rank() - 1) : Shape(); }
void layer_norm(const Subject& s) { check_norm(s, 2, {}, 0); }
void layer_norm_backward(const Subject& s) { check_norm(s, 1, rows(s), 2); }
void rms_norm(const Subject& s) { check_norm(s, 1, {}, 0); }
void rms_norm_backward(const Subject& s) { check_norm(s, 1, rows(s), 1); }
void batch_norm(const Subject& s) {
  check_norm(s, s.size() == 3 ? 2 : 3, {}, 0);
  s.require(s[0].size() > 0, "a batch");
}
// x, vectors over its channels, more of its kind: the shape rule knows the rest.
void joined_batch_norm(const Subject& s) {
  wide_rows(s);
  one_dtype(s);
}

void check_groups(const Subject& s) {
  const auto groups = s.number("groups");
  s.require(
      s[0].rank() >= 2 && s[0].shape.product(1, s[0].rank()) > 0 && groups >= 1 && s[0].shape.last() % groups == 0,
      "groups of channels");
}
void group_norm(const Subject& s) {
  check_groups(s);
  check_norm(s, 2, {}, 0);
}
void group_norm_backward(const Subject& s) {
  check_groups(s);
  check_norm(s, 1, {s[0].shape[0], s.number("groups")}, 2);
}

// Behind the operands stands the mask, or under dropout the random state, or both.
int check_parts(const Subject& s) {
  const std::int64_t layout = s.number("layout");
  s.require(is_between(layout, 0, 2), "a layout of heads");
  const int parts = attention_operands(static_cast<AttentionLayout>(layout));
  s.require(s.size() >= parts, "queries, keys and values");
  for (int i = 0; i < parts; ++i)
    s.require(s[i].rank() == (parts == 1 ? 5 : 4) && s[i].dtype == s[0].dtype, "operands of one dtype with heads");
  s.require(parts == 3 || s[0].shape[2] == 3, "queries, keys and values");
  return parts;
}
bool has_state(const Subject& s, int operands) {
  return s.fraction("rate") > 0 && s.size() > operands && s[s.size() - 1].dtype == i64;
}
void check_attention(const Subject& s, int operands) {
  wide_rows(s);
  const double rate = s.fraction("rate");
  s.require(rate >= 0 && rate < 1 && s.number("first") >= 0, "a rate of dropout");
  if (has_state(s, operands)) check_state(s, s.size() - 1);
  s.require(s.size() <= operands + 1 + has_state(s, operands), "a mask and a random state");
}
void attention(const Subject& s) { check_attention(s, check_parts(s)); }
// q, k, v, o, statistics, do [, mask] [, state]
void attention_backward(const Subject& s) {
  const int parts = check_parts(s), operands = parts + 3;
  s.require(s.size() >= operands, "the result, its statistics and its gradient");
  check_attention(s, operands);
  SmallVector<const Spec*, 4> forward;
  for (int i = 0; i < parts; ++i) forward.push_back(&s[i]);
  if (s.size() - has_state(s, operands) == operands + 1) forward.push_back(&s[operands]);
  const auto op = make_attributes(attention_info(), {{"layout", s.number("layout")}});
  const Specs made = attention_info().infer(op.get(), Inputs({forward.data(), forward.size()}));
  s.require_spec(parts, made[0]);
  s.require_spec(parts + 1, made[1]);
  s.require_spec(parts + 2, made[0]);
}

// Sequences are [batch, time, units], gates four times as wide; states [batch, units].
void check_lstm(const Subject& s, const Spec& gates, int state) {
  s.require(gates.rank() == 3 && s[state].rank() == 2 && gates.shape[2] == 4 * s[state].shape[1] &&
                gates.shape[0] == s[state].shape[0] && gates.dtype == s[state].dtype,
            "inputs that fit each other");
  wide_rows(s);
  s.require_spec(state + 1, s[state]);
  s.require_shape(state + 2, {s[state].shape[1], gates.shape[2]});
}
void lstm(const Subject& s) { check_lstm(s, s[0], 1); }
// h, c, recurrent, sequence, cells, gates, dsequence, dcells [, dgates]
void lstm_backward(const Subject& s) {
  const Spec& gates = s[5];
  check_lstm(s, gates, 0);
  for (int i : {3, 4, 6, 7}) s.require_shape(i, gates.shape.with(2, s[0].shape[1]));
  if (s.size() == 9) s.require_spec(8, gates);
}

struct Rule {
  int least, most;  // inputs
  void (*check)(const Subject&);
};
constexpr int no_limit = std::numeric_limits<int>::max();

const std::map<std::string_view, Rule>& rules() {
  // clang-format off
  static const std::map<std::string_view, Rule> table = {
      {"cast", {1, 1, with_dtype}}, {"copy", {1, 1, any}}, {"fill", {0, 0, with_dtype}}, {"reshape", {1, 1, any}},
      {"fused", {1, no_limit, fused}}, {"fused_reduce", {1, no_limit, fused_reduce}}, {"stop_gradient", {1, 1, any}},
      {"fused_each", {1, no_limit, fused_each}}, {"fused_product", {2, no_limit, fused_product}},
      {"product_squares", {2, 2, factors}},
      {"reduce_sum", {1, 1, any}}, {"reduce_mean", {1, 1, any}}, {"reduce_max", {1, 1, any}},
      {"reduce_min", {1, 1, any}}, {"reduce_prod", {1, 1, any}}, {"reduce_all", {1, 1, any}},
      {"reduce_any", {1, 1, any}}, {"cumsum", {1, 1, any}}, {"cumprod", {1, 1, any}},
      {"linear_recurrence", {2, 2, any}}, {"argmax", {1, 1, any}}, {"argmin", {1, 1, any}},
      {"matmul", {2, 2, one_dtype}}, {"transpose", {1, 1, transpose}}, {"diag", {1, 1, any}}, {"diag_part", {1, 1, any}},
      {"band_part", {1, 1, any}}, {"cholesky", {1, 1, any}}, {"matrix_inverse", {1, 1, any}},
      {"triangular_solve", {2, 2, any}},
      {"concat", {1, no_limit, concat}}, {"split", {1, 1, split}}, {"slice", {1, 1, any}},
      {"strided_slice", {1, 1, strided_slice}}, {"strided_slice_gradient", {1, 1, places}}, {"pad", {1, 1, pad}},
      {"tile", {1, 1, any}}, {"broadcast_to", {1, 1, any}}, {"roll", {1, 1, roll}},
      {"gather", {2, 2, with_axis}}, {"embedding_lookup", {2, 2, any}}, {"gather_nd", {2, 2, any}},
      {"scatter_nd", {2, 2, any}}, {"tensor_scatter_nd_add", {3, 3, any}}, {"tensor_scatter_nd_update", {3, 3, any}},
      {"unsorted_segment_sum", {2, 2, any}}, {"unsorted_segment_max", {2, 2, any}}, {"one_hot", {1, 1, one_hot}},
      {"distinct_rows", {1, 1, any}}, {"take_rows", {2, 2, any}}, {"put_rows", {3, 3, any}}, {"limit_skips", {2, 2, any}},
      {"argsort", {1, 1, any}}, {"top_k", {1, 1, any}}, {"take_along", {2, 2, any}}, {"put_along", {2, 2, any}},
      {"convolution", {2, 2, check_spatial}}, {"convolution_backward_data", {2, 2, convolution_backward_data}},
      {"convolution_backward_weights", {2, 2, convolution_backward_weights}},
      {"max_pool", {1, 1, any}}, {"max_pool_backward", {2, 2, any}}, {"max_pool_select", {2, 2, any}},
      {"avg_pool", {1, 1, any}}, {"avg_pool_backward", {1, 1, avg_pool_backward}},
      {"resize", {1, 1, resize}}, {"resize_backward", {1, 1, resize_backward}},
      {"softmax", {1, 1, wide_rows}}, {"softmax_backward", {2, 2, wide_alike}},
      {"log_softmax", {1, 1, wide_rows}}, {"log_softmax_backward", {2, 2, wide_alike}},
      {"softmax_cross_entropy", {2, 2, dense_cross_entropy}},
      {"softmax_cross_entropy_backward", {4, 4, dense_cross_entropy_backward}},
      {"linear_cross_entropy", {3, 4, linear_cross_entropy}},
      {"linear_cross_entropy_backward", {5, 6, linear_cross_entropy_backward}},
      {"sparse_softmax_cross_entropy", {2, 2, cross_entropy}},
      {"sparse_softmax_cross_entropy_backward", {4, 4, sparse_cross_entropy_backward}},
      {"dropout", {1, 2, dropout}}, {"random_tensor", {0, 1, random_tensor}},
      {"layer_norm", {3, 3, layer_norm}}, {"layer_norm_backward", {5, 5, layer_norm_backward}},
      {"rms_norm", {2, 2, rms_norm}}, {"rms_norm_backward", {4, 4, rms_norm_backward}},
      {"batch_norm", {3, 3, batch_norm}}, {"batch_norm_backward", {5, 5, batch_norm}},
      {"batch_norm_pool", {3, 3, joined_batch_norm}}, {"batch_norm_pool_backward", {6, 6, joined_batch_norm}},
      {"batch_norm_relu", {3, 4, joined_batch_norm}}, {"batch_norm_relu_backward", {6, 6, joined_batch_norm}},
      {"group_norm", {3, 3, group_norm}}, {"group_norm_backward", {5, 5, group_norm_backward}},
      {"attention", {1, 5, attention}}, {"attention_backward", {4, 8, attention_backward}},
      {"lstm", {4, 4, lstm}}, {"lstm_backward", {8, 9, lstm_backward}},
      {"cond", {1, no_limit, any}}, {"while_loop", {1, no_limit, any}}, {"scan", {1, no_limit, any}},  // infer knows all
  };
  // clang-format on
  return table;
}

}  // namespace

bool has_file_rule(const OpInfo& info) { return find_file_op(info.name) == &info; }

const OpInfo* find_file_op(std::string_view name) {
  const OpInfo* control = find_control(name);
  const OpInfo* info = control ? control : find_op(name);
  return info && (row_of(*info) || rules().contains(name)) ? info : nullptr;
}

void check_file_rule(const Graph& graph, const Node& node) {
  const RowInfo* row = row_of(*node.info);
  const Rule rule = row ? Rule{row->arity, row->arity, any} : rules().at(node.info->name);
  const auto inputs = static_cast<int>(node.inputs.size());
  if (!is_between(inputs, rule.least, rule.most))
    throw_damaged(fmt::format("{} has {} inputs", node.info->name, inputs));
  rule.check(Subject(graph, node));
}

}  // namespace thalweg
