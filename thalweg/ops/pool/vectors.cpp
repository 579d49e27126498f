// Largest values of windows in f32 or 16 bits, vectors of channels at a time. Every result is made by one task from all
// that reach it. Where windows do not overlap, an input position belongs to one place at most, which can write it.
#include <algorithm>
#include <cstring>

#include "thalweg/backend/cpu/targets.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/pool/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/ops/pool/vectors.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// After foreach_target: compiled once per target.
#include "thalweg/backend/cpu/narrow-inl.h"

#ifndef THALWEG_OPS_POOL_VECTORS_SOURCE
#define THALWEG_OPS_POOL_VECTORS_SOURCE
namespace thalweg {
namespace {

constexpr std::int64_t most_taps = 64;
constexpr std::int64_t task_elements = 32 * 1024;

// Element offsets of what one place covers, or of the places that cover a position, and which tap of the window each
// is.
struct Taps {
  std::int64_t offsets[most_taps];
  float numbers[most_taps];
  int count = 0;

  void add(std::int64_t offset, std::int64_t number) {
    offsets[count] = offset;
    numbers[count++] = static_cast<float>(number);
  }
};

// As for_box, index_of and tap_of would have it, with less arithmetic: this runs for every place.
Taps taps_of(const PoolShape& shape, const PoolPlace& place) {
  Taps taps;
  const auto& [d, h, w] = shape.window;
  const PoolRange in_d = covered(d, place.at[0]), in_h = covered(h, place.at[1]), in_w = covered(w, place.at[2]);
  const auto start = [&](int axis, const WindowAxis& along) {
    return place.at[axis] * along.stride - along.pad_before;
  };
  const std::int64_t first_d = start(0, d), first_h = start(1, h), first_w = start(2, w);
  for (std::int64_t i = in_d.begin; i < in_d.end; ++i)
    for (std::int64_t j = in_h.begin; j < in_h.end; ++j) {
      const std::int64_t row = ((place.image * d.input + i) * h.input + j) * w.input;
      const std::int64_t tap = ((i - first_d) * h.taps + j - first_h) * w.taps - first_w;
      for (std::int64_t k = in_w.begin; k < in_w.end; ++k) taps.add((row + k) * shape.channels, tap + k);
    }
  return taps;
}

Taps places_over(const PoolShape& shape, const PoolPlace& position) {
  Taps taps;
  for_box(position, shape.window, covering, [&](const PoolPlace& place) {
    taps.add(index_of(place, shape.window, &WindowAxis::output) * shape.channels,
             tap_of(position, place, shape.window));
  });
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

// The number of the first of the largest values.
template <class D, class S>
hn::Vec<D> largest_tap(D d, const Taps& taps, const S* x) {
  auto best = load_as(d, x + taps.offsets[0]), chosen = hn::Set(d, taps.numbers[0]);
  for (int t = 1; t < taps.count; ++t) {
    const auto value = load_as(d, x + taps.offsets[t]);
    const auto first_nan = hn::And(hn::Ne(value, value), hn::Eq(best, best));
    const auto larger = hn::Or(hn::Gt(value, best), first_nan);
    best = hn::IfThenElse(larger, value, best);
    chosen = hn::IfThenElse(larger, hn::Set(d, taps.numbers[t]), chosen);
  }
  return chosen;
}

// gradient where the number is the chosen one, 0 elsewhere
template <class D, class V>
HWY_INLINE V if_chosen(D d, V chosen, float number, V gradient) {
  return hn::IfThenElseZero(hn::Eq(chosen, hn::Set(d, number)), gradient);
}

// dy goes to the first of the largest values, zeros to the others.
template <class S>
void backward(const PoolShape& shape, const PoolPlace& place, const S* x, const S* dy, S* dx) {
  const Taps taps = taps_of(shape, place);
  for_vectors(shape.channels, [&](auto d, std::int64_t c) {
    const auto chosen = largest_tap(d, taps, x + c), gradient = load_as(d, dy + c);
    for (int t = 0; t < taps.count; ++t)
      store_as(d, if_chosen(d, chosen, taps.numbers[t], gradient), dx + taps.offsets[t] + c);
  });
}

template <class S>
void find_taps(const PoolShape& shape, const PoolPlace& place, const S* x, float* chosen) {
  const Taps taps = taps_of(shape, place);
  for_vectors(shape.channels, [&](auto d, std::int64_t c) { hn::StoreU(largest_tap(d, taps, x + c), d, chosen + c); });
}

// dx of one position: the sum of dy over the places that chose it. chosen, dy [places, channels]
template <class S>
void sum_places(const PoolShape& shape, const PoolPlace& position, const float* chosen, const S* dy, S* dx) {
  const Taps places = places_over(shape, position);
  for_vectors(shape.channels, [&](auto d, std::int64_t c) {
    auto sum = hn::Zero(d);
    for (int k = 0; k < places.count; ++k) {
      const std::int64_t at = places.offsets[k] + c;
      sum = hn::Add(sum, if_chosen(d, hn::LoadU(d, chosen + at), places.numbers[k], load_as(d, dy + at)));
    }
    store_as(d, sum, dx + c);
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

template <class S>
void find_taps_of_places(const PoolShape& shape, std::int64_t begin, std::int64_t end, const void* x, float* chosen) {
  for (std::int64_t i = begin; i < end; ++i)
    find_taps(shape, place_of(i, shape.window, &WindowAxis::output), static_cast<const S*>(x),
              chosen + i * shape.channels);
}

template <class S>
void sum_places_of_positions(const PoolShape& shape, std::int64_t begin, std::int64_t end, const float* chosen,
                             const void* dy, void* dx) {
  for (std::int64_t i = begin; i < end; ++i)
    sum_places(shape, place_of(i, shape.window, &WindowAxis::input), chosen, static_cast<const S*>(dy),
               static_cast<S*>(dx) + i * shape.channels);
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

void find_all_taps(DType dtype, const PoolShape& shape, std::int64_t begin, std::int64_t end, const void* x,
                   float* chosen) {
  with_storage(dtype, [&]<class S>(TypeTag<S>) { find_taps_of_places<S>(shape, begin, end, x, chosen); });
}

void sum_all_places(DType dtype, const PoolShape& shape, std::int64_t begin, std::int64_t end, const float* chosen,
                    const void* dy, void* dx) {
  with_storage(dtype, [&]<class S>(TypeTag<S>) { sum_places_of_positions<S>(shape, begin, end, chosen, dy, dx); });
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
HWY_EXPORT(find_all_taps);
HWY_EXPORT(sum_all_places);

std::int64_t window_taps(const PoolShape& shape) {
  return shape.window[0].taps * shape.window[1].taps * shape.window[2].taps;
}

// body(begin, end) for ranges of as many places or positions, on all threads.
template <class Body>
void for_ranges(std::int64_t count, const PoolShape& shape, Body body) {
  const std::int64_t each = std::max<std::int64_t>(1, window_taps(shape) * shape.channels);
  parallel_ranges(count, std::max<std::int64_t>(1, task_elements / each), body);
}

bool covers_all(const PoolShape& shape) {
  return std::all_of(shape.window.begin(), shape.window.end(), [](const WindowAxis& axis) {
    return axis.taps == axis.stride && axis.output * axis.stride - axis.pad_before >= axis.input;
  });
}

}  // namespace

bool takes_vectors(const PoolShape& shape, DType dtype) {
  return (dtype == f32 || dtype == f16 || dtype == bf16) && window_taps(shape) <= most_taps;
}

bool lies_apart(const PoolShape& shape, DType dtype) {
  return takes_vectors(shape, dtype) && std::all_of(shape.window.begin(), shape.window.end(),
                                                    [](const WindowAxis& axis) { return axis.stride >= axis.taps; });
}

void run_max_pool_vectors(const PoolShape& shape, const Array& x, const Array& y) {
  for_ranges(shape.places(), shape, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(forward_all)(x.dtype(), shape, begin, end, x.data, y.data);
  });
}

void run_max_pool_backward_apart(const PoolShape& shape, const Array& x, const Array& dy, const Array& dx) {
  const std::int64_t width = size_of(dx.dtype());
  if (!covers_all(shape))
    parallel_ranges(dx.size(), task_elements, [&](std::int64_t begin, std::int64_t end) {
      std::memset(dx.as<std::byte>() + begin * width, 0, static_cast<std::size_t>((end - begin) * width));
    });
  for_ranges(shape.places(), shape, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(backward_all)(x.dtype(), shape, begin, end, x.data, dy.data, dx.data);
  });
}

void run_max_pool_backward_overlapping(const PoolShape& shape, const Array& x, const Array& dy, const Array& dx,
                                       Scratch scratch) {
  auto* chosen = reinterpret_cast<float*>(scratch.data());  // [places, channels]
  for_ranges(shape.places(), shape, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(find_all_taps)(x.dtype(), shape, begin, end, x.data, chosen);
  });
  for_ranges(shape.inputs(), shape, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(sum_all_places)(x.dtype(), shape, begin, end, chosen, dy.data, dx.data);
  });
}

}  // namespace thalweg
#endif
