#include "thalweg/backend/cpu/kernels/batch_norm_pool.h"

#include "thalweg/backend/cpu/kernels/blocks.h"
#include "thalweg/backend/cpu/targets.h"
#include "thalweg/core/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/backend/cpu/kernels/batch_norm_pool.cpp"
#include <hwy/foreach_target.h>
// After foreach_target: compiled once per target.
#include "thalweg/backend/cpu/kernels/columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {
namespace {

// How far the elements of a window lie from its first.
struct Taps {
  std::int64_t offset[most_tile_taps];
  int count = 0;

  explicit Taps(const PoolTiles& tiles) {
    for (std::int64_t i = 0; i < tiles.taps[0]; ++i)
      for (std::int64_t j = 0; j < tiles.taps[1]; ++j)
        for (std::int64_t k = 0; k < tiles.taps[2]; ++k)
          offset[count++] = ((i * tiles.height + j) * tiles.width + k) * tiles.channels;
  }
};

// The first of the largest values of a window, a NaN being larger than any number.
template <class T>
struct Largest {
  Lanes<T> value, normal, tap;
};

template <class T>
HWY_INLINE void take_larger(const Lanes<T>& value, const Lanes<T>& normal, T tap, Largest<T>& largest) {
  const typename Lanes<T>::D d;
  HWY_UNROLL(16)
  for (int i = 0; i < Lanes<T>::kParts; ++i) {
    const auto v = value.part[i], best = largest.value.part[i];
    const auto larger = hn::Or(hn::Gt(v, best), hn::And(hn::Ne(v, v), hn::Eq(best, best)));
    largest.value.part[i] = hn::IfThenElse(larger, v, best);
    largest.normal.part[i] = hn::IfThenElse(larger, normal.part[i], largest.normal.part[i]);
    largest.tap.part[i] = hn::IfThenElse(larger, hn::Set(d, tap), largest.tap.part[i]);
  }
}

// x where tap says so, 0 elsewhere.
template <class T>
HWY_INLINE Lanes<T> where_tap_is(T tap, const Lanes<T>& taps, const Lanes<T>& x) {
  const typename Lanes<T>::D d;
  Lanes<T> out;
  HWY_UNROLL(16)
  for (int i = 0; i < Lanes<T>::kParts; ++i)
    out.part[i] = hn::IfThenElseZero(hn::Eq(taps.part[i], hn::Set(d, tap)), x.part[i]);
  return out;
}

// x: the first element of the window. Norm: what has mean, rstd, scale and offset.
template <class T, class Chunk, class Norm>
HWY_INLINE Largest<T> find_largest(Chunk chunk, const Taps& taps, const Norm& norm, const T* x) {
  const Lanes<T> mean = chunk.load(norm.mean), rstd = chunk.load(norm.rstd);
  const Lanes<T> scale = chunk.load(norm.scale), offset = chunk.load(norm.offset);
  const Lanes<T> first = (chunk.load(x) - mean) * rstd;
  Largest<T> largest{first * scale + offset, first, Lanes<T>(T(0))};
  for (int t = 1; t < taps.count; ++t) {
    const Lanes<T> normal = (chunk.load(x + taps.offset[t]) - mean) * rstd;
    take_larger(normal * scale + offset, normal, static_cast<T>(t), largest);
  }
  return largest;
}

// body(chunk, first element of the window, first of its place) for all windows of rows [begin, end).
template <class T, class Body>
HWY_INLINE void for_each_window(const PoolTiles& tiles, std::int64_t begin, std::int64_t end, Body body) {
  const std::int64_t n = tiles.channels, high = tiles.height / tiles.taps[1], windows = tiles.windows();
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t line = row / high * tiles.taps[0] * tiles.height + row % high * tiles.taps[1];
    for (std::int64_t window = 0; window < windows; ++window) {
      const std::int64_t x = (line * tiles.width + window * tiles.taps[2]) * n, place = (row * windows + window) * n;
      for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR { body(chunk, x, place); });
    }
  }
}

std::int64_t rows_of_a_task(const PoolTiles& tiles) {
  return rows_per_task(tiles.positions() / tiles.rows() * tiles.channels);
}

