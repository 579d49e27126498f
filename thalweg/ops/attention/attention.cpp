#include "thalweg/ops/attention/attention.h"

#include <algorithm>
#include <cmath>

#include "thalweg/backend/cpu/kernels/attention.h"
#include "thalweg/core/check.h"
#include "thalweg/ops/attention/gradients.h"
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
};
struct Forward : Scores {};   // q, k, v [, mask] [, state] -> o, statistics
struct Backward : Scores {};  // q, k, v, o, statistics, do [, mask] [, state] -> dq, dk, dv
constexpr int forward_operands = 3, backward_operands = 6;
TW_FIELDS(Forward, causal, scale, dropout.rate, dropout.key.seed, dropout.key.ordinal, dropout.first)
TW_FIELDS(Backward, causal, scale, dropout.rate, dropout.key.seed, dropout.key.ordinal, dropout.first)

DType dtype_of(const Spec& spec) { return spec.dtype; }
template <class Operand>
DType dtype_of(const Operand& operand) {
  return operand.dtype();
}

// What follows the operands: the places of the mask and of the random state, -1 without. The last input is the state if
// it is i64, which no mask is.
struct Extras {
  int mask = -1, state = -1;

  template <class List>
  Extras(const Scores& op, int operands, const List& in) {
    auto inputs = static_cast<int>(in.size());
    if (inputs > operands && op.dropout.rate > 0 && dtype_of(in[inputs - 1]) == i64) state = --inputs;
    if (inputs > operands) mask = operands;
  }
};

void check_operand(const char* what, const Spec& spec, const Spec& q) {
  TW_CHECK_USER(spec.rank() == 4, "attention", "q, k and v are [batch, heads, time, size]",
                "expected {} of rank 4, got {}", what, spec.shape);
  TW_CHECK_USER(spec.shape[0] == q.shape[0] && spec.shape[1] == q.shape[1], "attention",
                "tw::repeat gives several queries one key head",
                "expected {} with batch {} and {} heads like q {}, got {}", what, q.shape[0], q.shape[1], q.shape,
                spec.shape);
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
  const Spec &q = in[0], &k = in[1], &v = in[2];
  TW_CHECK_USER(is_float(q.dtype), "attention", "tw::cast(q, tw::f32)",
                "expected a float dtype, since the results are fractions, got {}", q.dtype);
  check_operand("q", q, q);
  check_operand("k", k, q);
  check_operand("v", v, q);
  TW_CHECK_USER(k.shape[3] == q.shape[3] && k.shape[3] > 0, "attention", "queries and keys have one size, at least 1",
                "expected keys of size {} as in q {}, got k {}", q.shape[3], q.shape, k.shape);
  TW_CHECK_USER(v.shape[2] == k.shape[2], "attention", "there is a value for every key",
                "expected {} values as in k {}, got v {}", k.shape[2], k.shape, v.shape);
  const Shape rows = q.shape.prefix(3);
  if (const int mask = Extras(op, forward_operands, in).mask; mask >= 0)
    check_mask(in[mask], concatenate(rows, Shape{k.shape[2]}));
  return {Spec{q.dtype, concatenate(rows, Shape{v.shape[3]})}, Spec{wide(q.dtype), concatenate(rows, Shape{2})}};
}

Specs infer(const Backward&, Inputs in) { return {in[0], in[1], in[2]}; }

cpu::AttentionShape describe(const Scores& op, DType dtype, const Shape& q, const Shape& k, const Shape& v) {
  return {.batch = q[0],
          .heads = q[1],
          .queries = q[2],
          .keys = k[2],
          .depth = q[3],
          .value_depth = v[3],
          .causal = op.causal,
          .narrow = wide(dtype) != dtype};
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
  const Shape &q = in[0].shape, &k = in[1].shape;
  return 2.0 * static_cast<double>(q.size()) * static_cast<double>(k[2]) * (op.causal ? 0.5 : 1.0);
}
double flops(const Forward& op, Inputs in) { return 2 * score_flops(op, in); }
double flops(const Backward& op, Inputs in) { return 5 * score_flops(op, in); }

std::int64_t workspace(const Forward& op, Inputs in) {
  const auto element = static_cast<std::size_t>(size_of(wide(in[0].dtype)));
  return static_cast<std::int64_t>(
      cpu::attention_workspace_forward(describe(op, in[0].dtype, in[0].shape, in[1].shape, in[2].shape), element));
}
std::int64_t workspace(const Backward& op, Inputs in) {
  const auto element = static_cast<std::size_t>(size_of(wide(in[0].dtype)));
  return static_cast<std::int64_t>(
      cpu::attention_workspace_backward(describe(op, in[0].dtype, in[0].shape, in[1].shape, in[2].shape), element));
}

void run(const Forward& op, Arrays in, Arrays out, Scratch scratch) {
  cpu::with_float_type(in[0].dtype(), [&]<class S>(TypeTag<S>) {
    using T = cpu::Wide<S>;
    const auto shape = describe(op, in[0].dtype(), in[0].shape(), in[1].shape(), in[2].shape());
    const Extras extras(op, forward_operands, in);
    cpu::attention_kernels<S>().forward(
        {.shape = shape,
         .mask = extras.mask >= 0 ? describe(in[extras.mask]) : cpu::AttentionMask{},
         .scale = static_cast<T>(op.scale),
         .q = in[0].as<const S>(),
         .k = in[1].as<const S>(),
         .v = in[2].as<const S>(),
         .o = out[0].as<S>(),
         .statistics = out[1].as<T>(),
         .workspace = scratch.data(),
         .dropout = describe(op, extras.state >= 0 ? &in[extras.state] : nullptr, shape)});
  });
}

