#include "thalweg/backend/cpu/kernels/rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "thalweg/core/check.h"
#include "thalweg/core/convert.h"
#include "thalweg/core/thread_pool.h"

namespace thalweg::cpu {
namespace {

using Position = std::uint32_t;

// What a row is added in.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, double>, double,
                                       std::conditional_t<std::is_integral_v<T>, std::uint64_t, float>>;

struct Add {
  template <class T>
  static T combine(T a, T b) {
    return a + b;
  }
};

struct Max {
  template <class T>
  static T combine(T a, T b) {
    if constexpr (std::is_same_v<T, std::uint64_t>)
      return static_cast<std::int64_t>(a) < static_cast<std::int64_t>(b) ? b : a;
    else
      return b > a || std::isnan(b) ? b : a;
  }
};

template <class T>
Accumulator<T> load(T value) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  else
    return static_cast<Accumulator<T>>(value);
}

template <class T>
T store(Accumulator<T> value) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(value);
  else
    return convert<T>(value);
}

// Narrow rows in full precision gain nothing from an order by row.
bool in_order_of_positions(std::int64_t count, std::int64_t width, DType dtype) {
  return (width < 8 && size_of(dtype) != 2) || count > std::numeric_limits<Position>::max();
}

// The positions of ids that are not negative, ordered by id, equal ids in ascending position. Least digit first.
std::span<const Position> order_by_id(const std::int64_t* ids, std::int64_t count, Position* order, Position* other) {
  std::int64_t kept = 0, largest = 0;
  bool sorted = true;
  for (std::int64_t i = 0; i < count; ++i) {
    if (ids[i] < 0) continue;
    sorted &= ids[i] >= largest;
    largest = std::max(largest, ids[i]);
    order[kept++] = static_cast<Position>(i);
  }
  if (sorted) return {order, static_cast<std::size_t>(kept)};
  constexpr int most_bits = 12;  // of a digit; as few digits as can be, all of them as long
  const int bits = 64 - std::countl_zero(static_cast<std::uint64_t>(largest));
  const int digits = (bits + most_bits - 1) / most_bits, digit_bits = (bits + digits - 1) / digits;
  for (int shift = 0; shift < bits; shift += digit_bits) {
    const auto digit = [&](Position p) { return static_cast<std::size_t>(ids[p] >> shift & ((1 << digit_bits) - 1)); };
    std::array<Position, 1 << most_bits> start;
    std::fill_n(start.begin(), 1 << digit_bits, 0);
    for (std::int64_t k = 0; k < kept; ++k) ++start[digit(order[k])];
    Position total = 0;
    for (int i = 0; i < 1 << digit_bits; ++i) total += std::exchange(start[static_cast<std::size_t>(i)], total);
    for (std::int64_t k = 0; k < kept; ++k) other[start[digit(order[k])]++] = order[k];
    std::swap(order, other);
  }
  return {order, static_cast<std::size_t>(kept)};
}

// Combines the value rows of one table row, `columns` at a time in registers.
template <class Combine, int columns, class T>
void update_columns(T* row, const T* values, std::span<const Position> positions, std::int64_t width) {
  Accumulator<T> sum[columns];
  for (int j = 0; j < columns; ++j) sum[j] = load(row[j]);
  for (const Position p : positions) {
    const T* value = values + p * width;
    for (int j = 0; j < columns; ++j) sum[j] = Combine::combine(sum[j], load(value[j]));
  }
  for (int j = 0; j < columns; ++j) row[j] = store<T>(sum[j]);
}

template <class Combine, class T>
void update_row(T* row, const T* values, std::span<const Position> positions, std::int64_t width) {
  std::int64_t j = 0;
  for (; j + 8 <= width; j += 8) update_columns<Combine, 8>(row + j, values + j, positions, width);
  for (; j < width; ++j) update_columns<Combine, 1>(row + j, values + j, positions, width);
}

// A task takes the table rows whose first position lies in its stretch of the order.
template <class Combine, class T>
void update_by_rows(const RowUpdate& update, std::span<const Position> order) {
  auto* table = static_cast<T*>(update.table);
  const auto* values = static_cast<const T*>(update.values);
  const auto id = [&](std::size_t k) { return update.ids[order[k]]; };
  const std::int64_t grain = std::max<std::int64_t>(1, 32 * 1024 / std::max<std::int64_t>(update.width, 1));
  parallel_ranges(static_cast<std::int64_t>(order.size()), grain, [&](std::int64_t begin, std::int64_t end) {
    auto k = static_cast<std::size_t>(begin);
    while (k > 0 && k < order.size() && id(k) == id(k - 1)) ++k;
    while (k < static_cast<std::size_t>(end)) {
      std::size_t last = k + 1;
      while (last < order.size() && id(last) == id(k)) ++last;
      update_row<Combine>(table + id(k) * update.width, values, order.subspan(k, last - k), update.width);
      k = last;
    }
  });
}

