#include "thalweg/ops/reduce/reduce.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/cumulative/cumulative.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce_op.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/tile/tile.h"
#include "thalweg/ops/widen.h"

namespace thalweg {
namespace {

enum class Kind { sum, mean, max, min, prod, all, any };

template <Kind kind>
struct ReduceOp {
  Axes axes;
  bool keepdims;
  bool wide_result = false;  // of 16-bit floats: combined in f32, and left so
};

constexpr bool is_logical(Kind kind) { return kind == Kind::all || kind == Kind::any; }

constexpr const char* name_of(Kind kind) {
  constexpr const char* names[] = {"reduce_sum",  "reduce_mean", "reduce_max", "reduce_min",
                                   "reduce_prod", "reduce_all",  "reduce_any"};
  return names[static_cast<int>(kind)];
}

// The shape with reduced axes of size 1, or without them.
Shape reduced_shape(const Shape& shape, const Ints& axes, bool keepdims) {
  Ints sizes;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool reduced = axes.contains(i);
    if (!reduced || keepdims) sizes.push_back(reduced ? 1 : shape[i]);
  }
  return Shape(sizes);
}

template <Kind kind>
Specs infer(const ReduceOp<kind>& op, Inputs in) {
  const char* name = name_of(kind);
  if constexpr (is_logical(kind))
    TW_CHECK_USER(in[0].dtype == boolean, name, "compare first: reduce_any(x != 0)", "expected dtype boolean, got {}",
                  in[0].dtype);
  else
    TW_CHECK_USER(in[0].dtype != boolean, name, "cast(x, tw::i32) counts, reduce_all and reduce_any ask",
                  "expected a float or integer dtype, got {}", in[0].dtype);
  const DType dtype = op.wide_result ? wide(in[0].dtype) : in[0].dtype;
  return {Spec{dtype, reduced_shape(in[0].shape, op.axes.resolve(name, in[0].rank()), op.keepdims)}};
}

template <Kind kind>
cpu::Reduction reduction(const ReduceOp<kind>& op, int rank) {
  using enum Kind;
  constexpr cpu::Combine combine = kind == max || kind == any   ? cpu::Combine::max
                                   : kind == min || kind == all ? cpu::Combine::min
                                   : kind == prod               ? cpu::Combine::prod
                                                                : cpu::Combine::sum;
  return {.combine = combine, .mean = kind == mean, .axes = op.axes.resolve(name_of(kind), rank)};
}

template <Kind kind>
std::int64_t workspace(const ReduceOp<kind>& op, Inputs in) {
  return cpu::reduce_workspace(reduction(op, in[0].rank()), in[0]);
}

template <Kind kind>
void run(const ReduceOp<kind>& op, Arrays in, Arrays out, Scratch scratch) {
  cpu::reduce(reduction(op, in[0].shape().rank()), in[0], out[0], scratch.data());
}

template <Kind kind>
bool differentiable(const ReduceOp<kind>&) requires(is_logical(kind)) {
  return false;
}

template <Kind kind>
Keeps keeps(const ReduceOp<kind>&, Needs) requires(!is_logical(kind)) {
  if (kind == Kind::sum || kind == Kind::mean) return {};
  if (kind == Kind::prod) return {.inputs = {0}, .outputs = {}};
  return {.inputs = {0}, .outputs = {0}};
}

// Where x is its largest (or smallest) element: an equal share of dy. Counted in at least f32.
Tensor share_among_equals(const Tensor& x, const Tensor& y, const Tensor& dy) {
  const DType wide = x.dtype() == f64 ? f64 : f32;
  const Tensor equal = x == y;
  Ints reduced;
  for (int i = 0; i < x.rank(); ++i)
    if (y.shape()[i] != x.shape()[i]) reduced.push_back(i);
  const Tensor count = reduce_sum(cast(equal, wide), {.axes = reduced, .keepdims = true});
  return where(equal, cast(cast(dy, wide) / count, x.dtype()), 0);
}

// The product of the other elements along an axis: exact whatever is zero.
Tensor product_of_others(const Tensor& x, std::int64_t axis) {
  return cumprod(x, {.axis = axis, .exclusive = true}) * cumprod(x, {.axis = axis, .exclusive = true, .reverse = true});
}

// A product over several axes is a product of products, one axis after the other.
Tensor product_gradient(const Tensor& x, const Ints& axes, const Tensor& dy) {
  Tensors products{x};  // over ever more of the axes, from the last
  for (int i = axes.size() - 1; i > 0; --i)
    products.push_back(reduce_prod(products.back(), {.axes = axes[i], .keepdims = true}));
  Tensor dx = dy;
  for (int i = 0; i < axes.size(); ++i) {
    dx = dx * product_of_others(products.back(), axes[i]);
    products.pop_back();
  }
  return dx;
}

template <Kind kind>
Gradients gradient(const ReduceOp<kind>& op, const Kept& kept, const Tensors& dy, Needs) requires(!is_logical(kind)) {
  const Shape& shape = kept.input_spec(0).shape;
  const Ints axes = op.axes.resolve(name_of(kind), shape.rank());
  const Shape kept_shape = reduced_shape(shape, axes, true);
  const Tensor upstream = reshape(dy[0], kept_shape);
  if constexpr (kind == Kind::sum) return {broadcast_to(upstream, shape)};
  if constexpr (kind == Kind::mean) {
    const std::int64_t averaged = shape.size() / std::max<std::int64_t>(1, kept_shape.size());
    return {broadcast_to(upstream / averaged, shape)};
  }
  if constexpr (kind == Kind::max || kind == Kind::min)
    return {share_among_equals(kept.input(0), reshape(kept.output(0), kept_shape), upstream)};
  return {product_gradient(kept.input(0), axes, upstream)};
}

// A mean of whole numbers is cut off, so that parts of it do not add up.
template <Kind kind>
BatchStates batch_rule(const ReduceOp<kind>& op, Inputs in, BatchStates& states, std::int64_t examples) {
  const Ints axes = op.axes.resolve(name_of(kind), in[0].rank());
  constexpr bool adds = kind == Kind::sum || kind == Kind::mean;
  Ints names = first_axes(in[0].rank());
  for (std::int64_t axis : axes)
    if (!adds || (kind == Kind::mean && !is_float(in[0].dtype))) names[static_cast<int>(axis)] = mixed;
  BatchStates out = named_axes_rule(in, states, examples, {names}, {reduced_names(in[0].rank(), axes, op.keepdims)});
  if (kind == Kind::mean && out[0].kind == BatchState::Kind::sum) out[0].kind = BatchState::Kind::mean;
  return out;
}

template <Kind kind>
ReduceOp<kind> lifted(const ReduceOp<kind>& op, Inputs in, std::int64_t) {
  return {shifted_axes(op.axes.resolve(name_of(kind), in[0].rank())), op.keepdims, op.wide_result};
}

}  // namespace

