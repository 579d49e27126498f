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

template <class S, class T = Wide<S>>
void batch_norm_statistics(const BatchNorm<S>& a) {
  const RowBlocks blocks(a.rows);
  const std::int64_t n = a.channels, stride = 2 * n, count = blocks.count();
  const auto window = [&](std::int64_t i) HWY_ATTR { return Window{blocks.end(i) - blocks.begin(i), n, n}; };
  const T size = static_cast<T>(std::max<std::int64_t>(a.rows, 1));
  parallel_for(count, [&](std::int64_t i)
                          HWY_ATTR { sum_rows(window(i), a.x + blocks.begin(i) * n, a.workspace + i * stride); });
  sum_blocks_parallel(a.workspace, count, stride, n, a.mean);
  for (std::int64_t c = 0; c < n; ++c) a.mean[c] /= size;
  parallel_for(count, [&](std::int64_t i) HWY_ATTR {
    T* partial = a.workspace + i * stride;
    sum_differences(window(i), a.x + blocks.begin(i) * n, a.mean, partial, partial + n);
  });
  sum_blocks_parallel(a.workspace, count, stride, n, a.rstd);
  sum_blocks_parallel(a.workspace + n, count, stride, n, a.variance);
  for (std::int64_t c = 0; c < n; ++c) {
    const auto [mean, variance] = corrected_moments(a.mean[c], a.rstd[c], a.variance[c], size);
    a.mean[c] = mean;
    a.variance[c] = variance;
    a.rstd[c] = reciprocal_deviation(variance, a.epsilon);
  }
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
