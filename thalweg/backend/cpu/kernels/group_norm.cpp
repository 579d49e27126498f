#include "thalweg/backend/cpu/kernels/group_norm.h"

#include <algorithm>

#include "thalweg/backend/cpu/kernels/blocks.h"
#include "thalweg/backend/cpu/targets.h"
#include "thalweg/core/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/backend/cpu/kernels/group_norm.cpp"
#include <hwy/foreach_target.h>
// After foreach_target: compiled once per target.
#include "thalweg/backend/cpu/kernels/columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {
namespace {

// A task: some groups of one image. Sums are made per channel first, then over the channels of a group.
struct Run {
  std::int64_t statistics;  // where the run begins in [batch, groups]
  std::int64_t channel;     // where it begins in [channels]
  std::int64_t image;       // which image
  std::int64_t at;          // where it begins in x
  std::int64_t groups;
  Window window;
};

// body(run) for every task: enough groups of an image to fill 64 channels. A is GroupNorm or GroupNormGradient.
template <class A, class Body>
void for_each_run(const A& a, Body body) {
  const std::int64_t channels = a.groups * a.group_size;
  const std::int64_t groups = divide_up(64, a.group_size), runs = divide_up(a.groups, groups);
  parallel_for(a.batch * runs, [&](std::int64_t task) HWY_ATTR {
    const std::int64_t image = task / runs, first = task % runs * groups, count = std::min(groups, a.groups - first);
    const std::int64_t channel = first * a.group_size;
    body(Run{image * a.groups + first, channel, image, image * a.spatial * channels + channel, count,
             Window{a.spatial, channels, count * a.group_size}});
  });
}

// values [run channels], null stays null
template <class T>
const T* part(const T* values, const Run& run) {
  return values != nullptr ? values + run.channel : nullptr;
}

// x [n]
template <class T>
T sum_channels(const T* x, std::int64_t n) {
  Lanes<T> total(T(0));
  for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR { total = total + chunk.load(x); });
  return sum(total);
}

// per_group [groups] -> per_channel [groups, size]
template <class T>
void spread(const T* per_group, std::int64_t groups, std::int64_t size, T* per_channel) {
  for (std::int64_t g = 0; g < groups; ++g) std::fill_n(per_channel + g * size, size, per_group[g]);
}

// Mean and rstd of the run's groups, and the same spread over its channels.
template <class S, class T = Wide<S>>
void run_statistics(const GroupNorm<S>& a, const Run& run, T* mean, T* rstd, T* first, T* second) {
  const std::int64_t size = a.group_size;
  const T count = static_cast<T>(a.spatial * size);
  T *group_mean = a.mean + run.statistics, *group_rstd = a.rstd + run.statistics;
  sum_rows(run.window, a.x + run.at, first);
  for (std::int64_t g = 0; g < run.groups; ++g) group_mean[g] = sum_channels(first + g * size, size) / count;
  spread(group_mean, run.groups, size, mean);
  sum_differences(run.window, a.x + run.at, mean, first, second);
  for (std::int64_t g = 0; g < run.groups; ++g) {
    const Moments<T> moments = corrected_moments(group_mean[g], sum_channels(first + g * size, size),
                                                 sum_channels(second + g * size, size), count);
    group_mean[g] = moments.mean;
    group_rstd[g] = reciprocal_deviation(moments.variance, a.epsilon);
  }
  spread(group_mean, run.groups, size, mean);
  spread(group_rstd, run.groups, size, rstd);
}

template <class S, class T = Wide<S>>
void forward(const GroupNorm<S>& a) {
  const std::int64_t channels = a.groups * a.group_size, row = a.batch * channels;  // workspace [4][batch][channels]
  if (row * a.spatial == 0) {
    std::fill_n(a.mean, a.batch * a.groups, T(0));
    std::fill_n(a.rstd, a.batch * a.groups, T(0));
    return;
  }
  for_each_run(a, [&](const Run& run) HWY_ATTR {
    T *mean = a.workspace + run.image * channels + run.channel, *rstd = mean + row;
    run_statistics(a, run, mean, rstd, mean + 2 * row, mean + 3 * row);
    apply_norm(run.window, a.x + run.at, mean, rstd, part(a.scale, run), part(a.offset, run), a.y + run.at);
  });
}

