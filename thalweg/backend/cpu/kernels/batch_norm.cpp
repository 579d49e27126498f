#include "thalweg/backend/cpu/kernels/batch_norm.h"

#include <algorithm>

#include "thalweg/backend/cpu/kernels/blocks.h"
#include "thalweg/backend/cpu/targets.h"
#include "thalweg/core/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/backend/cpu/kernels/batch_norm.cpp"
#include <hwy/foreach_target.h>
// After foreach_target: compiled once per target.
#include "thalweg/backend/cpu/kernels/columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class S, class T = Wide<S>>
void batch_norm_apply(const BatchNorm<S>& a) {
  parallel_ranges(a.rows, rows_per_task(a.channels), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    const std::int64_t at = begin * a.channels;
    const auto apply = [&](auto finish) HWY_ATTR {
      apply_norm({end - begin, a.channels, a.channels}, a.x + at, a.mean, a.rstd, a.scale, a.offset, a.y + at, finish);
    };
    if (!a.relu) return apply(AsItIs());
    if (a.residual == nullptr) return apply(Relu());
    apply(ReluOfSum<S>{a.residual + at});
  });
}

constexpr std::int64_t kWindowBytes = 64 * 1024;  // of x that are read twice, the second time from a cache
constexpr std::int64_t kColumns = 512;            // at a time: their sums stand on the stack

// Means and sums of squared deviations of the columns of some rows, joined with those of rows before.
template <class T>
class ColumnMoments {
 public:
  ColumnMoments(T* mean, T* deviations) : mean_(mean), deviations_(deviations) {}

  // Of `rows` rows: their means and the sums of their squared deviations, n of each.
  void add(std::int64_t rows, std::int64_t n, const T* mean, const T* deviations) {
    const T share = static_cast<T>(rows) / static_cast<T>(rows_ + rows), before = static_cast<T>(rows_);
    for (std::int64_t c = 0; c < n && rows_ == 0; ++c) mean_[c] = mean[c], deviations_[c] = deviations[c];
    for (std::int64_t c = 0; c < n && rows_ > 0; ++c) {
      const T difference = mean[c] - mean_[c];
      mean_[c] += difference * share;
      deviations_[c] += deviations[c] + difference * difference * (before * share);
    }
    rows_ += rows;
  }

 private:
  T *mean_, *deviations_;
  std::int64_t rows_ = 0;
};

// A value of every column that is no outlier: the median of three. Means are distances from it until they are joined,
// as differences between large ones would be lost when they are rounded.
template <class S, class T = Wide<S>>
void find_origin(const BatchNorm<S>& a, std::int64_t column, std::int64_t n, T* origin) {
  const S *x = a.x + column, *middle_row = x + a.rows / 2 * a.channels, *last_row = x + (a.rows - 1) * a.channels;
  for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR {
    const Lanes<T> first = chunk.load(x), middle = chunk.load(middle_row), last = chunk.load(last_row);
    chunk.store(max(min(first, middle), min(max(first, middle), last)), origin);
  });
}

// Of some columns of rows begin … end. Every window of rows by itself, so that x comes from memory once and no guess is
// far from what it is for.
template <class S, class T = Wide<S>>
void find_moments(const BatchNorm<S>& a, std::int64_t begin, std::int64_t end, std::int64_t column, T* mean,
                  T* deviations) {
  T origin[kColumns], guess[kColumns], first[kColumns], second[kColumns];
  ColumnMoments<T> moments(mean, deviations);
  const std::int64_t n = std::min(kColumns, a.channels - column), bytes = n * static_cast<std::int64_t>(sizeof(S));
  find_origin(a, column, n, origin);
  const std::int64_t rows = std::max<std::int64_t>(16, kWindowBytes / bytes);
  for (std::int64_t row = begin; row < end; row += rows) {
    const Window w{std::min(rows, end - row), a.channels, n};
    const S* x = a.x + row * w.stride + column;
    const T size = static_cast<T>(w.rows);
    sum_rows(w, x, guess);
    for (std::int64_t c = 0; c < w.n; ++c) guess[c] /= size;
    sum_differences(w, x, guess, first, second);
    for (std::int64_t c = 0; c < w.n; ++c) {
      const T correction = first[c] / size;
      guess[c] = guess[c] - origin[c] + correction;
      second[c] -= correction * first[c];
      if (second[c] < 0) second[c] = 0;
    }
    moments.add(w.rows, w.n, guess, second);
  }
}