#define TW_REDUCE(kind)                                            \
  namespace {                                                      \
  TW_FIELDS(ReduceOp<Kind::kind>, axes, keepdims, wide_result)     \
  }                                                                \
  TW_DEFINE_OP(reduce_##kind, ReduceOp<Kind::kind>)                \
  Tensor reduce_##kind(const Tensor& x, const Reduce& options) {   \
    const ReduceOp<Kind::kind> op{options.axes, options.keepdims}; \
    return apply(reduce_##kind##_info(), op, {x})[0];              \
  }
TW_REDUCE(sum)
TW_REDUCE(mean)
TW_REDUCE(max)
TW_REDUCE(min)
TW_REDUCE(prod)
TW_REDUCE(all)
TW_REDUCE(any)
#undef TW_REDUCE

namespace {

struct NamedReduction {
  const OpInfo& (*info)();
  cpu::Reduction (*reduction)(const void* op, int rank);
};

template <Kind kind>
cpu::Reduction reduction_as(const void* op, int rank) {
  return reduction(*static_cast<const ReduceOp<kind>*>(op), rank);
}

const NamedReduction* find_reduction(const OpInfo& info) {
  static constexpr NamedReduction list[] = {{reduce_sum_info, reduction_as<Kind::sum>},
                                            {reduce_mean_info, reduction_as<Kind::mean>},
                                            {reduce_max_info, reduction_as<Kind::max>},
                                            {reduce_min_info, reduction_as<Kind::min>},
                                            {reduce_prod_info, reduction_as<Kind::prod>}};
  const auto* found = std::find_if(std::begin(list), std::end(list), [&](const auto& r) { return &r.info() == &info; });
  return found == std::end(list) ? nullptr : found;
}

}  // namespace

bool is_reduction(const OpInfo& info) { return find_reduction(info) != nullptr; }

cpu::Reduction reduction_of(const OpInfo& info, const void* op, int rank) {
  const NamedReduction* found = find_reduction(info);
  TW_CHECK_INTERNAL(found != nullptr, info.name, "is no reduction of numbers");
  return found->reduction(op, rank);
}

}  // namespace thalweg
