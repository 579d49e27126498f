#include "thalweg/ops/attention/attention.h"

#include <algorithm>
#include <cmath>

#include "thalweg/core/check.h"
#include "thalweg/ops/attention/gradients.h"
#include "thalweg/ops/attention/layout.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/dropout/keyed.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/softmax/softmax.h"
#include "thalweg/ops/widen.h"

namespace thalweg {
namespace {

// Statistics [batch, heads, queries, 2] are kept, so that the gradient need not find the maxima again: the largest
// sign(scale) * q k^T, and the weight of that key.
struct Scores {
  bool causal;
  double scale;
  KeyedDropout dropout = {};  // of the weights, numbered as in [batch, heads, queries, keys]
  std::int64_t layout = 0;    // an AttentionLayout

  AttentionLayout lies() const { return static_cast<AttentionLayout>(layout); }
  AttentionLayout output_lies() const { return is_packed() ? AttentionLayout::time_first : lies(); }  // o, do
  bool is_packed() const { return lies() == AttentionLayout::packed; }
  int parts() const { return attention_operands(lies()); }  // tensors of q, k and v
};
struct Forward : Scores {  // q, k, v [, mask] [, state] -> o, statistics
  int operands() const { return parts(); }
};
struct Backward : Scores {  // q, k, v, o, statistics, do [, mask] [, state] -> dq, dk, dv
  int operands() const { return parts() + 3; }
};
TW_FIELDS(Forward, causal, scale, dropout.rate, dropout.key.seed, dropout.key.ordinal, dropout.first, layout)
TW_FIELDS(Backward, causal, scale, dropout.rate, dropout.key.seed, dropout.key.ordinal, dropout.first, layout)

DType dtype_of(const Spec& spec) { return spec.dtype; }
const Shape& shape_of(const Spec& spec) { return spec.shape; }
template <class Operand>
DType dtype_of(const Operand& operand) {
  return operand.dtype();
}
template <class Operand>
const Shape& shape_of(const Operand& operand) {
  return operand.shape();
}

template <class List>
HeadShapes shapes_of(const Scores& op, const List& in) {
  return op.is_packed() ? head_shapes(shape_of(in[0]))
                        : head_shapes(op.lies(), shape_of(in[0]), shape_of(in[1]), shape_of(in[2]));
}

// What follows the operands: the places of the mask and of the random state, -1 without. The last input is the state if
// it is i64, which no mask is.
struct Extras {
  int mask = -1, state = -1;

