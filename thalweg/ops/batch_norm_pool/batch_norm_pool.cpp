#include "thalweg/ops/batch_norm_pool/batch_norm_pool.h"

#include "thalweg/backend/cpu/kernels/batch_norm.h"
#include "thalweg/backend/cpu/kernels/batch_norm_pool.h"
#include "thalweg/core/check.h"
#include "thalweg/ops/batch_norm/batch_norm.h"
#include "thalweg/ops/batch_norm/gradients.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/pool/gradients.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

struct Forward : BatchNormPool {};   // x, scale, offset -> y, mean, variance, rstd
struct Backward : BatchNormPool {};  // x, scale, offset, mean, rstd, dy -> dx, dscale, doffset
TW_FIELDS(Forward, epsilon, size)
TW_FIELDS(Backward, epsilon, size)

// dx may stand where x does; the other results are written last.
[[maybe_unused]] bool in_place(const Backward&) { return true; }

Spec places_of(const BatchNormPool& op, const Spec& x) {
  TW_CHECK_INTERNAL(can_pool_batch_norm(x, op.size), "batch_norm_pool", "windows {} do not fit x {}", Shape(op.size),
                    x.shape);
  Spec places = x;
  for (int i = 0; i < op.size.size(); ++i) places.shape = places.shape.with(i + 1, x.shape[i + 1] / op.size[i]);
  return places;
}

// Inputs 1 … vectors belong to the channels of x.
void check_vectors(Inputs in, int vectors) {
  for (int i = 1; i <= vectors; ++i)
    TW_CHECK_INTERNAL((in[i] == Spec{in[0].dtype, {in[0].shape.last()}}), "batch_norm_pool", "input {} {} for x {}", i,
                      in[i].shape, in[0].shape);
}

Specs infer(const Forward& op, Inputs in) {
  check_vectors(in, 2);
  return {places_of(op, in[0]), in[1], in[1], in[1]};
}
Specs infer(const Backward& op, Inputs in) {
  check_vectors(in, 4);
  TW_CHECK_INTERNAL(in[5] == places_of(op, in[0]), "batch_norm_pool_backward", "dy {} does not fit x {}", in[5].shape,
                    in[0].shape);
  return {in[0], in[1], in[1]};
}

cpu::PoolTiles tiles_of(const BatchNormPool& op, const Shape& x) {
  const int spatial = op.size.size();
  const auto size = [&](int axis) { return axis < 0 ? 1 : x[axis + 1]; };
  const auto taps = [&](int axis) { return axis < 0 ? 1 : op.size[axis]; };
  return {.images = x[0] * size(spatial - 3),
          .height = size(spatial - 2),
          .width = size(spatial - 1),
          .channels = x.last(),
          .taps = {taps(spatial - 3), taps(spatial - 2), taps(spatial - 1)}};
}

std::int64_t workspace(const Forward& op, Inputs in) {
  return static_cast<std::int64_t>(
             cpu::batch_norm_workspace(tiles_of(op, in[0].shape).positions(), in[0].shape.last())) *
         size_of(in[0].dtype);
}
std::int64_t workspace(const Backward& op, Inputs in) {
  const auto [sums, larger] = cpu::batch_norm_pool_workspace(tiles_of(op, in[0].shape));
  return sums * size_of(in[0].dtype) + larger * static_cast<std::int64_t>(sizeof(std::uint16_t));
}

// f(TypeTag) of f32 or f64.
template <class F>
void with_type_of(const Array& x, F f) {
  if (x.dtype() == f64) return f(TypeTag<double>{});
  f(TypeTag<float>{});
}

