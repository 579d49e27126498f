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

// Rows of few classes would leave most lanes empty: there a lane takes a row, and sixteen rows are done at a time. On
// two threads of an Emerald Rapids 4,096 rows of 10 classes take 25 instead of 65 us, of 20 classes 36 instead of 86;
// of 47 classes both take 78.
constexpr std::int64_t kFewClasses = 32;
constexpr std::int64_t kTile = kFewClasses * kLanes, kFlatTile = kTile + kLanes;

// columns [n][kLanes] = x [rows, n] turned, 0 beyond
template <class S, class T = Wide<S>>
HWY_NOINLINE void turn(const S* x, std::int64_t rows, std::int64_t n, T* columns) {
  if (rows < kLanes) std::fill_n(columns, n * kLanes, T(0));
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t c = 0; c < n; ++c) columns[c * kLanes + row] = static_cast<T>(x[row * n + c]);
}

// A lane for each of sixteen rows.
template <class T>
struct TileSums {
  Lanes<T> top{kMinusInfinity<T>}, total{T(0)};

  HWY_NOINLINE TileSums(const T* columns, std::int64_t n) {
    for (std::int64_t c = 0; c < n; ++c) top = max(top, load(columns + c * kLanes));
    for (std::int64_t c = 0; c < n; ++c) total = total + exp(load(columns + c * kLanes) - top);
  }

  void keep(std::int64_t rows, T* statistics) const {
    alignas(64) T tops[kLanes], weights[kLanes];
    store(top, tops);
    store(Lanes<T>(T(1)) / total, weights);
    for (std::int64_t row = 0; row < rows; ++row)
      statistics[2 * row] = tops[row], statistics[2 * row + 1] = weights[row];
  }
};

// flat [rows, n]: value(row), as often as the row has classes. Whole vectors are written: the next row overwrites what
// is too much, and flat has room for it behind the last.
template <class T, class Value>
HWY_INLINE void repeat(std::int64_t rows, std::int64_t n, Value value, T* flat) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const Lanes<T> lanes(value(row));
    for (std::int64_t c = 0; c < n; c += kLanes) store(lanes, flat + row * n + c);
  }
}

// Gradients of sixteen rows are computed element after element, unless rows are whole vectors anyway: 10 classes take
// 15 instead of 21 us, 20 take 24 instead of 33, 47 take 48 instead of 41.
bool is_flat(std::int64_t n) { return n < kFewClasses && n % kLanes != 0; }

// body(first, count) for tiles of at most sixteen rows, in tasks of about 4,096 elements, a few microseconds.
template <class Body>
void for_each_tile(std::int64_t rows, std::int64_t n, Body body) {
  const std::int64_t grain = divide_up(4096, n * kLanes) * kLanes;
  parallel_ranges(rows, grain, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for (std::int64_t first = begin; first < end; first += kLanes)
      body(first, std::min<std::int64_t>(kLanes, end - first));
  });
}

template <class Body>
void for_each_row(std::int64_t rows, std::int64_t n, Body body) {
  parallel_ranges(rows, rows_per_task(n), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for (std::int64_t row = begin; row < end; ++row) body(row);
  });
}

template <class S, class T = Wide<S>>
void sparse_few(const S* logits, IndexView labels, std::int64_t rows, std::int64_t n, T* loss, T* statistics) {
  for_each_tile(rows, n, [&](std::int64_t first, std::int64_t count) HWY_ATTR {
    alignas(64) T columns[kTile], of_label[kLanes] = {};
    turn(logits + first * n, count, n, columns);
    const TileSums<T> sums(columns, n);
    for (std::int64_t i = 0; i < count; ++i) of_label[i] = columns[labels[first + i] * kLanes + i];
    store_first(log(sums.total) - (load(of_label) - sums.top), loss + first, static_cast<int>(count));
    sums.keep(count, statistics + 2 * first);
  });
}

template <class S, class T = Wide<S>>
void sparse(const S* logits, IndexView labels, std::int64_t rows, std::int64_t n, T* loss, T* statistics) {
  if (n <= kFewClasses) return sparse_few(logits, labels, rows, n, loss, statistics);
  for_each_row(rows, n, [&](std::int64_t row) HWY_ATTR {
    const S* x = logits + row * n;
    const RowSum<T> found = row_sum(x, n);
    loss[row] = std::log(found.total) - (static_cast<T>(x[labels[row]]) - found.top);
    found.keep(statistics + 2 * row);
  });
}

// Takes the label from the softmax times dloss. of_label is its logit, which the gradient may have replaced.
template <class S, class T = Wide<S>>
HWY_INLINE void subtract_label(S& dx, T of_label, const T* statistics, T dloss) {
  if constexpr (std::is_same_v<S, T>)
    dx -= dloss;
  else  // anew: what is stored has been rounded, and may be almost dloss
    dx = S((std::exp(of_label - statistics[0]) * statistics[1] - T(1)) * dloss);
}

