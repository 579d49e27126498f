#include "thalweg/ops/pool/pool.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/pool/gradients.h"
#include "thalweg/ops/pool/kernels.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

struct MaxPool : Pool {};          // x -> y
struct MaxPoolBackward : Pool {};  // x, dy -> dx
struct MaxPoolSelect : Pool {};    // x, g -> as y
struct AvgPool : Pool {};          // x -> y
struct AvgPoolBackward : Pool {    // dy -> dx
  Ints input;                      // spatial sizes of dx
};
TW_FIELDS(MaxPool, size, strides, padding)
TW_FIELDS(MaxPoolBackward, size, strides, padding)
TW_FIELDS(MaxPoolSelect, size, strides, padding)
TW_FIELDS(AvgPool, size, strides, padding)
TW_FIELDS(AvgPoolBackward, size, strides, padding, input)

Ints spatial_sizes(const Shape& shape) {
  return Ints(std::span(shape.begin() + 1, static_cast<std::size_t>(shape.rank() - 2)));
}

PoolShape describe(const char* name, const Pool& op, const Shape& x, const Ints& input) {
  const int spatial = input.size();
  const Ints size = per_axis(name, "sizes", op.size, spatial);
  const Window window = make_window(name, input, size, {op.strides.empty() ? size : op.strides, {}, op.padding});
  PoolShape shape{{}, x[0], x.last()};
  std::copy_n(window.begin(), spatial, shape.window.end() - spatial);
  return shape;
}

PoolShape describe(const char* name, const Pool& op, const Shape& x) { return describe(name, op, x, spatial_sizes(x)); }

Shape places_of(const PoolShape& shape, int spatial) {
  Ints sizes{shape.batch};
  for (int axis = 3 - spatial; axis < 3; ++axis) sizes.push_back(shape.window[static_cast<std::size_t>(axis)].output);
  sizes.push_back(shape.channels);
  return Shape(sizes);
}

Spec infer_pool(const char* name, const Pool& op, const Spec& x) {
  TW_CHECK_USER(x.rank() >= 3 && x.rank() <= 5, name, "x is [batch, spatial…, channels] with 1 to 3 spatial axes",
                "expected x of rank 3 to 5, got {}", x.shape);
  return {x.dtype, places_of(describe(name, op, x.shape), x.rank() - 2)};
}

Specs infer(const MaxPool& op, Inputs in) {
  TW_CHECK_USER(in[0].dtype != boolean, "max_pool", "booleans have no order: tw::cast(x, tw::u8)",
                "expected numbers, got {}", in[0].dtype);
  return {infer_pool("max_pool", op, in[0])};
}

Specs infer(const MaxPoolBackward& op, Inputs in) {
  TW_CHECK_INTERNAL(infer_pool("max_pool", op, in[0]) == in[1], "max_pool_backward", "dy {} does not fit x {}",
                    in[1].shape, in[0].shape);
  return {in[0]};
}

Specs infer(const MaxPoolSelect& op, Inputs in) {
  TW_CHECK_INTERNAL(in[0] == in[1], "max_pool_select", "g {} does not fit x {}", in[1].shape, in[0].shape);
  return {infer_pool("max_pool", op, in[0])};
}

Specs infer(const AvgPool& op, Inputs in) {
  TW_CHECK_USER(is_float(in[0].dtype), "avg_pool", "a mean of whole numbers is a fraction: tw::cast(x, tw::f32)",
                "expected a float dtype, got {}", in[0].dtype);
  return {infer_pool("avg_pool", op, in[0])};
}

Specs infer(const AvgPoolBackward& op, Inputs in) {
  Ints sizes{in[0].shape[0]};
  for (auto size : op.input) sizes.push_back(size);
  sizes.push_back(in[0].shape.last());
  const Spec dx{in[0].dtype, Shape(sizes)};
  TW_CHECK_INTERNAL(infer_pool("avg_pool", op, dx) == in[0], "avg_pool_backward", "dy {} does not fit x {}",
                    in[0].shape, dx.shape);
  return {dx};
}