  template <class Op, class List>
  Extras(const Op& op, const List& in) {
    const int operands = op.operands();
    auto inputs = static_cast<int>(in.size());
    if (inputs > operands && op.dropout.rate > 0 && dtype_of(in[inputs - 1]) == i64) state = --inputs;
    if (inputs > operands) mask = operands;
  }
};

void check_operand(const char* what, const Shape& shape, const Shape& q) {
  TW_CHECK_USER(shape.rank() == 4, "attention", "q, k and v are [batch, heads, time, size]",
                "expected {} of rank 4, got {}", what, shape);
  TW_CHECK_USER(shape[0] == q[0] && shape[1] == q[1], "attention", "tw::repeat gives several queries one key head",
                "expected {} with batch {} and {} heads like q {}, got {}", what, q[0], q[1], q, shape);
}

// The mask's sizes as [batch, heads, queries, keys], missing ones in front 1.
Shape aligned_mask(const Shape& mask) {
  Ints sizes(4 - mask.rank(), 1);
  for (auto size : mask) sizes.push_back(size);
  return Shape(sizes);
}

void check_mask_dtype(DType dtype) {
  TW_CHECK_USER(dtype == boolean, "attention", "true marks the keys a query sees: tw::cast(mask, tw::boolean)",
                "expected a boolean mask, got {}", dtype);
}

void check_mask(const Spec& mask, const Shape& scores) {
  check_mask_dtype(mask.dtype);
  bool fits = mask.rank() <= 4;
  for (int i = 0; fits && i < 4; ++i)
    fits = aligned_mask(mask.shape)[i] == 1 || aligned_mask(mask.shape)[i] == scores[i];
  TW_CHECK_USER(fits, "attention", "the mask broadcasts to [batch, heads, queries, keys]",
                "expected a mask for scores {}, got {}", scores, mask.shape);
}

Specs infer(const Forward& op, Inputs in) {
  const DType dtype = in[0].dtype;
  const HeadShapes shapes = shapes_of(op, in);
  const auto& [q, k, v] = shapes;
  TW_CHECK_USER(is_float(dtype), "attention", "tw::cast(q, tw::f32)",
                "expected a float dtype, since the results are fractions, got {}", dtype);
  check_operand("q", q, q);
  check_operand("k", k, q);
  check_operand("v", v, q);
  TW_CHECK_USER(k[3] == q[3] && k[3] > 0, "attention", "queries and keys have one size, at least 1",
                "expected keys of size {} as in q {}, got k {}", q[3], q, k);
  TW_CHECK_USER(v[2] == k[2], "attention", "there is a value for every key", "expected {} values as in k {}, got v {}",
                k[2], k, v);
  const Shape rows = q.prefix(3);
  if (const int mask = Extras(op, in).mask; mask >= 0) check_mask(in[mask], concatenate(rows, Shape{k[2]}));
  return {Spec{dtype, output_shape(op.lies(), shapes)}, Spec{wide(dtype), concatenate(rows, Shape{2})}};
}

Specs infer(const Backward& op, Inputs in) { return op.is_packed() ? Specs{in[0]} : Specs{in[0], in[1], in[2]}; }

template <class List>
cpu::AttentionShape describe(const Scores& op, const List& in) {
  const auto [q, k, v] = shapes_of(op, in);
  return {.batch = q[0],
          .heads = q[1],
          .queries = q[2],
          .keys = k[2],
          .depth = q[3],
          .value_depth = v[3],
          .causal = op.causal,
          .narrow = wide(dtype_of(in[0])) != dtype_of(in[0]),
          .spread = heads_are_spread(op.lies(), q, v, dtype_of(in[0]))};
}

cpu::AttentionMask describe(const Array& mask) {
  const Shape sizes = aligned_mask(mask.shape());
  const auto stride = [&](int axis) { return sizes[axis] == 1 ? 0 : sizes.product(axis + 1, 4); };
  return {mask.as<const std::uint8_t>(), stride(0), stride(1), stride(2), stride(3)};
}

// What the op drops, of weights of this shape.
cpu::AttentionDropout describe(const Scores& op, const Array* state, const cpu::AttentionShape& s) {
  if (op.dropout.rate == 0) return {};
  const auto drawn = random::drawn(op.dropout.key, state, s.batch * s.heads * s.queries * s.keys);
  return {.key = drawn.key,
          .first = static_cast<std::uint64_t>(op.dropout.first + drawn.first),
          .threshold = op.dropout.threshold(),
          .scale = op.dropout.scale()};
}

// Scores, and sums over them; causal ones are half.
double score_flops(const Scores& op, Inputs in) {
  const auto [q, k, v] = shapes_of(op, in);
  return 2.0 * static_cast<double>(q.size()) * static_cast<double>(k[2]) * (op.causal ? 0.5 : 1.0);
}
double flops(const Forward& op, Inputs in) { return 2 * score_flops(op, in); }
double flops(const Backward& op, Inputs in) { return 5 * score_flops(op, in); }

std::int64_t workspace(const Forward& op, Inputs in) {
  const auto element = static_cast<std::size_t>(size_of(wide(in[0].dtype)));
  return static_cast<std::int64_t>(cpu::attention_workspace_forward(describe(op, in), element));
}
std::int64_t workspace(const Backward& op, Inputs in) {
  const auto element = static_cast<std::size_t>(size_of(wide(in[0].dtype)));
  return static_cast<std::int64_t>(cpu::attention_workspace_backward(describe(op, in), element));
}

// Where q, k or v begins, or its gradient.
template <class S>
S* part(const Scores& op, Arrays arrays, const cpu::AttentionShape& s, int which) {
  return op.is_packed() ? arrays[0].as<S>() + which * s.heads * s.depth : arrays[which].as<S>();
}

void run(const Forward& op, Arrays in, Arrays out, Scratch scratch) {
  cpu::with_float_type(in[0].dtype(), [&]<class S>(TypeTag<S>) {
    using T = cpu::Wide<S>;
    const auto shape = describe(op, in);
    const Extras extras(op, in);
    cpu::attention_kernels<S>().forward(
        {.shape = shape,
         .strides = strides_of(op.lies(), shape),
         .mask = extras.mask >= 0 ? describe(in[extras.mask]) : cpu::AttentionMask{},
         .scale = static_cast<T>(op.scale),
         .q = part<const S>(op, in, shape, 0),
         .k = part<const S>(op, in, shape, 1),
         .v = part<const S>(op, in, shape, 2),
         .o = out[0].as<S>(),
         .statistics = out[1].as<T>(),
         .workspace = scratch.data(),
         .dropout = describe(op, extras.state >= 0 ? &in[extras.state] : nullptr, shape)});
  });
}

void run(const Backward& op, Arrays in, Arrays out, Scratch scratch) {
  cpu::with_float_type(in[0].dtype(), [&]<class S>(TypeTag<S>) {
    using T = cpu::Wide<S>;
    const auto shape = describe(op, in);
    const Extras extras(op, in);
    const Arrays rest = in.subspan(static_cast<std::size_t>(op.parts()));
    cpu::attention_kernels<S>().backward(
        {.shape = shape,
         .strides = strides_of(op.lies(), shape),
         .mask = extras.mask >= 0 ? describe(in[extras.mask]) : cpu::AttentionMask{},
         .scale = static_cast<T>(op.scale),
         .q = part<const S>(op, in, shape, 0),
         .k = part<const S>(op, in, shape, 1),
         .v = part<const S>(op, in, shape, 2),
         .o = rest[0].as<const S>(),
         .statistics = rest[1].as<const T>(),
         .d_o = rest[2].as<const S>(),
         .dq = part<S>(op, out, shape, 0),
         .dk = part<S>(op, out, shape, 1),
         .dv = part<S>(op, out, shape, 2),
         .workspace = scratch.data(),
         .dropout = describe(op, extras.state >= 0 ? &in[extras.state] : nullptr, shape)});
  });
}

// The weights in plain ops, [batch, heads, queries, keys]; a hidden key weighs 0, also where all are hidden.
struct Plain {
  Tensor q, k, v;
  Tensor seen, scores, weights;  // seen is undefined where every key is
  KeyedDropout dropout;
  Tensor state;

