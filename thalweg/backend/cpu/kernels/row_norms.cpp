#include "thalweg/backend/cpu/kernels/row_norms.h"

#include <algorithm>

#include "thalweg/backend/cpu/kernels/blocks.h"
#include "thalweg/backend/cpu/targets.h"
#include "thalweg/core/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/backend/cpu/kernels/row_norms.cpp"
#include <hwy/foreach_target.h>
// After foreach_target: compiled once per target.
#include "thalweg/backend/cpu/kernels/moments-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {
namespace {

// Mean and biased variance of x [n].
template <class S, class T = Wide<S>>
Moments<T> row_moments(const S* x, std::int64_t n) {
  Lanes<T> total(T(0));
  for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR { total = total + chunk.load(x); });
  const T guess = sum(total) / T(n);
  Lanes<T> first(T(0)), second(T(0));
  for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR {
    const Lanes<T> difference = chunk.load(x, guess) - Lanes<T>(guess);
    first = first + difference;
    second = multiply_add(difference, difference, second);
  });
  return corrected_moments(guess, sum(first), sum(second), T(n));
}

// Mean 0 and the mean of x^2, x [n].
template <class S, class T = Wide<S>>
Moments<T> row_mean_square(const S* x, std::int64_t n) {
  Lanes<T> total(T(0));
  for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR {
    const Lanes<T> value = chunk.load(x);
    total = multiply_add(value, value, total);
  });
  return {T(0), sum(total) / T(n)};
}

template <class S, bool kCentered, class T = Wide<S>>
void norm(const RowNorm<S>& a) {
  parallel_ranges(a.rows, rows_per_task(a.n), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for (std::int64_t row = begin; row < end; ++row) {
      const S* x = a.x + row * a.n;
      S* y = a.y + row * a.n;
      const Moments<T> moments = kCentered ? row_moments(x, a.n) : row_mean_square(x, a.n);
      const T row_rstd = reciprocal_deviation(moments.variance, a.epsilon);
      if (kCentered) a.mean[row] = moments.mean;
      a.rstd[row] = row_rstd;
      const Lanes<T> mean(moments.mean), rstd(row_rstd);
      for_each_chunk<T>(a.n, [&](auto chunk) HWY_ATTR {
        const Lanes<T> normal = (chunk.load(x) - mean) * rstd;
        chunk.store(normal * load_or(chunk, a.scale, T(1)) + load_or(chunk, a.offset, T(0)), y);
      });
    }
  });
}

// dx = rstd * (g - mean(g) - normal * mean(g * normal)), g = dy * scale, normal = (x - mean) * rstd; without
// centering the term mean(g) is absent. Adds dy * normal to dscale [n] and dy to doffset [n].
template <class S, bool kCentered, class T = Wide<S>>
void gradient_row(const RowNormGradient<S>& a, std::int64_t row, T* dscale, T* doffset) {
  const S *x = a.x + row * a.n, *dy = a.dy + row * a.n;
  S* dx = a.dx + row * a.n;
  const Lanes<T> mean(kCentered ? a.mean[row] : T(0)), rstd(a.rstd[row]);
  Lanes<T> total(T(0)), total_normal(T(0));
  for_each_chunk<T>(a.n, [&](auto chunk) HWY_ATTR {
    const Lanes<T> g = chunk.load(dy) * load_or(chunk, a.scale, T(1));
    if (kCentered) total = total + g;
    total_normal = multiply_add(g, (chunk.load(x) - mean) * rstd, total_normal);
  });
  const Lanes<T> g_mean(kCentered ? sum(total) / T(a.n) : T(0)), g_normal_mean(sum(total_normal) / T(a.n));
  for_each_chunk<T>(a.n, [&](auto chunk) HWY_ATTR {
    const Lanes<T> normal = (chunk.load(x) - mean) * rstd, upstream = chunk.load(dy);
    add_to(chunk, upstream * normal, dscale);
    if (kCentered) add_to(chunk, upstream, doffset);
    chunk.store(rstd * (upstream * load_or(chunk, a.scale, T(1)) - g_mean - normal * g_normal_mean), dx);
  });
}

template <class S, bool kCentered, class T = Wide<S>>
void norm_gradient(const RowNormGradient<S>& a) {
  const RowBlocks blocks(a.rows);
  const std::int64_t stride = 2 * a.n;  // workspace [blocks][dscale, doffset][n]
  parallel_for(blocks.count(), [&](std::int64_t block) HWY_ATTR {
    T* partial = a.workspace + block * stride;
    std::fill_n(partial, stride, T(0));
    for (std::int64_t row = blocks.begin(block); row < blocks.end(block); ++row)
      gradient_row<S, kCentered>(a, row, partial, partial + a.n);
    if (a.done) (*a.done)({blocks.begin(block), blocks.end(block) - blocks.begin(block), 0, a.n});
  });
  if (a.dscale != nullptr) sum_blocks_parallel(a.workspace, blocks.count(), stride, a.n, a.dscale);
  if (kCentered && a.doffset != nullptr) sum_blocks_parallel(a.workspace + a.n, blocks.count(), stride, a.n, a.doffset);
}

template <class S>
constexpr RowNormKernels<S> kTable{norm<S, true>, norm_gradient<S, true>, norm<S, false>, norm_gradient<S, false>};

}  // namespace

const RowNormKernels<float>* row_norms_f32() { return &kTable<float>; }
const RowNormKernels<double>* row_norms_f64() { return &kTable<double>; }
const RowNormKernels<Half>* row_norms_f16() { return &kTable<Half>; }
const RowNormKernels<BFloat16>* row_norms_bf16() { return &kTable<BFloat16>; }

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg::cpu {

std::size_t row_norm_gradient_workspace(std::int64_t rows, std::int64_t n) {
  return static_cast<std::size_t>(RowBlocks(rows).count() * 2 * n);
}

HWY_EXPORT(row_norms_f32);
HWY_EXPORT(row_norms_f64);
HWY_EXPORT(row_norms_f16);
HWY_EXPORT(row_norms_bf16);

template <>
const RowNormKernels<float>& row_norm_kernels() {
  return *HWY_DYNAMIC_DISPATCH(row_norms_f32)();
}

template <>
const RowNormKernels<double>& row_norm_kernels() {
  return *HWY_DYNAMIC_DISPATCH(row_norms_f64)();
}

template <>
const RowNormKernels<Half>& row_norm_kernels() {
  return *HWY_DYNAMIC_DISPATCH(row_norms_f16)();
}

template <>
const RowNormKernels<BFloat16>& row_norm_kernels() {
  return *HWY_DYNAMIC_DISPATCH(row_norms_bf16)();
}

}  // namespace thalweg::cpu
#endif