template <class Combine, class T>
void update_by_positions(const RowUpdate& update) {
  const auto* values = static_cast<const T*>(update.values);
  for (std::int64_t i = 0; i < update.count; ++i) {
    if (update.ids[i] < 0) continue;
    T* row = static_cast<T*>(update.table) + update.ids[i] * update.width;
    for (std::int64_t j = 0; j < update.width; ++j)
      row[j] = store<T>(Combine::combine(load(row[j]), load(values[i * update.width + j])));
  }
}

template <class Combine>
void update_rows(const RowUpdate& update, std::span<std::byte> scratch) {
  const bool by_positions = in_order_of_positions(update.count, update.width, update.dtype);
  std::span<const Position> order;
  if (!by_positions) {
    auto* positions = reinterpret_cast<Position*>(scratch.data());
    order = order_by_id(update.ids, update.count, positions, positions + update.count);
  }
  with_type(update.dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (!std::is_same_v<T, bool>) {
      if (by_positions)
        update_by_positions<Combine, T>(update);
      else
        update_by_rows<Combine, T>(update, order);
    }
  });
}

}  // namespace

std::int64_t row_update_scratch(std::int64_t count, std::int64_t width, DType dtype) {
  return in_order_of_positions(count, width, dtype) ? 0 : 2 * count * static_cast<std::int64_t>(sizeof(Position));
}

void add_rows(const RowUpdate& update, std::span<std::byte> scratch) { update_rows<Add>(update, scratch); }

void max_rows(const RowUpdate& update, std::span<std::byte> scratch) { update_rows<Max>(update, scratch); }

std::int64_t distinct_ids_scratch(std::int64_t count) {
  return 2 * count * static_cast<std::int64_t>(sizeof(Position));
}

void distinct_ids(const std::int64_t* ids, std::int64_t count, std::int64_t* rows, std::int64_t* places,
                  std::span<std::byte> scratch) {
  TW_CHECK_INTERNAL(count <= std::numeric_limits<Position>::max(), "distinct_ids", "{} ids are too many", count);
  auto* positions = reinterpret_cast<Position*>(scratch.data());
  std::int64_t found = 0;
  std::fill_n(places, count, -1);
  for (const Position p : order_by_id(ids, count, positions, positions + count)) {
    if (found == 0 || rows[found - 1] != ids[p]) rows[found++] = ids[p];
    places[p] = found - 1;
  }
  std::fill(rows + found, rows + count, -1);
}

namespace {

// f(i) for every row, with enough bytes a task. Rows of a table lie anywhere: those that come next are asked for early.
template <class F>
void for_rows(const void* table, const std::int64_t* ids, std::int64_t count, std::int64_t row_bytes, const F& f) {
  constexpr std::int64_t ahead = 16;
  const std::int64_t grain = std::max<std::int64_t>(1, 128 * 1024 / std::max<std::int64_t>(row_bytes, 1));
  parallel_ranges(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (i + ahead < end && ids[i + ahead] >= 0)
        __builtin_prefetch(static_cast<const std::byte*>(table) + ids[i + ahead] * row_bytes);
      f(i);
    }
  });
}

}  // namespace

void put_rows(const RowUpdate& update) {
  const std::int64_t bytes = update.width * size_of(update.dtype);
  auto* table = static_cast<std::byte*>(update.table);
  const auto* values = static_cast<const std::byte*>(update.values);
  for_rows(table, update.ids, update.count, bytes, [&](std::int64_t i) {
    if (update.ids[i] >= 0)
      std::memcpy(table + update.ids[i] * bytes, values + i * bytes, static_cast<std::size_t>(bytes));
  });
}

void take_rows(const void* table, const std::int64_t* ids, std::int64_t count, std::int64_t row_bytes, void* to) {
  const auto bytes = static_cast<std::size_t>(row_bytes);
  for_rows(table, ids, count, row_bytes, [&](std::int64_t i) {
    auto* row = static_cast<std::byte*>(to) + i * row_bytes;
    if (ids[i] < 0)
      std::memset(row, 0, bytes);
    else
      std::memcpy(row, static_cast<const std::byte*>(table) + ids[i] * row_bytes, bytes);
  });
}

}  // namespace thalweg::cpu
