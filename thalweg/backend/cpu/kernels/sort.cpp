#include "thalweg/backend/cpu/kernels/sort.h"

#include <algorithm>
#include <bit>
#include <compare>
#include <limits>
#include <type_traits>

#include "thalweg/backend/cpu/kernels/blocks.h"
#include "thalweg/core/thread_pool.h"

namespace thalweg::cpu {
namespace {

// What is sorted: an unsigned key in ascending order and the index, so that no two items are equal.
template <class Key>
struct WideItem {
  Key key;
  std::uint32_t position;
  auto operator<=>(const WideItem&) const = default;
  std::int64_t index() const { return position; }
};

// A key of 32 bits and its index fit into one number.
struct NarrowItem {
  std::uint64_t bits;
  NarrowItem(std::uint32_t key, std::uint32_t position) : bits(std::uint64_t{key} << 32 | position) {}
  auto operator<=>(const NarrowItem&) const = default;
  std::int64_t index() const { return static_cast<std::uint32_t>(bits); }
};

template <class T>
using Key = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
template <class T>
using Item = std::conditional_t<sizeof(T) == 8, WideItem<Key<T>>, NarrowItem>;

// The bytes that every item fits into; their areas are laid out by this size.
constexpr std::size_t kItemBytes = sizeof(WideItem<std::uint64_t>);

// An unsigned number that orders as x does.
template <class T>
Key<T> ascending_key(T x) {
  using K = Key<T>;
  constexpr K kSign = K{1} << (8 * sizeof(K) - 1);
  if constexpr (std::is_floating_point_v<T>) {
    const K bits = std::bit_cast<K>(x == 0 ? T(0) : x);
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<K>(x) ^ kSign;
  } else {
    return x;
  }
}

enum class NanPlace { first, last };

template <class T>
Item<T> make_item(const T* row, std::int64_t i, bool descending, NanPlace nan) {
  Key<T> key = ascending_key(row[i]);
  if (descending) key = ~key;
  if constexpr (std::is_floating_point_v<T>)
    if (row[i] != row[i]) key = nan == NanPlace::first ? 0 : std::numeric_limits<Key<T>>::max();
  return {key, static_cast<std::uint32_t>(i)};
}

// Rows that are worked on at once: their items together stay below 64 MiB, or there is one.
Slots row_slots(std::int64_t rows, std::int64_t items) {
  const std::int64_t bytes = std::max<std::int64_t>(items, 1) * static_cast<std::int64_t>(kItemBytes);
  return {rows, std::clamp<std::int64_t>((std::int64_t{64} << 20) / bytes, 1, 64)};
}

// body(row, items [count] of its own) for every row
template <class T, class Body>
void for_each_row(std::int64_t rows, std::int64_t count, void* workspace, Body body) {
  const Slots slots = row_slots(rows, count);
  auto* bytes = static_cast<std::byte*>(workspace);
  parallel_for(slots.count(), [&](std::int64_t slot) {
    auto* items = reinterpret_cast<Item<T>*>(bytes + slot * count * static_cast<std::int64_t>(kItemBytes));
    slots.for_each_task(slot, [&](std::int64_t row) { body(row, items); });
  });
}

template <class T>
void write_row(const T* row, const Item<T>* items, std::int64_t count, T* values, std::int32_t* indices) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (values != nullptr) values[i] = row[items[i].index()];
    if (indices != nullptr) indices[i] = static_cast<std::int32_t>(items[i].index());
  }
}

template <class P>
P* row_of(P* base, std::int64_t row, std::int64_t n) {
  return base != nullptr ? base + row * n : nullptr;
}

}  // namespace

std::size_t sort_workspace(std::int64_t rows, std::int64_t n) {
  return static_cast<std::size_t>(row_slots(rows, n).count() * n) * kItemBytes;
}

template <class T>
void sort_rows(const T* x, std::int64_t rows, std::int64_t n, bool descending, T* values, std::int32_t* indices,
               void* workspace) {
  for_each_row<T>(rows, n, workspace, [&](std::int64_t row, Item<T>* items) {
    for (std::int64_t i = 0; i < n; ++i)
      std::construct_at(items + i, make_item(x + row * n, i, descending, NanPlace::last));
    std::sort(items, items + n);
    write_row(x + row * n, items, n, row_of(values, row, n), row_of(indices, row, n));
  });
}

// A heap of the k best so far, the worst of them on top: most items are refused by one comparison.
template <class T>
void top_k_rows(const T* x, std::int64_t rows, std::int64_t n, std::int64_t k, T* values, std::int32_t* indices,
                void* workspace) {
  if (k == 0) return;
  for_each_row<T>(rows, k, workspace, [&](std::int64_t row, Item<T>* items) {
    const auto item = [&](std::int64_t i) { return make_item(x + row * n, i, true, NanPlace::first); };
    for (std::int64_t i = 0; i < k; ++i) std::construct_at(items + i, item(i));
    std::make_heap(items, items + k);
    for (std::int64_t i = k; i < n; ++i) {
      const Item<T> next = item(i);
      if (!(next < items[0])) continue;
      std::pop_heap(items, items + k);
      items[k - 1] = next;
      std::push_heap(items, items + k);
    }
    std::sort_heap(items, items + k);
    write_row(x + row * n, items, k, row_of(values, row, k), row_of(indices, row, k));
  });
}

#define THALWEG_INSTANTIATE(T)                                                                      \
  template void sort_rows<T>(const T*, std::int64_t, std::int64_t, bool, T*, std::int32_t*, void*); \
  template void top_k_rows<T>(const T*, std::int64_t, std::int64_t, std::int64_t, T*, std::int32_t*, void*);
THALWEG_INSTANTIATE(float)
THALWEG_INSTANTIATE(double)
THALWEG_INSTANTIATE(std::int32_t)
THALWEG_INSTANTIATE(std::int64_t)
THALWEG_INSTANTIATE(std::uint8_t)
#undef THALWEG_INSTANTIATE

}  // namespace thalweg::cpu