  template <class Op>
  Plain(const Op& op, const Tensors& in) : dropout(op.dropout) {
    const Tensors parts = with_heads_first(op.lies(), {in.begin(), in.begin() + op.parts()});
    q = parts[0], k = parts[1], v = parts[2];
    const Extras extras(op, in);
    if (extras.mask >= 0) seen = in[extras.mask];
    if (extras.state >= 0) state = in[extras.state];
    scores = matmul(q, k, {.transpose_b = true}) * op.scale;
    if (op.causal) {
      const Tensor below = expand_dims(arange(q.shape()[2]), 1) >= arange(k.shape()[2]);
      seen = seen.defined() ? seen & below : below;
    }
    if (seen.defined()) scores = where(seen, scores, -1e30);
    weights = softmax(scores);
    if (seen.defined()) weights = where(seen, weights, 0);
  }
  // x [batch, heads, queries, keys] with the elements dropped that weights are.
  Tensor dropped(const Tensor& x) const { return dropout.rate > 0 ? thalweg::dropout(x, dropout, state) : x; }
  Tensor statistics(double scale) const {
    const Tensor top = reduce_max(scores, {.axes = -1, .keepdims = true}), none = top <= -1e29;
    const Tensor weight = reduce_max(weights, {.axes = -1, .keepdims = true});
    return where(none, 0, concat({scale == 0 ? top : top / std::abs(scale), weight}, -1));
  }
};

Tensors reference(const Forward& op, const Tensors& in) {
  const Plain plain(op, in);
  const Tensor o = matmul(plain.dropped(plain.weights), plain.v);
  return {as_laid_out(op.output_lies(), {o})[0], plain.statistics(op.scale)};
}

// Finds o and the statistics anew, so that derivatives by q, k and v are complete without those by them.
Tensors reference(const Backward& op, const Tensors& in) {
  const Plain plain(op, in);
  const Tensor& weights = plain.weights;
  const Tensor d_o = with_heads_first(op.output_lies(), {in[static_cast<std::size_t>(op.parts()) + 2]})[0];
  const Tensor dweights = plain.dropped(matmul(d_o, plain.v, {.transpose_b = true}));
  const Tensor dscores =
      weights * (dweights - reduce_sum(dweights * weights, {.axes = -1, .keepdims = true})) * op.scale;
  return as_laid_out(op.lies(), {matmul(dscores, plain.k), matmul(dscores, plain.q, {.transpose_a = true}),
                                 matmul(plain.dropped(weights), d_o, {.transpose_a = true})});
}

// The mask and the state are kept where they are.
Keeps keeps(const Forward&, Needs) { return {.inputs = {0, 1, 2, 3, 4}, .outputs = {0, 1}}; }

Gradients gradient(const Forward& op, const Kept& kept, const Tensors& dy, Needs) {
  Tensors in;
  for (int i = 0; i < op.operands(); ++i) in.push_back(kept.input(i));
  for (const Tensor& tensor : {kept.output(0), kept.output(1), dy[0]}) in.push_back(tensor);
  for (int i = op.operands(); i < kept.inputs(); ++i) in.push_back(kept.input(i));
  const Backward backward{op};
  const Tensors out = apply(attention_backward_info(), static_cast<const void*>(&backward), {in.data(), in.size()});
  Gradients result(static_cast<std::size_t>(kept.inputs()));
  std::copy(out.begin(), out.end(), result.begin());
  return result;
}

// The op on these inputs and, if there are such, the mask and the random state. Checks come before the key of dropout,
// so that a refused call takes no number from the others.
template <class Op>
Tensors apply_op(const OpInfo& info, AttentionLayout layout, Tensors in, const Attention& options) {
  const double rate = options.dropout, size = in[0].rank() == 0 ? 1 : static_cast<double>(in[0].shape().last());
  TW_CHECK_USER(rate >= 0 && rate < 1, "attention", "the rate is the fraction dropped, for example 0.1",
                "expected a dropout rate from 0 to less than 1, got {}", rate);
  Op op{{options.causal, options.scale.value_or(1 / std::sqrt(size)), {}, static_cast<std::int64_t>(layout)}};
  if (options.mask.defined()) {
    check_mask_dtype(options.mask.dtype());
    in.push_back(options.mask);
  }
  if (rate > 0) {
    SmallVector<const Spec*, 8> specs;
    for (const Tensor& tensor : in) specs.push_back(&tensor.spec());
    infer(op, Inputs({specs.data(), specs.size()}));
    op.dropout = {rate, random::next_key(options.seed)};
    if (const Tensor state = random::traced_state(); state.defined()) in.push_back(state);
  }
  return apply(info, static_cast<const void*>(&op), {in.data(), in.size()});
}

// Batch entries and heads stand apart. Under dropout a chunk must be one stretch of the weights, whose numbers begin at
// `first`: heads can be cut in a batch of one.
template <class Op>
class AxesOfHeads {
 public:
  AxesOfHeads(const Op& op, Inputs in)
      : op_(op), in_(in), heads_(op.dropout.rate > 0 && in[0].shape[0] > 1 ? mixed : 1) {}

