#include "thalweg/ops/sort/sort.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "thalweg/core/check.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/axes.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/sort/along.h"
#include "thalweg/ops/transpose/transpose.h"

namespace thalweg {
namespace {

// Both order places by the elements of a row of the last axis; what is taken from there is take_along's work.
struct ArgSort {
  bool descending;
};
TW_FIELDS(ArgSort, descending)

struct TopPlaces {
  std::int64_t k;
};
TW_FIELDS(TopPlaces, k)

void check_row(const char* op, const Spec& x) {
  TW_CHECK_USER(x.rank() >= 1, op, "a scalar has nothing to order",
                "expected a tensor of rank 1 or more, got a scalar");
  TW_CHECK_USER(x.shape.last() <= std::numeric_limits<std::int32_t>::max(), op, "places are 32-bit integers",
                "expected at most 2147483647 elements along the axis, got {}", x.shape);
}

template <class T>
bool less_than(T a, T b) {
  return a < b || (b != b && a == a);
}

// Whether place a comes before place b.
template <class T>
struct Before {
  const T* x;
  bool descending;
  bool operator()(std::int32_t a, std::int32_t b) const {
    const T first = x[descending ? b : a], second = x[descending ? a : b];
    if (less_than(first, second)) return true;
    return !less_than(second, first) && a < b;
  }
};

// order(before, places of the row) for every row of x [rows, n].
template <class Order>
void for_each_row(const Array& x, const Array& places, bool descending, const Order& order) {
  const std::int64_t n = x.shape().last(), m = places.shape().last();
  if (places.size() == 0) return;
  with_type(x.dtype(), [&]<class T>(TypeTag<T>) {
    parallel_ranges(places.size() / m, std::max<std::int64_t>(1, 4096 / n), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        order(Before<T>{x.as<const T>() + row * n, descending}, places.as<std::int32_t>() + row * m);
    });
  });
}

Specs infer(const ArgSort&, Inputs in) {
  check_row("argsort", in[0]);
  return {Spec{i32, in[0].shape}};
}

void run(const ArgSort& op, Arrays in, Arrays out) {
  const std::int64_t n = in[0].shape().last();
  for_each_row(in[0], out[0], op.descending, [n](const auto& before, std::int32_t* places) {
    std::iota(places, places + n, 0);
    std::sort(places, places + n, before);
  });
}

[[maybe_unused]] bool differentiable(const ArgSort&) { return false; }

Specs infer(const TopPlaces& op, Inputs in) {
  check_row("top_k", in[0]);
  TW_CHECK_USER(op.k >= 0 && op.k <= in[0].shape.last(), "top_k", "k counts elements of the last axis",
                "expected k from 0 to {} for x {}, got {}", in[0].shape.last(), in[0].shape, op.k);
  return {Spec{i32, in[0].shape.with(in[0].rank() - 1, op.k)}};
}

// A heap of the best k so far, the worst of them on top; no copy of the row is made.
void run(const TopPlaces& op, Arrays in, Arrays out) {
  const auto n = static_cast<std::int32_t>(in[0].shape().last()), k = static_cast<std::int32_t>(op.k);
  for_each_row(in[0], out[0], true, [n, k](const auto& before, std::int32_t* places) {
    std::iota(places, places + k, 0);
    std::make_heap(places, places + k, before);
    for (std::int32_t i = k; i < n; ++i) {
      if (!before(i, places[0])) continue;
      std::pop_heap(places, places + k, before);
      places[k - 1] = i;
      std::push_heap(places, places + k, before);
    }
    std::sort_heap(places, places + k, before);
  });
}

[[maybe_unused]] bool differentiable(const TopPlaces&) { return false; }

// The order of axes that swaps one with the last.
Ints swap_with_last(int axis, int rank) {
  Ints order;
  for (int i = 0; i < rank; ++i) order.push_back(i);
  std::swap(order[axis], order[rank - 1]);
  return order;
}

// f(x) with the axis last, and back.
template <class F>
Tensor along_axis(const char* op, const Tensor& x, std::int64_t axis, const F& f) {
  check_defined(op, x);
  const int resolved = resolve_axis(op, axis, x.rank());
  if (resolved == x.rank() - 1) return f(x);
  const Ints order = swap_with_last(resolved, x.rank());
  return transpose(f(transpose(x, order)), order);
}

BatchStates batch_rule(const ArgSort&, Inputs in, BatchStates& states, std::int64_t examples) {
  return leading_axes_rule(in, states, examples, in[0].rank() - 1);
}
BatchStates batch_rule(const TopPlaces&, Inputs in, BatchStates& states, std::int64_t examples) {
  return leading_axes_rule(in, states, examples, in[0].rank() - 1);
}

}  // namespace

TW_DEFINE_OP(argsort, ArgSort)
TW_DEFINE_OP(top_k, TopPlaces)

Tensor argsort(const Tensor& x, const Sort& options) {
  return along_axis("argsort", x, options.axis,
                    [&](const Tensor& rows) { return apply(argsort_info(), ArgSort{options.descending}, {rows})[0]; });
}

Tensor sort(const Tensor& x, const Sort& options) {
  return along_axis("sort", x, options.axis, [&](const Tensor& rows) {
    return take_along(rows, argsort(rows, {.descending = options.descending}));
  });
}

TopK top_k(const Tensor& x, std::int64_t k) {
  const Tensor places = apply(top_k_info(), TopPlaces{k}, {x})[0];
  return {take_along(x, places), places};
}

}  // namespace thalweg