void run(const MaxPool& op, Arrays in, Arrays out) {
  run_max_pool(describe("max_pool", op, in[0].shape()), in[0], out[0]);
}
void run(const MaxPoolSelect& op, Arrays in, Arrays out) {
  run_max_pool_select(describe("max_pool", op, in[0].shape()), in[0], in[1], out[0]);
}
std::int64_t workspace(const MaxPoolBackward& op, Inputs in) {
  const bool apart = lies_apart(describe("max_pool", op, in[0].shape), in[0].dtype);
  return apart ? 0 : in[1].size() * size_of(i32);
}
void run(const MaxPoolBackward& op, Arrays in, Arrays out, Scratch scratch) {
  run_max_pool_backward(describe("max_pool", op, in[0].shape()), in[0], in[1], out[0], scratch);
}
void run(const AvgPool& op, Arrays in, Arrays out) {
  run_avg_pool(describe("avg_pool", op, in[0].shape()), in[0], out[0]);
}
void run(const AvgPoolBackward& op, Arrays in, Arrays out) {
  run_avg_pool_backward(describe("avg_pool", op, out[0].shape()), in[0], out[0]);
}

// Where the maximum lies does not change with x, so nothing flows to the x of backward and select.
Keeps keeps(const MaxPool&, Needs) { return {.inputs = {0}, .outputs = {}}; }
Keeps keeps(const MaxPoolBackward&, Needs needs) {
  return {.inputs = needs[1] ? Positions{0} : Positions{}, .outputs = {}};
}
Keeps keeps(const MaxPoolSelect&, Needs needs) {
  return {.inputs = needs[1] ? Positions{0} : Positions{}, .outputs = {}};
}

Gradients gradient(const MaxPool& op, const Kept& kept, const Tensors& dy, Needs) {
  return {max_pool_backward(kept.input(0), dy[0], op)};
}
Gradients gradient(const MaxPoolBackward& op, const Kept& kept, const Tensors& dy, Needs needs) {
  return {Gradient(), needs[1] ? Gradient(max_pool_select(kept.input(0), dy[0], op)) : Gradient()};
}
Gradients gradient(const MaxPoolSelect& op, const Kept& kept, const Tensors& dy, Needs needs) {
  return {Gradient(), needs[1] ? Gradient(max_pool_backward(kept.input(0), dy[0], op)) : Gradient()};
}
Gradients gradient(const AvgPool& op, const Kept& kept, const Tensors& dy, Needs) {
  return {avg_pool_backward(dy[0], spatial_sizes(kept.input_spec(0).shape), op)};
}
Gradients gradient(const AvgPoolBackward& op, const Kept&, const Tensors& dy, Needs) { return {avg_pool(dy[0], op)}; }

template <class Op>
requires std::derived_from<Op, Pool> BatchStates batch_rule(const Op&, Inputs in, BatchStates& states,
                                                            std::int64_t examples) {
  return leading_axes_rule(in, states, examples, 1);
}

}  // namespace

TW_DEFINE_OP(max_pool, MaxPool)
TW_DEFINE_OP(max_pool_backward, MaxPoolBackward)
TW_DEFINE_OP(max_pool_select, MaxPoolSelect)
TW_DEFINE_OP(avg_pool, AvgPool)
TW_DEFINE_OP(avg_pool_backward, AvgPoolBackward)

Tensor max_pool(const Tensor& x, const Pool& options) { return apply(max_pool_info(), MaxPool{options}, {x})[0]; }
Tensor avg_pool(const Tensor& x, const Pool& options) { return apply(avg_pool_info(), AvgPool{options}, {x})[0]; }

Tensor max_pool_backward(const Tensor& x, const Tensor& dy, const Pool& options) {
  return apply(max_pool_backward_info(), MaxPoolBackward{options}, {x, dy})[0];
}
Tensor max_pool_select(const Tensor& x, const Tensor& g, const Pool& options) {
  return apply(max_pool_select_info(), MaxPoolSelect{options}, {x, g})[0];
}
Tensor avg_pool_backward(const Tensor& dy, const Ints& input, const Pool& options) {
  return apply(avg_pool_backward_info(), AvgPoolBackward{options, input}, {dy})[0];
}

}  // namespace thalweg