void run(const Backward& op, Arrays in, Arrays out, Scratch scratch) {
  cpu::with_float_type(in[0].dtype(), [&]<class S>(TypeTag<S>) {
    using T = cpu::Wide<S>;
    const auto shape = describe(op, in[0].dtype(), in[0].shape(), in[1].shape(), in[2].shape());
    const Extras extras(op, backward_operands, in);
    cpu::attention_kernels<S>().backward(
        {.shape = shape,
         .mask = extras.mask >= 0 ? describe(in[extras.mask]) : cpu::AttentionMask{},
         .scale = static_cast<T>(op.scale),
         .q = in[0].as<const S>(),
         .k = in[1].as<const S>(),
         .v = in[2].as<const S>(),
         .o = in[3].as<const S>(),
         .statistics = in[4].as<const T>(),
         .d_o = in[5].as<const S>(),
         .dq = out[0].as<S>(),
         .dk = out[1].as<S>(),
         .dv = out[2].as<S>(),
         .workspace = scratch.data(),
         .dropout = describe(op, extras.state >= 0 ? &in[extras.state] : nullptr, shape)});
  });
}

// The weights in plain ops, [batch, heads, queries, keys]; a hidden key weighs 0, also where all are hidden.
struct Plain {
  Tensor seen, scores, weights;  // seen is undefined where every key is
  KeyedDropout dropout;
  Tensor state;

  Plain(const Scores& op, const Tensors& in, int operands) : dropout(op.dropout) {
    const Tensor &q = in[0], &k = in[1];
    const Extras extras(op, operands, in);
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
  const Plain plain(op, in, forward_operands);
  return {matmul(plain.dropped(plain.weights), in[2]), plain.statistics(op.scale)};
}

// Finds o and the statistics anew, so that derivatives by q, k and v are complete without those by them.
Tensors reference(const Backward& op, const Tensors& in) {
  const Plain plain(op, in, backward_operands);
  const Tensor &weights = plain.weights, &d_o = in[5];
  const Tensor dweights = plain.dropped(matmul(d_o, in[2], {.transpose_b = true}));
  const Tensor dscores =
      weights * (dweights - reduce_sum(dweights * weights, {.axes = -1, .keepdims = true})) * op.scale;
  return {matmul(dscores, in[1]), matmul(dscores, in[0], {.transpose_a = true}),
          matmul(plain.dropped(weights), d_o, {.transpose_a = true})};
}

// The mask and the state are kept where they are.
Keeps keeps(const Forward&, Needs) { return {.inputs = {0, 1, 2, 3, 4}, .outputs = {0, 1}}; }

Gradients gradient(const Forward& op, const Kept& kept, const Tensors& dy, Needs) {
  Tensors in{kept.input(0), kept.input(1), kept.input(2), kept.output(0), kept.output(1), dy[0]};
  for (int i = forward_operands; i < kept.inputs(); ++i) in.push_back(kept.input(i));
  const Backward backward{op};
  const Tensors out = apply(attention_backward_info(), static_cast<const void*>(&backward), {in.data(), in.size()});
  Gradients result(static_cast<std::size_t>(kept.inputs()));
  std::copy(out.begin(), out.end(), result.begin());
  return result;
}

// The op on these inputs and, if there are such, the mask and the random state. Checks come before the key of dropout,
// so that a refused call takes no number from the others.
template <class Op>
Tensors apply_op(const OpInfo& info, Tensors in, const Attention& options) {
  const double rate = options.dropout, size = in[0].rank() == 0 ? 1 : static_cast<double>(in[0].shape().last());
  TW_CHECK_USER(rate >= 0 && rate < 1, "attention", "the rate is the fraction dropped, for example 0.1",
                "expected a dropout rate from 0 to less than 1, got {}", rate);
  Op op{{options.causal, options.scale.value_or(1 / std::sqrt(size))}};
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
BatchStates attention_rule(const Scores& op, Inputs in, BatchStates& states, std::int64_t examples, int operands,
                           int outputs) {
  const Extras extras(op, operands, in);
  const Ints leading{0, op.dropout.rate > 0 && in[0].shape[0] > 1 ? mixed : 1};
  AxisNames names(static_cast<std::size_t>(operands), leading);
  if (extras.mask >= 0) {
    const Shape scores = concatenate(in[0].shape.prefix(3), Shape{in[1].shape[2]});
    Ints mask = broadcast_names(in[extras.mask].shape, scores);
    for (std::int64_t& name : mask) name = name == 0 || name == 1 ? leading[static_cast<int>(name)] : mixed;
    names.push_back(mask);
  }
  if (extras.state >= 0) names.push_back({mixed});
  return named_axes_rule(in, states, examples, names, AxisNames(static_cast<std::size_t>(outputs), leading));
}
BatchStates batch_rule(const Forward& op, Inputs in, BatchStates& states, std::int64_t examples) {
  return attention_rule(op, in, states, examples, forward_operands, 2);
}
BatchStates batch_rule(const Backward& op, Inputs in, BatchStates& states, std::int64_t examples) {
  return attention_rule(op, in, states, examples, backward_operands, 3);
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
  const Tensors out = apply_op<Forward>(attention_info(), {q, k, v}, options);
  return {out[0], out[1]};
}

AttentionGradients attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                                      const Tensor& statistics, const Tensor& d_o, const Attention& options) {
  const Tensors out = apply_op<Backward>(attention_backward_info(), {q, k, v, o, statistics, d_o}, options);
  return {out[0], out[1], out[2]};
}

bool drops_weights(const OpInfo& info, const void* op) {
  if (&info == &attention_info()) return static_cast<const Forward*>(op)->dropout.rate > 0;
  return &info == &attention_backward_info() && static_cast<const Backward*>(op)->dropout.rate > 0;
}

}  // namespace thalweg
