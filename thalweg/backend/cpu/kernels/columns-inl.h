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

// normal * scale + offset
template <class T, class Chunk>
HWY_INLINE Lanes<T> scaled(Chunk chunk, const Lanes<T>& normal, const T* scale, const T* offset) {
  return normal * load_or(chunk, scale, T(1)) + load_or(chunk, offset, T(0));
}

// What becomes of a normalised value before it is stored as S: nothing …
struct AsItIs {
  template <class T, class Chunk>
  HWY_INLINE Lanes<T> operator()(Chunk, std::int64_t, const Lanes<T>& y) const {
    return y;
  }
};
// … or its relu …
struct Relu {
  template <class T, class Chunk>
  HWY_INLINE Lanes<T> operator()(Chunk, std::int64_t, const Lanes<T>& y) const {
    return relu(y);
  }
};
// … or that of a sum, rounded as if the value had been stored before.
template <class S>
struct ReluOfSum {
  const S* residual;
  template <class T, class Chunk>
  HWY_INLINE Lanes<T> operator()(Chunk chunk, std::int64_t row, const Lanes<T>& y) const {
    return relu(chunk.load(residual + row) + rounded<S>(y));
  }
};

// y = finish((x - mean) * rstd * scale + offset); mean, rstd, scale, offset [n]
template <class S, class T = Wide<S>, class Finish = AsItIs>
void apply_norm(const Window& w, const S* x, const T* mean, const T* rstd, const T* scale, const T* offset, S* y,
                Finish finish = {}) {
  for_each_cell<T>(w, [&](auto chunk, std::int64_t row) HWY_ATTR {
    const Lanes<T> normal = (chunk.load(x + row) - chunk.load(mean)) * chunk.load(rstd);
    chunk.store(finish(chunk, row, scaled(chunk, normal, scale, offset)), y + row);
  });
}

// The gradient of the normalised values: given …
template <class S, class T = Wide<S>>
struct GivenGradient {
  const S* dy;
  template <class Chunk>
  HWY_INLINE Lanes<T> operator()(Chunk chunk, std::int64_t row, const Lanes<T>&) const {
    return chunk.load(dy + row);
  }
};
// … or that of their relu, which passes it on where what was stored is above zero.
template <class S, class T = Wide<S>>
struct ReluGradient {
  const S* dz;
  const T *scale, *offset;  // [n]
  template <class Chunk>
  HWY_INLINE Lanes<T> operator()(Chunk chunk, std::int64_t row, const Lanes<T>& normal) const {
    return where_positive(rounded<S>(scaled(chunk, normal, scale, offset)), chunk.load(dz + row));
  }
};

// dscale [n], doffset [n] = sums of dy * (x - mean) * rstd and of dy over rows
template <class S, class Upstream, class T = Wide<S>>
void sum_gradients(const Window& w, const S* x, Upstream dy, const T* mean, const T* rstd, T* dscale, T* doffset) {
  std::fill_n(dscale, w.n, T(0));
  std::fill_n(doffset, w.n, T(0));
  for_each_cell<T>(w, [&](auto chunk, std::int64_t row) HWY_ATTR {
    const Lanes<T> normal = (chunk.load(x + row) - chunk.load(mean)) * chunk.load(rstd);
    const Lanes<T> upstream = dy(chunk, row, normal);
    add_to(chunk, upstream * normal, dscale);
    add_to(chunk, upstream, doffset);
  });
}

// What the gradients of a column need of all rows. The results are written last, since they may take the place of
// operands.
template <class T>
struct GradientSums {
  std::int64_t n;
  T *dscale, *doffset, *g_mean, *g_normal_mean;  // [n] each, in the workspace

  // workspace: `blocks` partial sums [2, n] of dscale and doffset, room for four rows.
  GradientSums(std::int64_t columns, T* workspace, std::int64_t blocks)
      : n(columns),
        dscale(workspace + blocks * 2 * n),
        doffset(dscale + n),
        g_mean(doffset + n),
        g_normal_mean(g_mean + n) {
    sum_blocks_parallel(workspace, blocks, 2 * n, n, dscale);
    sum_blocks_parallel(workspace + n, blocks, 2 * n, n, doffset);
  }

  // The means of g = dy * scale and of g * normal.
  void find_means(std::int64_t rows, const T* scale) const {
    for (std::int64_t c = 0; c < n; ++c) {
      const T factor = (scale != nullptr ? scale[c] : T(1)) / static_cast<T>(rows);
      g_mean[c] = doffset[c] * factor;
      g_normal_mean[c] = dscale[c] * factor;
    }
  }

  void write(T* to_dscale, T* to_doffset) const {
    std::copy_n(dscale, n, to_dscale);
    std::copy_n(doffset, n, to_doffset);
  }
};

// dx = rstd * (g - g_mean - normal * g_normal_mean), g = dy * scale; all vectors [n]
template <class S, class Upstream, class T = Wide<S>>
void apply_gradient(const Window& w, const S* x, Upstream dy, const T* mean, const T* rstd, const T* scale,
                    const T* g_mean, const T* g_normal_mean, S* dx) {
  for_each_cell<T>(w, [&](auto chunk, std::int64_t row) HWY_ATTR {
    const Lanes<T> row_rstd = chunk.load(rstd), normal = (chunk.load(x + row) - chunk.load(mean)) * row_rstd;
    const Lanes<T> g = dy(chunk, row, normal) * load_or(chunk, scale, T(1));
    chunk.store(row_rstd * (g - chunk.load(g_mean) - normal * chunk.load(g_normal_mean)), dx + row);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#endif