template <class S, class T = Wide<S>>
void batch_norm_statistics(const BatchNorm<S>& a) {
  const RowBlocks blocks(a.rows);
  const std::int64_t n = a.channels, stride = 2 * n;
  if (a.rows == 0) {
    std::fill_n(a.mean, n, T(0));
    std::fill_n(a.variance, n, T(0));
    std::fill_n(a.rstd, n, reciprocal_deviation(T(0), a.epsilon));
    return;
  }
  parallel_for(blocks.count(), [&](std::int64_t i) HWY_ATTR {
    T* partial = a.workspace + i * stride;
    for (std::int64_t c = 0; c < n; c += kColumns)
      find_moments(a, blocks.begin(i), blocks.end(i), c, partial + c, partial + n + c);
  });
  parallel_ranges(n, 256, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    ColumnMoments<T> moments(a.mean + begin, a.variance + begin);
    for (std::int64_t i = 0; i < blocks.count(); ++i) {
      const T* partial = a.workspace + i * stride + begin;
      moments.add(blocks.end(i) - blocks.begin(i), end - begin, partial, partial + n);
    }
    T origin[kColumns];
    find_origin(a, begin, end - begin, origin);
    for (std::int64_t c = begin; c < end; ++c) {
      a.mean[c] += origin[c - begin];
      a.variance[c] /= static_cast<T>(a.rows);
      a.rstd[c] = reciprocal_deviation(a.variance[c], a.epsilon);
    }
  });
}

template <class S>
void batch_norm(const BatchNorm<S>& a) {
  batch_norm_statistics(a);
  batch_norm_apply(a);
}

// upstream(offset of a row) gives the gradient of the normalised values from there on.
template <class S, class Upstream, class T = Wide<S>>
void gradient_from(const BatchNormGradient<S>& a, Upstream upstream) {
  const RowBlocks blocks(a.rows);
  const std::int64_t n = a.channels, stride = 2 * n, count = blocks.count();
  parallel_for(count, [&](std::int64_t i) HWY_ATTR {
    const std::int64_t at = blocks.begin(i) * n;
    T* partial = a.workspace + i * stride;
    sum_gradients({blocks.end(i) - blocks.begin(i), n, n}, a.x + at, upstream(at), a.mean, a.rstd, partial,
                  partial + n);
  });
  const GradientSums<T> sums(n, a.workspace, count);
  if (a.rows > 0) {
    sums.find_means(a.rows, a.scale);
    parallel_ranges(a.rows, rows_per_task(n), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
      const std::int64_t at = begin * n;
      apply_gradient({end - begin, n, n}, a.x + at, upstream(at), a.mean, a.rstd, a.scale, sums.g_mean,
                     sums.g_normal_mean, a.dx + at);
    });
  }
  sums.write(a.dscale, a.doffset);
}

template <class S>
void batch_norm_gradient(const BatchNormGradient<S>& a) {
  if (a.relu)
    gradient_from(a, [&](std::int64_t at) HWY_ATTR { return ReluGradient<S>{a.dy + at, a.scale, a.offset}; });
  else
    gradient_from(a, [&](std::int64_t at) HWY_ATTR { return GivenGradient<S>{a.dy + at}; });
}

template <class S>
constexpr BatchNormKernels<S> kTable{batch_norm<S>, batch_norm_statistics<S>, batch_norm_apply<S>,
                                     batch_norm_gradient<S>};

}  // namespace

const BatchNormKernels<float>* batch_norm_f32() { return &kTable<float>; }
const BatchNormKernels<double>* batch_norm_f64() { return &kTable<double>; }
const BatchNormKernels<Half>* batch_norm_f16() { return &kTable<Half>; }
const BatchNormKernels<BFloat16>* batch_norm_bf16() { return &kTable<BFloat16>; }

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg::cpu {

std::size_t batch_norm_workspace(std::int64_t rows, std::int64_t channels) {
  return static_cast<std::size_t>(gradient_sums_workspace(RowBlocks(rows).count(), channels));
}

HWY_EXPORT(batch_norm_f32);
HWY_EXPORT(batch_norm_f64);
HWY_EXPORT(batch_norm_f16);
HWY_EXPORT(batch_norm_bf16);

template <>
const BatchNormKernels<float>& batch_norm_kernels() {
  return *HWY_DYNAMIC_DISPATCH(batch_norm_f32)();
}

template <>
const BatchNormKernels<double>& batch_norm_kernels() {
  return *HWY_DYNAMIC_DISPATCH(batch_norm_f64)();
}

template <>
const BatchNormKernels<Half>& batch_norm_kernels() {
  return *HWY_DYNAMIC_DISPATCH(batch_norm_f16)();
}

template <>
const BatchNormKernels<BFloat16>& batch_norm_kernels() {
  return *HWY_DYNAMIC_DISPATCH(batch_norm_bf16)();
}

}  // namespace thalweg::cpu
#endif
