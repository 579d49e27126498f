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

using Bits = std::uint16_t;  // one for each of the lanes
static_assert(kLanes == 16);

// The largest value of a window so far, the first of equals; a NaN is larger than any number.
template <class T>
struct Largest {
  Lanes<T> value, normal;
};

// Takes the value where it is larger. Tells where.
template <class T>
HWY_INLINE Bits take_larger(const Lanes<T>& value, const Lanes<T>& normal, Largest<T>& largest) {
  const typename Lanes<T>::D d;
  std::uint64_t bits = 0;
  HWY_UNROLL(16)
  for (int i = 0; i < Lanes<T>::kParts; ++i) {
    const auto best = largest.value.part[i];
    const auto larger = hn::AndNot(hn::Le(value.part[i], best), hn::Eq(best, best));
    largest.value.part[i] = hn::IfThenElse(larger, value.part[i], best);
    largest.normal.part[i] = hn::IfThenElse(larger, normal.part[i], largest.normal.part[i]);
    std::uint64_t part = 0;
    hn::StoreMaskBits(d, larger, reinterpret_cast<std::uint8_t*>(&part));
    bits |= part << (i * Lanes<T>::kWidth);
  }
  return static_cast<Bits>(bits);
}

// x in the lanes of the bits, 0 in the others.
template <class T>
HWY_INLINE Lanes<T> where_set(Bits bits, const Lanes<T>& x) {
  const typename Lanes<T>::D d;
  Lanes<T> out;
  HWY_UNROLL(16)
  for (int i = 0; i < Lanes<T>::kParts; ++i) {
    const std::uint64_t part = static_cast<std::uint64_t>(bits) >> (i * Lanes<T>::kWidth);
    out.part[i] = hn::IfThenElseZero(hn::LoadMaskBits(d, reinterpret_cast<const std::uint8_t*>(&part)), x.part[i]);
  }
  return out;
}

// x: the first element of the window. Norm: what has mean, rstd, scale and offset. seen(tap, bits): where the value of
// the tap is larger than those of the taps before it; not called for tap 0.
template <class T, class Chunk, class Norm, class Seen>
HWY_INLINE Largest<T> find_largest(Chunk chunk, const Taps& taps, const Norm& norm, const T* x, Seen seen) {
  const Lanes<T> mean = chunk.load(norm.mean), rstd = chunk.load(norm.rstd);
  const Lanes<T> scale = chunk.load(norm.scale), offset = chunk.load(norm.offset);
  const Lanes<T> first = (chunk.load(x) - mean) * rstd;
  Largest<T> largest{first * scale + offset, first};
  for (int t = 1; t < taps.count; ++t) {
    const Lanes<T> normal = (chunk.load(x + taps.offset[t]) - mean) * rstd;
    seen(t, take_larger(normal * scale + offset, normal, largest));
  }
  return largest;
}

// body(chunk, first element of the window, number of the window) for all windows of rows [begin, end).
template <class T, class Body>
HWY_INLINE void for_each_window(const PoolTiles& tiles, std::int64_t begin, std::int64_t end, Body body) {
  const std::int64_t high = tiles.height / tiles.taps[1], windows = tiles.windows();
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t line = row / high * tiles.taps[0] * tiles.height + row % high * tiles.taps[1];
    for (std::int64_t i = 0; i < windows; ++i) {
      const std::int64_t x = (line * tiles.width + i * tiles.taps[2]) * tiles.channels;
      for_each_chunk<T>(tiles.channels, [&](auto chunk) HWY_ATTR { body(chunk, x, row * windows + i); });
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
    for_each_window<T>(a.tiles, begin, end, [&](auto chunk, std::int64_t x, std::int64_t window) HWY_ATTR {
      const auto largest = find_largest(chunk, taps, a, a.x + x, [](int, Bits) HWY_ATTR {});
      chunk.store(largest.value, a.y + window * a.tiles.channels);
    });
  });
}