template <class S, class T = Wide<S>>
void sparse_gradient_few(const S* logits, IndexView labels, const T* statistics, const T* dloss, std::int64_t rows,
                         std::int64_t n, S* dlogits) {
  for_each_tile(rows, n, [&](std::int64_t first, std::int64_t count) HWY_ATTR {
    const S* x = logits + first * n;
    S* dx = dlogits + first * n;
    alignas(64) T tops[kFlatTile], factors[kFlatTile];
    T of_label[kLanes];
    repeat(
        count, n, [&](std::int64_t i) { return statistics[2 * (first + i)]; }, tops);
    repeat(
        count, n, [&](std::int64_t i) { return statistics[2 * (first + i) + 1] * dloss[first + i]; }, factors);
    for (std::int64_t i = 0; i < count; ++i) of_label[i] = static_cast<T>(x[i * n + labels[first + i]]);
    for_each_chunk<T>(count * n, [&](auto chunk) HWY_ATTR {
      chunk.store(exp(chunk.load(x) - chunk.load(tops)) * chunk.load(factors), dx);
    });
    for (std::int64_t i = 0; i < count; ++i)
      subtract_label(dx[i * n + labels[first + i]], of_label[i], statistics + 2 * (first + i), dloss[first + i]);
  });
}

template <class S, class T = Wide<S>>
void sparse_gradient(const S* logits, IndexView labels, const T* statistics, const T* dloss, std::int64_t rows,
                     std::int64_t n, S* dlogits) {
  if (is_flat(n)) return sparse_gradient_few(logits, labels, statistics, dloss, rows, n, dlogits);
  for_each_row(rows, n, [&](std::int64_t row) HWY_ATTR {
    const S* x = logits + row * n;
    S* dx = dlogits + row * n;
    const Lanes<T> top(statistics[2 * row]), factor(statistics[2 * row + 1] * dloss[row]);
    const std::int64_t label = labels[row];
    const T of_label = static_cast<T>(x[label]);
    for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR { chunk.store(exp(chunk.load(x) - top) * factor, dx); });
    subtract_label(dx[label], of_label, statistics + 2 * row, dloss[row]);
  });
}

template <class S, class T = Wide<S>>
void dense_few(const S* logits, const T* labels, std::int64_t rows, std::int64_t n, T* loss, T* statistics) {
  for_each_tile(rows, n, [&](std::int64_t first, std::int64_t count) HWY_ATTR {
    alignas(64) T columns[kTile], label[kTile];
    turn(logits + first * n, count, n, columns);
    turn(labels + first * n, count, n, label);
    const TileSums<T> sums(columns, n);
    const Lanes<T> log_total = log(sums.total);
    Lanes<T> total(T(0));
    for (std::int64_t c = 0; c < n; ++c)
      total = total + load(label + c * kLanes) * (log_total - (load(columns + c * kLanes) - sums.top));
    store_first(total, loss + first, static_cast<int>(count));
    sums.keep(count, statistics + 2 * first);
  });
}

template <class S, class T = Wide<S>>
void dense(const S* logits, const T* labels, std::int64_t rows, std::int64_t n, T* loss, T* statistics) {
  if (n <= kFewClasses) return dense_few(logits, labels, rows, n, loss, statistics);
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
void dense_gradient_few(const S* logits, const T* labels, const T* statistics, const T* dloss, std::int64_t rows,
                        std::int64_t n, S* dlogits) {
  for_each_tile(rows, n, [&](std::int64_t first, std::int64_t count) HWY_ATTR {
    const S* x = logits + first * n;
    const T* label = labels + first * n;
    S* dx = dlogits + first * n;
    alignas(64) T tops[kFlatTile], weights[kFlatTile], factors[kFlatTile];
    repeat(
        count, n, [&](std::int64_t i) { return statistics[2 * (first + i)]; }, tops);
    repeat(
        count, n, [&](std::int64_t i) { return statistics[2 * (first + i) + 1]; }, weights);
    repeat(
        count, n, [&](std::int64_t i) { return dloss[first + i]; }, factors);
    for_each_chunk<T>(count * n, [&](auto chunk) HWY_ATTR {
      const Lanes<T> softmax = exp(chunk.load(x) - chunk.load(tops)) * chunk.load(weights);
      chunk.store((softmax - chunk.load(label)) * chunk.load(factors), dx);
    });
  });
}

template <class S, class T = Wide<S>>
void dense_gradient(const S* logits, const T* labels, const T* statistics, const T* dloss, std::int64_t rows,
                    std::int64_t n, S* dlogits) {
  if (is_flat(n)) return dense_gradient_few(logits, labels, statistics, dloss, rows, n, dlogits);
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
