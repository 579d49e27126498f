#include "thalweg/backend/cpu/kernels/cross_entropy.h"

#include <cmath>

#include "thalweg/backend/cpu/kernels/blocks.h"
#include "thalweg/backend/cpu/targets.h"
#include "thalweg/core/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/backend/cpu/kernels/cross_entropy.cpp"
#include <hwy/foreach_target.h>
// After foreach_target: compiled once per target.
#include "thalweg/backend/cpu/kernels/row_softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {
namespace {

// log(sum(exp(x))) = top + log_total, kept apart: log_total - (x - top) does not lose digits when the logits are large.
template <class T>
struct RowSum {
  T top, log_total;
};

template <class T>
RowSum<T> row_sum(const T* x, std::int64_t n) {
  const T top = row_maximum(x, n);
  return {top, std::log(sum_of_exp(x, n, top, [](auto, const Lanes<T>&) HWY_ATTR {}))};
}

// y [n] = exp(x - top), x [n] may be y; returns 1 / sum(y). Doing this again in the gradient costs as many exp as
// keeping the sums would, and keeps nothing.
template <class T>
T exponentials(const T* x, std::int64_t n, T* y) {
  return T(1) / sum_of_exp(x, n, row_maximum(x, n), [&](auto chunk, const Lanes<T>& e) HWY_ATTR { chunk.store(e, y); });
}

template <class Body>
void for_each_row(std::int64_t rows, std::int64_t n, Body body) {
  parallel_ranges(rows, rows_per_task(n), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for (std::int64_t row = begin; row < end; ++row) body(row);
  });
}

template <class T>
void sparse(const T* logits, IndexView labels, std::int64_t rows, std::int64_t n, T* loss) {
  for_each_row(rows, n, [&](std::int64_t row) HWY_ATTR {
    const T* x = logits + row * n;
    const auto [top, log_total] = row_sum(x, n);
    loss[row] = log_total - (x[labels[row]] - top);
  });
}

template <class T>
void sparse_gradient(const T* logits, IndexView labels, const T* dloss, std::int64_t rows, std::int64_t n, T* dlogits) {
  for_each_row(rows, n, [&](std::int64_t row) HWY_ATTR {
    T* dx = dlogits + row * n;
    const Lanes<T> factor(exponentials(logits + row * n, n, dx) * dloss[row]);
    for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR { chunk.store(chunk.load(dx) * factor, dx); });
    dx[labels[row]] -= dloss[row];
  });
}

template <class T>
void dense(const T* logits, const T* labels, std::int64_t rows, std::int64_t n, T* loss) {
  for_each_row(rows, n, [&](std::int64_t row) HWY_ATTR {
    const T *x = logits + row * n, *label = labels + row * n;
    const auto [top, log_total] = row_sum(x, n);
    const Lanes<T> row_top(top), row_log_total(log_total);
    Lanes<T> total(T(0));
    for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR {
      // A missing element gives 0 * log_total, which is NaN only where the whole row is.
      total = total + chunk.load(label) * (row_log_total - (chunk.load(x, top) - row_top));
    });
    loss[row] = sum(total);
  });
}

template <class T>
void dense_gradient(const T* logits, const T* labels, const T* dloss, std::int64_t rows, std::int64_t n, T* dlogits) {
  for_each_row(rows, n, [&](std::int64_t row) HWY_ATTR {
    const T* label = labels + row * n;
    T* dx = dlogits + row * n;
    const Lanes<T> factor(exponentials(logits + row * n, n, dx)), row_dloss(dloss[row]);
    for_each_chunk<T>(
        n, [&](auto chunk) HWY_ATTR { chunk.store((chunk.load(dx) * factor - chunk.load(label)) * row_dloss, dx); });
  });
}

template <class T>
constexpr CrossEntropyKernels<T> kTable{sparse<T>, sparse_gradient<T>, dense<T>, dense_gradient<T>};

}  // namespace

const CrossEntropyKernels<float>* cross_entropy_f32() { return &kTable<float>; }
const CrossEntropyKernels<double>* cross_entropy_f64() { return &kTable<double>; }

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg::cpu {

HWY_EXPORT(cross_entropy_f32);
HWY_EXPORT(cross_entropy_f64);

template <>
const CrossEntropyKernels<float>& cross_entropy_kernels() {
  return *HWY_DYNAMIC_DISPATCH(cross_entropy_f32)();
}

template <>
const CrossEntropyKernels<double>& cross_entropy_kernels() {
  return *HWY_DYNAMIC_DISPATCH(cross_entropy_f64)();
}

}  // namespace thalweg::cpu
#endif
