// Largest values of windows in f32 or 16 bits, vectors of channels at a time. Every result is made by one task from all
// that reach it. Where windows do not overlap, an input position belongs to one place at most, which can write it.
#include <algorithm>
#include <cstring>
#include <vector>

#include "thalweg/backend/cpu/targets.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/pool/taps.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/ops/pool/vectors.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// After foreach_target: compiled once per target.
#include "thalweg/backend/cpu/narrow-inl.h"
#include "thalweg/backend/cpu/unroll-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using cpu::HWY_NAMESPACE::unroll;
using math::load_as, math::store_as;

// The bits of as many neighbours, one in each lane of 32 bits.
template <class D, class S>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> load_bits(D d, const S* from) {
  const hn::RebindToUnsigned<D> u;
  if constexpr (sizeof(S) == sizeof(float))
    return hn::BitCast(u, hn::LoadU(d, from));
  else
    return hn::PromoteTo(u, hn::LoadU(hn::Rebind<std::uint16_t, D>(), &from->bits));
}

template <class D, class S>
HWY_INLINE void store_bits(D d, hn::Vec<hn::RebindToUnsigned<D>> bits, S* to) {
  const hn::Rebind<std::uint16_t, D> narrow;
  if constexpr (sizeof(S) == sizeof(float))
    hn::StoreU(hn::BitCast(d, bits), d, to);
  else
    hn::StoreU(hn::TruncateTo(narrow, bits), narrow, &to->bits);
}

// A value that the type holds as it is.
template <class D, class S>
HWY_INLINE void store_exact(D d, hn::Vec<D> x, S* to) {
  if constexpr (std::is_same_v<S, BFloat16>)
    store_bits(d, hn::ShiftRight<16>(hn::BitCast(hn::RebindToUnsigned<D>(), x)), to);
  else
    store_as(d, x, to);
}

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

// f(1), f(2), … f(taps.count - 1), with constants for windows of 2 x 2 and 3 x 3.
template <class F>
HWY_INLINE void for_other_taps(const Taps& taps, F f) {
  const auto next = [&](auto t) THALWEG_INLINE_LAMBDA { f(t + 1); };
  if (taps.count == 4) return unroll<3>(next);
  if (taps.count == 9) return unroll<8>(next);
  for (int t = 1; t < taps.count; ++t) f(t);
}

// A NaN is larger than any number, and the first one than those behind it. (Ne is false for them in some targets.)
template <class V>
HWY_INLINE auto is_larger(V value, V best) {
  return hn::AndNot(hn::Le(value, best), hn::Eq(best, best));
}

template <class S>
void forward(std::int64_t channels, const Taps& taps, const S* x, S* y) {
  for_vectors(channels, [&](auto d, std::int64_t c) THALWEG_INLINE_LAMBDA {
    auto best = load_as(d, x + taps.offsets[0] + c);
    for_other_taps(taps, [&](int t) THALWEG_INLINE_LAMBDA {
      const auto value = load_as(d, x + taps.offsets[t] + c);
      best = hn::IfThenElse(is_larger(value, best), value, best);
    });
    store_exact(d, best, y + c);
  });
}

// The number of the first of the largest values.
template <class D, class S>
HWY_INLINE hn::Vec<D> largest_tap(D d, const Taps& taps, const S* x) {
  auto best = load_as(d, x + taps.offsets[0]), chosen = hn::Set(d, taps.numbers[0]);
  for_other_taps(taps, [&](int t) THALWEG_INLINE_LAMBDA {
    const auto value = load_as(d, x + taps.offsets[t]);
    const auto larger = is_larger(value, best);
    best = hn::IfThenElse(larger, value, best);
    chosen = hn::IfThenElse(larger, hn::Set(d, taps.numbers[t]), chosen);
  });
  return chosen;
}

// gradient where the number is the chosen one, 0 elsewhere
template <class D, class V>
HWY_INLINE V if_chosen(D d, V chosen, float number, V gradient) {
  return hn::IfThenElseZero(hn::Eq(chosen, hn::Set(d, number)), gradient);
}