template <class T>
void batch_norm_pool(const BatchNormPool<T>& a) {
  const Taps taps(a.tiles);
  parallel_ranges(a.tiles.rows(), rows_of_a_task(a.tiles), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for_each_window<T>(a.tiles, begin, end, [&](auto chunk, std::int64_t x, std::int64_t place) HWY_ATTR {
      chunk.store(find_largest(chunk, taps, a, a.x + x).value, a.y + place);
    });
  });
}

// dscale [channels], doffset [channels] = sums of dy * normal and of dy; only the largest of a window have a dy.
template <class T>
void sum_window_gradients(const BatchNormPoolGradient<T>& a, const Taps& taps) {
  const RowBlocks blocks(a.tiles.rows());
  const std::int64_t n = a.tiles.channels, stride = 2 * n;
  parallel_for(blocks.count(), [&](std::int64_t i) HWY_ATTR {
    T *dscale = a.workspace + i * stride, *doffset = dscale + n;
    std::fill_n(dscale, stride, T(0));
    for_each_window<T>(a.tiles, blocks.begin(i), blocks.end(i),
                       [&](auto chunk, std::int64_t x, std::int64_t place) HWY_ATTR {
                         const Lanes<T> upstream = chunk.load(a.dy + place);
                         add_to(chunk, upstream * find_largest(chunk, taps, a, a.x + x).normal, dscale);
                         add_to(chunk, upstream, doffset);
                       });
  });
  sum_blocks_parallel(a.workspace, blocks.count(), stride, n, a.dscale);
  sum_blocks_parallel(a.workspace + n, blocks.count(), stride, n, a.doffset);
}

template <class T>
void batch_norm_pool_gradient(const BatchNormPoolGradient<T>& a) {
  const Taps taps(a.tiles);
  sum_window_gradients(a, taps);
  const std::int64_t n = a.tiles.channels;
  T *g_mean = a.workspace, *g_normal_mean = a.workspace + n;  // the partial sums are no longer needed
  gradient_means(a.tiles.positions(), n, a.scale, a.dscale, a.doffset, g_mean, g_normal_mean);
  parallel_ranges(a.tiles.rows(), rows_of_a_task(a.tiles), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for_each_window<T>(a.tiles, begin, end, [&](auto chunk, std::int64_t x, std::int64_t place) HWY_ATTR {
      const Lanes<T> chosen = find_largest(chunk, taps, a, a.x + x).tap, mean = chunk.load(a.mean);
      const Lanes<T> rstd = chunk.load(a.rstd), g = chunk.load(a.dy + place) * chunk.load(a.scale);
      for (int t = 0; t < taps.count; ++t) {
        const std::int64_t at = x + taps.offset[t];
        const Lanes<T> normal = (chunk.load(a.x + at) - mean) * rstd, here = where_tap_is(static_cast<T>(t), chosen, g);
        chunk.store(rstd * (here - chunk.load(g_mean) - normal * chunk.load(g_normal_mean)), a.dx + at);
      }
    });
  });
}

template <class T>
constexpr BatchNormPoolKernels<T> kTable{batch_norm_pool<T>, batch_norm_pool_gradient<T>};

}  // namespace

const BatchNormPoolKernels<float>* batch_norm_pool_f32() { return &kTable<float>; }
const BatchNormPoolKernels<double>* batch_norm_pool_f64() { return &kTable<double>; }

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg::cpu {

std::size_t batch_norm_pool_workspace(const PoolTiles& tiles) {
  return static_cast<std::size_t>(RowBlocks(tiles.rows()).count() * 2 * tiles.channels);
}

HWY_EXPORT(batch_norm_pool_f32);
HWY_EXPORT(batch_norm_pool_f64);

template <>
const BatchNormPoolKernels<float>& batch_norm_pool_kernels() {
  return *HWY_DYNAMIC_DISPATCH(batch_norm_pool_f32)();
}

template <>
const BatchNormPoolKernels<double>& batch_norm_pool_kernels() {
  return *HWY_DYNAMIC_DISPATCH(batch_norm_pool_f64)();
}

}  // namespace thalweg::cpu
#endif