// g_mean, g_normal_mean [run channels] = means over each group of g and g * normal, from the sums per channel.
template <class S, class T = Wide<S>>
void group_means(const GroupNormGradient<S>& a, const Run& run, const T* dscale, const T* doffset, T* g_mean,
                 T* g_normal_mean) {
  const T* scale = part(a.scale, run);
  const T count = static_cast<T>(a.spatial * a.group_size);
  for_each_chunk<T>(run.window.n, [&](auto chunk) HWY_ATTR {
    const Lanes<T> factor = load_or(chunk, scale, T(1));
    chunk.store(factor * chunk.load(doffset), g_mean);
    chunk.store(factor * chunk.load(dscale), g_normal_mean);
  });
  for (std::int64_t c = 0; c < run.window.n; c += a.group_size) {
    std::fill_n(g_mean + c, a.group_size, sum_channels(g_mean + c, a.group_size) / count);
    std::fill_n(g_normal_mean + c, a.group_size, sum_channels(g_normal_mean + c, a.group_size) / count);
  }
}

template <class S, class T = Wide<S>>
void gradient(const GroupNormGradient<S>& a) {
  const std::int64_t channels = a.groups * a.group_size, row = a.batch * channels;  // workspace [6][batch][channels]
  if (row * a.spatial == 0) {
    std::fill_n(a.dscale, channels, T(0));
    std::fill_n(a.doffset, channels, T(0));
    return;
  }
  for_each_run(a, [&](const Run& run) HWY_ATTR {
    T *dscale = a.workspace + run.image * channels + run.channel, *doffset = dscale + row;
    T *mean = doffset + row, *rstd = mean + row, *g_mean = rstd + row, *g_normal_mean = g_mean + row;
    const S* x = a.x + run.at;
    const GivenGradient<S> dy{a.dy + run.at};
    spread(a.mean + run.statistics, run.groups, a.group_size, mean);
    spread(a.rstd + run.statistics, run.groups, a.group_size, rstd);
    sum_gradients(run.window, x, dy, mean, rstd, dscale, doffset);
    group_means(a, run, dscale, doffset, g_mean, g_normal_mean);
    apply_gradient(run.window, x, dy, mean, rstd, part(a.scale, run), g_mean, g_normal_mean, a.dx + run.at);
  });
  sum_blocks_parallel(a.workspace, a.batch, channels, channels, a.dscale);
  sum_blocks_parallel(a.workspace + row, a.batch, channels, channels, a.doffset);
}

template <class S>
constexpr GroupNormKernels<S> kTable{forward<S>, gradient<S>};

}  // namespace

const GroupNormKernels<float>* group_norm_f32() { return &kTable<float>; }
const GroupNormKernels<double>* group_norm_f64() { return &kTable<double>; }
const GroupNormKernels<Half>* group_norm_f16() { return &kTable<Half>; }
const GroupNormKernels<BFloat16>* group_norm_bf16() { return &kTable<BFloat16>; }

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg::cpu {

std::size_t group_norm_workspace(std::int64_t batch, std::int64_t channels) {
  return static_cast<std::size_t>(6 * batch * channels);
}

HWY_EXPORT(group_norm_f32);
HWY_EXPORT(group_norm_f64);
HWY_EXPORT(group_norm_f16);
HWY_EXPORT(group_norm_bf16);

template <>
const GroupNormKernels<float>& group_norm_kernels() {
  return *HWY_DYNAMIC_DISPATCH(group_norm_f32)();
}

template <>
const GroupNormKernels<double>& group_norm_kernels() {
  return *HWY_DYNAMIC_DISPATCH(group_norm_f64)();
}

template <>
const GroupNormKernels<Half>& group_norm_kernels() {
  return *HWY_DYNAMIC_DISPATCH(group_norm_f16)();
}

template <>
const GroupNormKernels<BFloat16>& group_norm_kernels() {
  return *HWY_DYNAMIC_DISPATCH(group_norm_bf16)();
}

}  // namespace thalweg::cpu
#endif