void run(const Forward& op, Arrays in, Arrays out, Scratch scratch) {
  const cpu::PoolTiles tiles = tiles_of(op, in[0].shape());
  with_type_of(in[0], [&]<class T>(TypeTag<T>) {
    cpu::batch_norm_kernels<T>().statistics({.rows = tiles.positions(),
                                             .channels = tiles.channels,
                                             .epsilon = static_cast<T>(op.epsilon),
                                             .x = in[0].as<const T>(),
                                             .scale = nullptr,
                                             .offset = nullptr,
                                             .y = nullptr,
                                             .mean = out[1].as<T>(),
                                             .variance = out[2].as<T>(),
                                             .rstd = out[3].as<T>(),
                                             .workspace = reinterpret_cast<T*>(scratch.data())});
    cpu::batch_norm_pool_kernels<T>().forward({.tiles = tiles,
                                               .x = in[0].as<const T>(),
                                               .scale = in[1].as<const T>(),
                                               .offset = in[2].as<const T>(),
                                               .mean = out[1].as<const T>(),
                                               .rstd = out[3].as<const T>(),
                                               .y = out[0].as<T>()});
  });
}

void run(const Backward& op, Arrays in, Arrays out, Scratch scratch) {
  const cpu::PoolTiles tiles = tiles_of(op, in[0].shape());
  const std::int64_t sums = cpu::batch_norm_pool_workspace(tiles).sums * size_of(in[0].dtype());
  with_type_of(in[0], [&]<class T>(TypeTag<T>) {
    cpu::batch_norm_pool_kernels<T>().gradient({.tiles = tiles,
                                                .x = in[0].as<const T>(),
                                                .scale = in[1].as<const T>(),
                                                .offset = in[2].as<const T>(),
                                                .mean = in[3].as<const T>(),
                                                .rstd = in[4].as<const T>(),
                                                .dy = in[5].as<const T>(),
                                                .dx = out[0].as<T>(),
                                                .dscale = out[1].as<T>(),
                                                .doffset = out[2].as<T>(),
                                                .sums = reinterpret_cast<T*>(scratch.data()),
                                                .larger = reinterpret_cast<std::uint16_t*>(scratch.data() + sums)});
  });
}

Tensors reference(const Forward& op, const Tensors& in) {
  const auto [y, mean, variance] = batch_norm(in[0], in[1], in[2], {op.epsilon});
  return {max_pool(y, {.size = op.size}), mean, variance, rsqrt(variance + op.epsilon)};
}

Tensors reference(const Backward& op, const Tensors& in) {
  const Tensor y = batch_norm(in[0], in[1], in[2], {op.epsilon}).y;
  const auto [x, scale, offset] =
      batch_norm_backward(in[0], in[1], in[3], in[4], max_pool_backward(y, in[5], {.size = op.size}), op.epsilon);
  return {x, scale, offset};
}

}  // namespace

TW_DEFINE_OP(batch_norm_pool, Forward)
TW_DEFINE_OP(batch_norm_pool_backward, Backward)

bool can_pool_batch_norm(const Spec& x, const Ints& size) {
  if ((x.dtype != f32 && x.dtype != f64) || x.size() == 0 || size.empty() || size.size() > 3) return false;
  if (x.rank() != size.size() + 2) return false;
  std::int64_t taps = 1;
  for (int i = 0; i < size.size(); ++i) {
    if (size[i] < 1 || x.shape[i + 1] % size[i] != 0) return false;
    if (size[i] > cpu::most_tile_taps || (taps *= size[i]) > cpu::most_tile_taps) return false;
  }
  return true;
}

BatchNormPoolResult batch_norm_pool(const Tensor& x, const Tensor& scale, const Tensor& offset,
                                    const BatchNormPool& options) {
  const Tensors out = apply(batch_norm_pool_info(), Forward{options}, {x, scale, offset});
  return {out[0], out[1], out[3]};
}

BatchNormPoolGradients batch_norm_pool_backward(const Tensor& x, const Tensor& scale, const Tensor& offset,
                                                const Tensor& mean, const Tensor& rstd, const Tensor& dy,
                                                const BatchNormPool& options) {
  const Tensors out = apply(batch_norm_pool_backward_info(), Backward{options}, {x, scale, offset, mean, rstd, dy});
  return {out[0], out[1], out[2]};
}

}  // namespace thalweg
