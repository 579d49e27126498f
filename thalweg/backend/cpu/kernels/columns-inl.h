// Norms down the columns of a matrix: batch norm and group norm are made of these. The matrix is stored as S, any float
// type; sums and vectors are T. Included once per target.
#if defined(THALWEG_CPU_KERNELS_COLUMNS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_CPU_KERNELS_COLUMNS_INL_H
#undef THALWEG_CPU_KERNELS_COLUMNS_INL_H
#else
#define THALWEG_CPU_KERNELS_COLUMNS_INL_H
#endif

#include <algorithm>

#include "thalweg/backend/cpu/kernels/moments-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {

// A stretch of n columns of `rows` rows, `stride` elements from row to row.
struct Window {
  std::int64_t rows, stride, n;
};

// body(chunk, offset of the row) for every chunk of every row, in order.
template <class T, class Body>
HWY_INLINE void for_each_cell(const Window& w, Body body) {
  for (std::int64_t row = 0; row < w.rows; ++row)
    for_each_chunk<T>(w.n, [&](auto chunk) HWY_ATTR { body(chunk, row * w.stride); });
}

// total [n] = sum of x over rows
template <class S, class T = Wide<S>>
void sum_rows(const Window& w, const S* x, T* total) {
  std::fill_n(total, w.n, T(0));
  for_each_cell<T>(w, [&](auto chunk, std::int64_t row) HWY_ATTR { add_to(chunk, chunk.load(x + row), total); });
}

// first [n], second [n] = sums of (x - guess) and (x - guess)^2 over rows, guess [n]
template <class S, class T = Wide<S>>
void sum_differences(const Window& w, const S* x, const T* guess, T* first, T* second) {
  std::fill_n(first, w.n, T(0));
  std::fill_n(second, w.n, T(0));
  for_each_cell<T>(w, [&](auto chunk, std::int64_t row) HWY_ATTR {
    const Lanes<T> difference = chunk.load(x + row) - chunk.load(guess);
    add_to(chunk, difference, first);
    add_to(chunk, difference * difference, second);
  });
}

// y = (x - mean) * rstd * scale + offset; mean, rstd, scale, offset [n]
template <class S, class T = Wide<S>>
void apply_norm(const Window& w, const S* x, const T* mean, const T* rstd, const T* scale, const T* offset, S* y) {
  for_each_cell<T>(w, [&](auto chunk, std::int64_t row) HWY_ATTR {
    const Lanes<T> normal = (chunk.load(x + row) - chunk.load(mean)) * chunk.load(rstd);
    chunk.store(normal * load_or(chunk, scale, T(1)) + load_or(chunk, offset, T(0)), y + row);
  });
}

// dscale [n], doffset [n] = sums of dy * (x - mean) * rstd and of dy over rows
template <class S, class T = Wide<S>>
void sum_gradients(const Window& w, const S* x, const S* dy, const T* mean, const T* rstd, T* dscale, T* doffset) {
  std::fill_n(dscale, w.n, T(0));
  std::fill_n(doffset, w.n, T(0));
  for_each_cell<T>(w, [&](auto chunk, std::int64_t row) HWY_ATTR {
    const Lanes<T> upstream = chunk.load(dy + row);
    add_to(chunk, upstream * ((chunk.load(x + row) - chunk.load(mean)) * chunk.load(rstd)), dscale);
    add_to(chunk, upstream, doffset);
  });
}

// g_mean [n], g_normal_mean [n]: the means over all rows of g = dy * scale and of g * normal, from their sums
template <class T>
void gradient_means(std::int64_t rows, std::int64_t n, const T* scale, const T* dscale, const T* doffset, T* g_mean,
                    T* g_normal_mean) {
  for (std::int64_t c = 0; c < n; ++c) {
    const T factor = (scale != nullptr ? scale[c] : T(1)) / static_cast<T>(rows);
    g_mean[c] = doffset[c] * factor;
    g_normal_mean[c] = dscale[c] * factor;
  }
}

// dx = rstd * (g - g_mean - normal * g_normal_mean), g = dy * scale; all vectors [n]
template <class S, class T = Wide<S>>
void apply_gradient(const Window& w, const S* x, const S* dy, const T* mean, const T* rstd, const T* scale,
                    const T* g_mean, const T* g_normal_mean, S* dx) {
  for_each_cell<T>(w, [&](auto chunk, std::int64_t row) HWY_ATTR {
    const Lanes<T> row_rstd = chunk.load(rstd), normal = (chunk.load(x + row) - chunk.load(mean)) * row_rstd;
    const Lanes<T> g = chunk.load(dy + row) * load_or(chunk, scale, T(1));
    chunk.store(row_rstd * (g - chunk.load(g_mean) - normal * chunk.load(g_normal_mean)), dx + row);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#endif