// dy goes to the first of the largest values, zeros to the others.
template <class S>
void backward(std::int64_t channels, const Taps& taps, const S* x, const S* dy, S* dx) {
  for_vectors(channels, [&](auto d, std::int64_t c) THALWEG_INLINE_LAMBDA {
    const auto chosen = largest_tap(d, taps, x + c);
    const auto gradient = load_bits(d, dy + c);
    const auto write = [&](int t) THALWEG_INLINE_LAMBDA {
      const auto here =
          hn::RebindMask(hn::RebindToUnsigned<decltype(d)>(), hn::Eq(chosen, hn::Set(d, taps.numbers[t])));
      store_bits(d, hn::IfThenElseZero(here, gradient), dx + taps.offsets[t] + c);
    };
    write(0);
    for_other_taps(taps, write);
  });
}

template <class S>
void find_taps(std::int64_t channels, const Taps& taps, const S* x, float* chosen) {
  for_vectors(channels, [&](auto d, std::int64_t c) { hn::StoreU(largest_tap(d, taps, x + c), d, chosen + c); });
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
  PlaceWalk walk(shape, begin);
  for (std::int64_t i = begin; i < end; ++i, walk.next())
    forward(shape.channels, walk.taps(), static_cast<const S*>(x), static_cast<S*>(y) + i * shape.channels);
}

template <class S>
void backward_places(const PoolShape& shape, std::int64_t begin, std::int64_t end, const void* x, const void* dy,
                     void* dx) {
  PlaceWalk walk(shape, begin);
  for (std::int64_t i = begin; i < end; ++i, walk.next())
    backward(shape.channels, walk.taps(), static_cast<const S*>(x), static_cast<const S*>(dy) + i * shape.channels,
             static_cast<S*>(dx));
}

template <class S>
void find_taps_of_places(const PoolShape& shape, std::int64_t begin, std::int64_t end, const void* x, float* chosen) {
  PlaceWalk walk(shape, begin);
  for (std::int64_t i = begin; i < end; ++i, walk.next())
    find_taps(shape.channels, walk.taps(), static_cast<const S*>(x), chosen + i * shape.channels);
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

constexpr std::int64_t task_elements = 32 * 1024;

std::int64_t window_taps(const PoolShape& shape) {
  return shape.window[0].taps * shape.window[1].taps * shape.window[2].taps;
}

// body(begin, end) for ranges of as many places or positions, on all threads.
template <class Body>
void for_ranges(std::int64_t count, const PoolShape& shape, Body body) {
  const std::int64_t each = std::max<std::int64_t>(1, window_taps(shape) * shape.channels);
  parallel_ranges(count, std::max<std::int64_t>(1, task_elements / each), body);
}

// The positions along an axis that no place covers.
std::vector<std::int64_t> uncovered(const WindowAxis& axis) {
  std::vector<std::int64_t> positions;
  for (std::int64_t p = 0; p < axis.input; ++p)
    if (const PoolRange places = covering(axis, p); places.begin >= places.end) positions.push_back(p);
  return positions;
}

// Zeros where no place reaches; the places write all the rest.
void clear_uncovered(const PoolShape& shape, const Array& dx) {
  const auto& [d, h, w] = shape.window;
  const std::vector<std::int64_t> slices = uncovered(d), rows = uncovered(h), columns = uncovered(w);
  if (slices.empty() && rows.empty() && columns.empty()) return;
  const auto contains = [](const std::vector<std::int64_t>& sorted, std::int64_t position) {
    return std::binary_search(sorted.begin(), sorted.end(), position);
  };
  const std::int64_t pixel = shape.channels * size_of(dx.dtype());
  const auto clear_row = [&](std::int64_t row) {
    std::byte* to = dx.as<std::byte>() + row * w.input * pixel;
    if (contains(rows, row % h.input) || contains(slices, row / h.input % d.input))
      std::memset(to, 0, static_cast<std::size_t>(w.input * pixel));
    else
      for (const std::int64_t column : columns) std::memset(to + column * pixel, 0, static_cast<std::size_t>(pixel));
  };
  const std::int64_t grain =
      std::max<std::int64_t>(1, task_elements / std::max<std::int64_t>(1, w.input * shape.channels));
  parallel_ranges(shape.batch * d.input * h.input, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) clear_row(row);
  });
}

}  // namespace

bool takes_vectors(const PoolShape& shape, DType dtype) {
  return (dtype == f32 || dtype == f16 || dtype == bf16) && window_taps(shape) <= most_pool_taps;
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
  clear_uncovered(shape, dx);
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