template <class T>
class Gradient {
 public:
  explicit Gradient(const BatchNormPoolGradient<T>& a)
      : a_(a), taps_(a.tiles), n_(a.tiles.channels), chunks_(divide_up(n_, kLanes)) {}

  void run() const {
    const RowBlocks blocks(a_.tiles.rows());
    parallel_for(blocks.count(),
                 [&](std::int64_t i) HWY_ATTR { sum(blocks.begin(i), blocks.end(i), a_.sums + i * 2 * n_); });
    const GradientSums<T> sums(n_, a_.sums, blocks.count());
    sums.find_means(a_.tiles.positions(), a_.scale);
    parallel_ranges(a_.tiles.rows(), rows_of_a_task(a_.tiles),
                    [&](std::int64_t begin, std::int64_t end) HWY_ATTR { apply(begin, end, sums); });
    sums.write(a_.dscale, a_.doffset);
  }

 private:
  // Where tap t of a window is larger than those before it: written by sum, read by apply.
  Bits* bits_of(std::int64_t window, std::int64_t at) const {
    return a_.larger + (window * chunks_ + at / kLanes) * taps_.count;
  }

  // dscale [n], doffset [n] = sums of dy * normal and of dy; only the largest of a window have a dy.
  void sum(std::int64_t begin, std::int64_t end, T* dscale) const {
    T* doffset = dscale + n_;
    std::fill_n(dscale, 2 * n_, T(0));
    for_each_window<T>(a_.tiles, begin, end, [&](auto chunk, std::int64_t x, std::int64_t window) HWY_ATTR {
      Bits* bits = bits_of(window, chunk.at);
      const auto largest =
          find_largest(chunk, taps_, a_, a_.x + x, [&](int tap, Bits larger) HWY_ATTR { bits[tap] = larger; });
      const Lanes<T> upstream = chunk.load(a_.dy + window * n_);
      add_to(chunk, upstream * largest.normal, dscale);
      add_to(chunk, upstream, doffset);
    });
  }

  // dx = rstd * (g - g_mean - normal * g_normal_mean), g = dy * scale where the largest value is, 0 elsewhere
  void apply(std::int64_t begin, std::int64_t end, const GradientSums<T>& sums) const {
    for_each_window<T>(a_.tiles, begin, end, [&](auto chunk, std::int64_t x, std::int64_t window) HWY_ATTR {
      const Lanes<T> mean = chunk.load(a_.mean), rstd = chunk.load(a_.rstd);
      const Lanes<T> g = rstd * (chunk.load(a_.dy + window * n_) * chunk.load(a_.scale));
      const Lanes<T> steady = rstd * chunk.load(sums.g_mean), slope = rstd * rstd * chunk.load(sums.g_normal_mean);
      const Bits* bits = bits_of(window, chunk.at);
      Bits left = static_cast<Bits>(~0);  // lanes whose largest value is not among the taps after this one
      for (int t = taps_.count - 1; t >= 0; --t) {
        const Bits here = t == 0 ? left : static_cast<Bits>(left & bits[t]);
        left = static_cast<Bits>(left & ~here);
        const std::int64_t at = x + taps_.offset[t];
        const Lanes<T> others = multiply_add(chunk.load(a_.x + at) - mean, slope, steady);
        chunk.store(where_set(here, g) - others, a_.dx + at);
      }
    });
  }

  const BatchNormPoolGradient<T>& a_;
  const Taps taps_;
  const std::int64_t n_, chunks_;
};

template <class T>
void batch_norm_pool_gradient(const BatchNormPoolGradient<T>& a) {
  Gradient<T>(a).run();
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

BatchNormPoolWorkspace batch_norm_pool_workspace(const PoolTiles& tiles) {
  const std::int64_t windows = tiles.rows() * tiles.windows(), taps = tiles.positions() / windows;
  return {.sums = gradient_sums_workspace(RowBlocks(tiles.rows()).count(), tiles.channels),
          .larger = windows * divide_up(tiles.channels, 16) * taps};
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
