// Largest values of windows that do not overlap, in f32 or 16 bits, vectors of channels at a time: every input position
// belongs to one place at most, so that the backward pass writes each once.
#include <algorithm>
#include <cstring>

#include "thalweg/backend/cpu/targets.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/pool/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/ops/pool/apart.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// After foreach_target: compiled once per target.
#include "thalweg/backend/cpu/narrow-inl.h"

#ifndef THALWEG_OPS_POOL_APART_SOURCE
#define THALWEG_OPS_POOL_APART_SOURCE
namespace thalweg {
namespace {

constexpr std::int64_t most_taps = 64;
constexpr std::int64_t task_elements = 32 * 1024;

// Element offsets of what one place covers.
struct Taps {
  std::int64_t offsets[most_taps];
  int count = 0;
};

Taps taps_of(const PoolShape& shape, const PoolPlace& place) {
  Taps taps;
  const auto& [d, h, w] = shape.window;
  const PoolRange in_d = covered(d, place.at[0]), in_h = covered(h, place.at[1]), in_w = covered(w, place.at[2]);
  for (std::int64_t i = in_d.begin; i < in_d.end; ++i)
    for (std::int64_t j = in_h.begin; j < in_h.end; ++j)
      for (std::int64_t k = in_w.begin; k < in_w.end; ++k)
        taps.offsets[taps.count++] = (((place.image * d.input + i) * h.input + j) * w.input + k) * shape.channels;
  return taps;
}

}  // namespace
}  // namespace thalweg
#endif

HWY_BEFORE_NAMESPACE();
namespace thalweg {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using math::load_as, math::store_as;

// body(vector tag, channel) over all channels; the last whole vector may overlap the one before.
template <class Body>
void for_vectors(std::int64_t channels, Body body) {
  const hn::ScalableTag<float> wide;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  if (channels < lanes) {
    const hn::CappedTag<float, 1> one;
    for (std::int64_t c = 0; c < channels; ++c) body(one, c);
    return;
  }
  for (std::int64_t c = 0; c + lanes <= channels; c += lanes) body(wide, c);
  if (channels % lanes != 0) body(wide, channels - lanes);
}

// A NaN is larger than any number.
template <class S>
void forward(const PoolShape& shape, const PoolPlace& place, const S* x, S* y) {
  const Taps taps = taps_of(shape, place);
  for_vectors(shape.channels, [&](auto d, std::int64_t c) {
    auto best = load_as(d, x + taps.offsets[0] + c);
    for (int t = 1; t < taps.count; ++t) {
      const auto value = load_as(d, x + taps.offsets[t] + c);
      best = hn::IfThenElse(hn::Or(hn::Gt(value, best), hn::Ne(value, value)), value, best);
    }
    store_as(d, best, y + c);
  });
}

// dy goes to the first of the largest values, zeros to the others.
template <class S>
void backward(const PoolShape& shape, const PoolPlace& place, const S* x, const S* dy, S* dx) {
  const Taps taps = taps_of(shape, place);
  for_vectors(shape.channels, [&](auto d, std::int64_t c) {
    auto best = load_as(d, x + taps.offsets[0] + c), chosen = hn::Zero(d);
    for (int t = 1; t < taps.count; ++t) {
      const auto value = load_as(d, x + taps.offsets[t] + c);
      const auto first_nan = hn::And(hn::Ne(value, value), hn::Eq(best, best));
      const auto larger = hn::Or(hn::Gt(value, best), first_nan);
      best = hn::IfThenElse(larger, value, best);
      chosen = hn::IfThenElse(larger, hn::Set(d, static_cast<float>(t)), chosen);
    }
    const auto gradient = load_as(d, dy + c);
    for (int t = 0; t < taps.count; ++t)
      store_as(d, hn::IfThenElseZero(hn::Eq(chosen, hn::Set(d, static_cast<float>(t))), gradient),
               dx + taps.offsets[t] + c);
  });
}

template <class S>
void forward_places(const PoolShape& shape, std::int64_t begin, std::int64_t end, const void* x, void* y) {
  for (std::int64_t i = begin; i < end; ++i)
    forward(shape, place_of(i, shape.window, &WindowAxis::output), static_cast<const S*>(x),
            static_cast<S*>(y) + i * shape.channels);
}

template <class S>
void backward_places(const PoolShape& shape, std::int64_t begin, std::int64_t end, const void* x, const void* dy,
                     void* dx) {
  for (std::int64_t i = begin; i < end; ++i)
    backward(shape, place_of(i, shape.window, &WindowAxis::output), static_cast<const S*>(x),
             static_cast<const S*>(dy) + i * shape.channels, static_cast<S*>(dx));
}

// f(TypeTag<S>) of f32, f16 or bf16.
template <class F>
void with_storage(DType dtype, F f) {
  if (dtype == f16) return f(TypeTag<Half>{});
  if (dtype == bf16) return f(TypeTag<BFloat16>{});
  f(TypeTag<float>{});
}

void forward_all(DType dtype, const PoolShape& shape, std::int64_t begin, std::int64_t end, const void* x, void* y) {
  with_storage(dtype, [&]<class S>(TypeTag<S>) { forward_places<S>(shape, begin, end, x, y); });
}

void backward_all(DType dtype, const PoolShape& shape, std::int64_t begin, std::int64_t end, const void* x,
                  const void* dy, void* dx) {
  with_storage(dtype, [&]<class S>(TypeTag<S>) { backward_places<S>(shape, begin, end, x, dy, dx); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace thalweg
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg {
namespace {

HWY_EXPORT(forward_all);
HWY_EXPORT(backward_all);

// body(begin, end) for ranges of places, on all threads.
template <class Body>
void for_places(const PoolShape& shape, Body body) {
  const std::int64_t taps = shape.window[0].taps * shape.window[1].taps * shape.window[2].taps;
  parallel_ranges(shape.places(),
                  std::max<std::int64_t>(1, task_elements / std::max<std::int64_t>(1, taps * shape.channels)), body);
}

bool covers_all(const PoolShape& shape) {
  return std::all_of(shape.window.begin(), shape.window.end(), [](const WindowAxis& axis) {
    return axis.taps == axis.stride && axis.output * axis.stride - axis.pad_before >= axis.input;
  });
}

}  // namespace

bool lies_apart(const PoolShape& shape, DType dtype) {
  const auto& window = shape.window;
  return (dtype == f32 || dtype == f16 || dtype == bf16) &&
         window[0].taps * window[1].taps * window[2].taps <= most_taps &&
         std::all_of(window.begin(), window.end(), [](const WindowAxis& axis) { return axis.stride >= axis.taps; });
}

void run_max_pool_apart(const PoolShape& shape, const Array& x, const Array& y) {
  for_places(shape, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(forward_all)(x.dtype(), shape, begin, end, x.data, y.data);
  });
}

void run_max_pool_apart_backward(const PoolShape& shape, const Array& x, const Array& dy, const Array& dx) {
  const std::int64_t width = size_of(dx.dtype());
  if (!covers_all(shape))
    parallel_ranges(dx.size(), task_elements, [&](std::int64_t begin, std::int64_t end) {
      std::memset(dx.as<std::byte>() + begin * width, 0, static_cast<std::size_t>((end - begin) * width));
    });
  for_places(shape, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(backward_all)(x.dtype(), shape, begin, end, x.data, dy.data, dx.data);
  });
}

}  // namespace thalweg
#endif