  Ints parts() const { return head_axes(op_.lies(), 0, heads_); }
  Ints output() const { return head_axes(op_.output_lies(), 0, heads_); }
  Ints statistics() const { return {0, heads_}; }

  // names: of the operands.
  BatchStates rule(BatchStates& states, std::int64_t examples, AxisNames names, const AxisNames& outputs) const {
    const Extras extras(op_, in_);
    if (extras.mask >= 0) {
      const auto [q, k, v] = shapes_of(op_, in_);
      Ints mask = broadcast_names(in_[extras.mask].shape, concatenate(q.prefix(3), Shape{k[2]}));
      for (std::int64_t& name : mask) name = name == 0 ? 0 : name == 1 ? heads_ : mixed;
      names.push_back(mask);
    }
    if (extras.state >= 0) names.push_back({mixed});
    return named_axes_rule(in_, states, examples, names, outputs);
  }

 private:
  const Op& op_;
  Inputs in_;
  std::int64_t heads_;  // the name of that axis
};

BatchStates batch_rule(const Forward& op, Inputs in, BatchStates& states, std::int64_t examples) {
  const AxesOfHeads axes(op, in);
  const AxisNames operands(static_cast<std::size_t>(op.parts()), axes.parts());
  return axes.rule(states, examples, operands, {axes.output(), axes.statistics()});
}
BatchStates batch_rule(const Backward& op, Inputs in, BatchStates& states, std::int64_t examples) {
  const AxesOfHeads axes(op, in);
  const AxisNames parts(static_cast<std::size_t>(op.parts()), axes.parts());
  AxisNames operands = parts;
  for (const Ints& names : {axes.output(), axes.statistics(), axes.output()}) operands.push_back(names);
  return axes.rule(states, examples, operands, parts);
}

}  // namespace

TW_DEFINE_OP(attention, Forward)
TW_DEFINE_OP(attention_backward, Backward)

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Attention& options) {
  check_defined("attention", q, k, v);
  const DType dtype = promote("attention", promote("attention", q.dtype(), k.dtype()), v.dtype()), inside = wide(dtype);
  return cast(attention_forward(cast(q, inside), cast(k, inside), cast(v, inside), options).o, dtype);
}

AttentionResult attention_forward(const Tensor& q, const Tensor& k, const Tensor& v, const Attention& options) {
  return attention_forward(AttentionLayout::heads_first, {q, k, v}, options);
}

AttentionResult attention_forward(AttentionLayout layout, const Tensors& operands, const Attention& options) {
  const Tensors out = apply_op<Forward>(attention_info(), layout, operands, options);
  return {out[0], out[1]};
}

AttentionGradients attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                                      const Tensor& statistics, const Tensor& d_o, const Attention& options) {
  const Tensors out = attention_backward(AttentionLayout::heads_first, {q, k, v, o, statistics, d_o}, options);
  return {out[0], out[1], out[2]};
}

Tensors attention_backward(AttentionLayout layout, const Tensors& operands, const Attention& options) {
  return apply_op<Backward>(attention_backward_info(), layout, operands, options);
}

bool drops_weights(const OpInfo& info, const void* op) {
  if (&info == &attention_info()) return static_cast<const Forward*>(op)->dropout.rate > 0;
  return &info == &attention_backward_info() && static_cast<const Backward*>(op)->dropout.rate > 0;
}

}  // namespace thalweg
