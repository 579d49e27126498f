#include "thalweg/backend/cpu/kernels/embedding.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "thalweg/backend/cpu/kernels/blocks.h"
#include "thalweg/backend/cpu/targets.h"
#include "thalweg/core/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/backend/cpu/kernels/embedding.cpp"
#include <hwy/foreach_target.h>
// After foreach_target: compiled once per target.
#include "thalweg/backend/cpu/kernels/lanes-inl.h"

#ifndef THALWEG_CPU_KERNELS_EMBEDDING_ORDER
#define THALWEG_CPU_KERNELS_EMBEDDING_ORDER
namespace thalweg::cpu {
namespace {

// Positions grouped by id: group g holds positions[starts[g]] … positions[starts[g + 1] - 1], ascending.
struct Groups {
  std::int64_t count;
  const std::int64_t *positions, *starts;
};

// positions [n] ordered by id, stable: a radix sort on digits of 11 bits. Returns whichever of the two arrays holds it.
std::int64_t* order_by_id(IndexView ids, std::int64_t n, std::int64_t rows, std::int64_t* positions,
                          std::int64_t* spare) {
  constexpr int kDigit = 11;
  std::iota(positions, positions + n, std::int64_t{0});
  const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(rows - 1, 0))));
  for (int shift = 0; shift < bits; shift += kDigit) {
    const auto digit = [&](std::int64_t position) { return ids[position] >> shift & ((1 << kDigit) - 1); };
    std::int64_t next[1 << kDigit] = {};
    for (std::int64_t i = 0; i < n; ++i) ++next[digit(i)];
    std::exclusive_scan(std::begin(next), std::end(next), std::begin(next), std::int64_t{0});
    for (std::int64_t i = 0; i < n; ++i) spare[next[digit(positions[i])]++] = positions[i];
    std::swap(positions, spare);
  }
  return positions;
}

// workspace: two arrays [n] for the order, of which the free one then holds the starts, one longer.
Groups group_by_id(IndexView ids, std::int64_t n, std::int64_t rows, std::int64_t* workspace) {
  std::int64_t *first = workspace, *second = workspace + n + 1;
  const std::int64_t* positions = order_by_id(ids, n, rows, first, second);
  std::int64_t* starts = positions == first ? second : first;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; ++i)
    if (i == 0 || ids[positions[i]] != ids[positions[i - 1]]) starts[count++] = i;
  starts[count] = n;
  return {count, positions, starts};
}

}  // namespace
}  // namespace thalweg::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {
namespace {

// to [width] += the rows of group g from its member `first` on
template <class T>
void add_group(const RowSum<T>& a, const Groups& groups, std::int64_t g, std::int64_t first, T* to) {
  for (std::int64_t i = groups.starts[g] + first; i < groups.starts[g + 1]; ++i) {
    const T* row = a.values + groups.positions[i] * a.width;
    for_each_chunk<T>(a.width, [&](auto chunk) HWY_ATTR { add_to(chunk, chunk.load(row), to); });
  }
}

template <class T>
void scatter_add(const RowSum<T>& a, T* table) {
  const Groups groups = group_by_id(a.ids, a.n, a.rows, a.workspace);
  parallel_ranges(groups.count, rows_per_task(a.width), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for (std::int64_t g = begin; g < end; ++g)
      add_group(a, groups, g, 0, table + a.ids[groups.positions[groups.starts[g]]] * a.width);
  });
}

template <class T>
std::int64_t sum_duplicates(const RowSum<T>& a, std::int64_t* unique_ids, T* sums) {
  const Groups groups = group_by_id(a.ids, a.n, a.rows, a.workspace);
  parallel_ranges(groups.count, rows_per_task(a.width), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for (std::int64_t g = begin; g < end; ++g) {
      const std::int64_t first = groups.positions[groups.starts[g]];
      unique_ids[g] = a.ids[first];
      std::copy_n(a.values + first * a.width, a.width, sums + g * a.width);
      add_group(a, groups, g, 1, sums + g * a.width);
    }
  });
  return groups.count;
}

template <class T>
constexpr RowSumKernels<T> kTable{scatter_add<T>, sum_duplicates<T>};

}  // namespace

const RowSumKernels<float>* row_sums_f32() { return &kTable<float>; }
const RowSumKernels<double>* row_sums_f64() { return &kTable<double>; }

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg::cpu {

void gather_rows(const void* table, std::size_t row_bytes, IndexView ids, std::int64_t n, void* out) {
  const auto* from = static_cast<const char*>(table);
  auto* to = static_cast<char*>(out);
  const auto bytes = static_cast<std::int64_t>(row_bytes);
  parallel_ranges(n, rows_per_task(bytes / 4), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) std::memcpy(to + i * bytes, from + ids[i] * bytes, row_bytes);
  });
}

std::size_t row_sum_workspace(std::int64_t n) { return static_cast<std::size_t>(2 * (n + 1)); }

HWY_EXPORT(row_sums_f32);
HWY_EXPORT(row_sums_f64);

template <>
const RowSumKernels<float>& row_sum_kernels() {
  return *HWY_DYNAMIC_DISPATCH(row_sums_f32)();
}

template <>
const RowSumKernels<double>& row_sum_kernels() {
  return *HWY_DYNAMIC_DISPATCH(row_sums_f64)();
}

}  // namespace thalweg::cpu
#endif
