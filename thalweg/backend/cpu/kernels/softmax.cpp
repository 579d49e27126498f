#include "thalweg/backend/cpu/kernels/softmax.h"

#include <cmath>

#include "thalweg/backend/cpu/kernels/blocks.h"
#include "thalweg/backend/cpu/targets.h"
#include "thalweg/core/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/backend/cpu/kernels/softmax.cpp"
#include <hwy/foreach_target.h>
// After foreach_target: compiled once per target.
#include "thalweg/backend/cpu/kernels/row_softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class S, class T = Wide<S>>
void softmax_row(const S* x, std::int64_t n, S* y) {
  const T top = row_maximum(x, n);
  if constexpr (std::is_same_v<S, T>) {
    const T total = sum_of_exp(x, n, top, [&](auto chunk, const Lanes<T>& e) HWY_ATTR { chunk.store(e, y); });
    const Lanes<T> factor(T(1) / total);
    for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR { chunk.store(chunk.load(y) * factor, y); });
  } else {  // found again rather than stored in between, which would round twice
    const Lanes<T> factor(T(1) / sum_of_exp(x, n, top, [](auto, const Lanes<T>&) HWY_ATTR {}));
    for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR { chunk.store(exp(chunk.load(x) - Lanes<T>(top)) * factor, y); });
  }
}

template <class S, class T = Wide<S>>
void log_softmax_row(const S* x, std::int64_t n, S* y) {
  const T top = row_maximum(x, n);
  const Lanes<T> log_total(std::log(sum_of_exp(x, n, top, [](auto, const Lanes<T>&) HWY_ATTR {})));
  for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR { chunk.store(chunk.load(x) - Lanes<T>(top) - log_total, y); });
}

template <class S, class T = Wide<S>>
void softmax_gradient_row(const S* y, const S* dy, std::int64_t n, S* dx) {
  Lanes<T> total(T(0));
  for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR { total = multiply_add(chunk.load(y), chunk.load(dy), total); });
  const Lanes<T> mean(sum(total));
  for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR { chunk.store(chunk.load(y) * (chunk.load(dy) - mean), dx); });
}

template <class S, class T = Wide<S>>
void log_softmax_gradient_row(const S* y, const S* dy, std::int64_t n, S* dx) {
  Lanes<T> total(T(0));
  for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR { total = total + chunk.load(dy); });
  const Lanes<T> dy_sum(sum(total));
  for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR { chunk.store(chunk.load(dy) - exp(chunk.load(y)) * dy_sum, dx); });
}

template <class T, void (*kRow)(const T*, std::int64_t, T*)>
void forward(const T* x, std::int64_t rows, std::int64_t n, T* y) {
  parallel_ranges(rows, rows_per_task(n), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for (std::int64_t row = begin; row < end; ++row) kRow(x + row * n, n, y + row * n);
  });
}

template <class T, void (*kRow)(const T*, const T*, std::int64_t, T*)>
void gradient(const T* y, const T* dy, std::int64_t rows, std::int64_t n, T* dx) {
  parallel_ranges(rows, rows_per_task(n), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for (std::int64_t row = begin; row < end; ++row) kRow(y + row * n, dy + row * n, n, dx + row * n);
  });
}

template <class T>
constexpr SoftmaxKernels<T> kTable{forward<T, softmax_row<T>>, forward<T, log_softmax_row<T>>,
                                   gradient<T, softmax_gradient_row<T>>, gradient<T, log_softmax_gradient_row<T>>};

}  // namespace

const SoftmaxKernels<float>* softmax_f32() { return &kTable<float>; }
const SoftmaxKernels<double>* softmax_f64() { return &kTable<double>; }
const SoftmaxKernels<Half>* softmax_f16() { return &kTable<Half>; }
const SoftmaxKernels<BFloat16>* softmax_bf16() { return &kTable<BFloat16>; }

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg::cpu {

HWY_EXPORT(softmax_f32);
HWY_EXPORT(softmax_f64);
HWY_EXPORT(softmax_f16);
HWY_EXPORT(softmax_bf16);

template <>
const SoftmaxKernels<float>& softmax_kernels() {
  return *HWY_DYNAMIC_DISPATCH(softmax_f32)();
}

template <>
const SoftmaxKernels<double>& softmax_kernels() {
  return *HWY_DYNAMIC_DISPATCH(softmax_f64)();
}

template <>
const SoftmaxKernels<Half>& softmax_kernels() {
  return *HWY_DYNAMIC_DISPATCH(softmax_f16)();
}

template <>
const SoftmaxKernels<BFloat16>& softmax_kernels() {
  return *HWY_DYNAMIC_DISPATCH(softmax_bf16)();
}

}  // namespace thalweg::cpu
#endif
