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

// softmax = exp(x - top) / total and log(sum(exp(x))) = top + log(total), kept apart: differences from top do not lose
// digits when the logits are large.
template <class T>
struct RowSum {
  T top, total;

  void keep(T* statistics) const { statistics[0] = top, statistics[1] = T(1) / total; }
};

template <class S, class T = Wide<S>>
RowSum<T> row_sum(const S* x, std::int64_t n) {
  const T top = row_maximum(x, n);
  return {top, sum_of_exp(x, n, top, [](auto, const Lanes<T>&) HWY_ATTR {})};
}

// Rows of few classes would leave most lanes empty: there a lane takes a row.
constexpr std::int64_t kFewClasses = 8;

template <class S, class T = Wide<S>>
void few_row_sums(const S* x, std::int64_t rows, std::int64_t n, RowSum<T>* found) {
  alignas(64) T columns[kFewClasses][kLanes] = {}, tops[kLanes], totals[kLanes];
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t c = 0; c < n; ++c) columns[c][row] = static_cast<T>(x[row * n + c]);
  Lanes<T> top(kMinusInfinity<T>), total(T(0));
  for (std::int64_t c = 0; c < n; ++c) top = max(top, load(columns[c]));
  for (std::int64_t c = 0; c < n; ++c) total = total + exp(load(columns[c]) - top);
  store(top, tops);
  store(total, totals);
  for (std::int64_t row = 0; row < rows; ++row) found[row] = {tops[row], totals[row]};
}

// Of at most kLanes rows.
template <class S, class T = Wide<S>>
void row_sums(const S* x, std::int64_t rows, std::int64_t n, RowSum<T>* found) {
  if (n <= kFewClasses) return few_row_sums(x, rows, n, found);
  for (std::int64_t row = 0; row < rows; ++row) found[row] = row_sum(x + row * n, n);
}

template <class Body>
void for_each_row(std::int64_t rows, std::int64_t n, Body body) {
  parallel_ranges(rows, rows_per_task(n), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for (std::int64_t row = begin; row < end; ++row) body(row);
  });
}

template <class S, class T = Wide<S>>
void sparse(const S* logits, IndexView labels, std::int64_t rows, std::int64_t n, T* loss, T* statistics) {
  parallel_ranges(rows, rows_per_task(n), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    RowSum<T> found[kLanes];
    for (std::int64_t first = begin; first < end; first += kLanes) {
      const std::int64_t count = std::min<std::int64_t>(kLanes, end - first);
      row_sums(logits + first * n, count, n, found);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t row = first + i;
        const T of_label = static_cast<T>(logits[row * n + labels[row]]);
        loss[row] = std::log(found[i].total) - (of_label - found[i].top);
        found[i].keep(statistics + 2 * row);
      }
    }
  });
}

template <class S, class T = Wide<S>>
void sparse_gradient(const S* logits, IndexView labels, const T* statistics, const T* dloss, std::int64_t rows,
                     std::int64_t n, S* dlogits) {
  for_each_row(rows, n, [&](std::int64_t row) HWY_ATTR {
    const S* x = logits + row * n;
    S* dx = dlogits + row * n;
    const Lanes<T> top(statistics[2 * row]), factor(statistics[2 * row + 1] * dloss[row]);
    const std::int64_t label = labels[row];
    [[maybe_unused]] const T of_label = static_cast<T>(x[label]);  // dx may take its place
    for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR { chunk.store(exp(chunk.load(x) - top) * factor, dx); });
    if constexpr (std::is_same_v<S, T>)
      dx[label] -= dloss[row];
    else  // anew: what the loop stored has been rounded, and may be almost dloss
      dx[label] = S((std::exp(of_label - statistics[2 * row]) * statistics[2 * row + 1] - T(1)) * dloss[row]);
  });
}

template <class S, class T = Wide<S>>
void dense(const S* logits, const T* labels, std::int64_t rows, std::int64_t n, T* loss, T* statistics) {
  for_each_row(rows, n, [&](std::int64_t row) HWY_ATTR {
    const S* x = logits + row * n;
    const T* label = labels + row * n;
    const RowSum<T> found = row_sum(x, n);
    const Lanes<T> top(found.top), log_total(std::log(found.total));
    Lanes<T> total(T(0));
    for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR {
      // A missing element gives 0 * log_total, which is NaN only where the whole row is.
      total = total + chunk.load(label) * (log_total - (chunk.load(x, found.top) - top));
    });
    loss[row] = sum(total);
    found.keep(statistics + 2 * row);
  });
}

template <class S, class T = Wide<S>>
void dense_gradient(const S* logits, const T* labels, const T* statistics, const T* dloss, std::int64_t rows,
                    std::int64_t n, S* dlogits) {
  for_each_row(rows, n, [&](std::int64_t row) HWY_ATTR {
    const S* x = logits + row * n;
    const T* label = labels + row * n;
    S* dx = dlogits + row * n;
    const Lanes<T> top(statistics[2 * row]), weight(statistics[2 * row + 1]), row_dloss(dloss[row]);
    for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR {
      chunk.store((exp(chunk.load(x) - top) * weight - chunk.load(label)) * row_dloss, dx);
    });
  });
}

template <class S>
constexpr CrossEntropyKernels<S> kTable{sparse<S>, sparse_gradient<S>, dense<S>, dense_gradient<S>};

}  // namespace

const CrossEntropyKernels<float>* cross_entropy_f32() { return &kTable<float>; }
const CrossEntropyKernels<double>* cross_entropy_f64() { return &kTable<double>; }
const CrossEntropyKernels<Half>* cross_entropy_f16() { return &kTable<Half>; }
const CrossEntropyKernels<BFloat16>* cross_entropy_bf16() { return &kTable<BFloat16>; }

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg::cpu {

HWY_EXPORT(cross_entropy_f32);
HWY_EXPORT(cross_entropy_f64);
HWY_EXPORT(cross_entropy_f16);
HWY_EXPORT(cross_entropy_bf16);

template <>
const CrossEntropyKernels<float>& cross_entropy_kernels() {
  return *HWY_DYNAMIC_DISPATCH(cross_entropy_f32)();
}

template <>
const CrossEntropyKernels<double>& cross_entropy_kernels() {
  return *HWY_DYNAMIC_DISPATCH(cross_entropy_f64)();
}

template <>
const CrossEntropyKernels<Half>& cross_entropy_kernels() {
  return *HWY_DYNAMIC_DISPATCH(cross_entropy_f16)();
}

template <>
const CrossEntropyKernels<BFloat16>& cross_entropy_kernels() {
  return *HWY_DYNAMIC_DISPATCH(cross_entropy_bf16)();
}

}  // namespace thalweg::cpu
#endif
