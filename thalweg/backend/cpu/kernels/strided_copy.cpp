#include "thalweg/backend/cpu/kernels/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "thalweg/core/small_vector.h"
#include "thalweg/core/thread_pool.h"

namespace thalweg::cpu {
namespace {

constexpr std::int64_t task_bytes = 128 * 1024;

// One loop of a copy; strides in bytes.
struct Loop {
  std::int64_t size, from, to;
};
using Loops = SmallVector<Loop, 8>;

// N bytes moved at once, whatever they mean and however they are aligned.
template <int N>
struct Block {
  std::byte bytes[N];
};

template <int N>
const Block<N>& block(const std::byte* at) {
  return *reinterpret_cast<const Block<N>*>(at);
}
template <int N>
Block<N>& block(std::byte* at) {
  return *reinterpret_cast<Block<N>*>(at);
}

// Calls f(std::integral_constant<int, N>) for the block sizes that loads and stores move whole.
bool is_block(std::int64_t bytes) { return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16; }

template <class F>
void with_block(std::int64_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f(std::integral_constant<int, 1>{});
    case 2: return f(std::integral_constant<int, 2>{});
    case 4: return f(std::integral_constant<int, 4>{});
    case 8: return f(std::integral_constant<int, 8>{});
    default: return f(std::integral_constant<int, 16>{});
  }
}

// Loops of one step dropped, and neighbours joined that walk both arrays as one.
Loops collapse(const Ints& from, const Ints& to, const Ints& sizes, std::int64_t bytes) {
  Loops loops;
  for (int i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1) continue;
    const Loop loop{sizes[i], from[i] * bytes, to[i] * bytes};
    const bool joins =
        !loops.empty() && loops.back().from == loop.size * loop.from && loops.back().to == loop.size * loop.to;
    if (joins)
      loops.back() = {loops.back().size * loop.size, loop.from, loop.to};
    else
      loops.push_back(loop);
  }
  return loops;
}

// Calls leaf(from, to, begin, end) for every step of the outer loops; a leaf has `items` items of `item_bytes` each and
// is cut when it is long. The cuts depend on sizes alone.
template <class Leaf>
void for_each_leaf(const Loops& outer, const std::byte* from, std::byte* to, std::int64_t items,
                   std::int64_t item_bytes, const Leaf& leaf) {
  std::int64_t leaves = 1;
  for (const auto& loop : outer) leaves *= loop.size;
  const std::int64_t items_at_once = std::clamp<std::int64_t>(task_bytes / item_bytes, 1, items);
  const std::int64_t pieces = (items + items_at_once - 1) / items_at_once;
  const std::int64_t leaves_at_once = pieces > 1 ? 1 : std::max<std::int64_t>(1, task_bytes / (items * item_bytes));
  const auto run = [&](std::int64_t first, std::int64_t last, std::int64_t begin, std::int64_t end) {
    std::int64_t place[16];
    std::int64_t from_offset = 0, to_offset = 0;
    const int depth = static_cast<int>(outer.size());
    for (std::int64_t d = depth - 1, rest = first; d >= 0; --d) {
      const auto& loop = outer[static_cast<std::size_t>(d)];
      place[d] = rest % loop.size;
      rest /= loop.size;
      from_offset += place[d] * loop.from, to_offset += place[d] * loop.to;
    }
    for (std::int64_t i = first; i < last; ++i) {
      leaf(from + from_offset, to + to_offset, begin, end);
      for (int d = depth - 1; d >= 0; --d) {
        const auto& loop = outer[static_cast<std::size_t>(d)];
        from_offset += loop.from, to_offset += loop.to;
        if (++place[d] < loop.size) break;
        from_offset -= loop.size * loop.from, to_offset -= loop.size * loop.to;
        place[d] = 0;
      }
    }
  };
  parallel_for((leaves + leaves_at_once - 1) / leaves_at_once * pieces, [&](std::int64_t task) {
    const std::int64_t first = task / pieces * leaves_at_once, begin = task % pieces * items_at_once;
    run(first, std::min(leaves, first + leaves_at_once), begin, std::min(items, begin + items_at_once));
  });
}

// The first stretch is written one by one, the rest copied from it.
template <int N>
void fill(std::byte* to, const std::byte* value, std::int64_t count) {
  const Block<N> element = block<N>(value);
  const std::int64_t stretch = std::min<std::int64_t>(count, 4096 / N);
  for (std::int64_t i = 0; i < stretch; ++i) block<N>(to + i * N) = element;
  for (std::int64_t i = stretch; i < count; i += stretch)
    std::memcpy(to + i * N, to, static_cast<std::size_t>(std::min(stretch, count - i) * N));
}

typedef std::int32_t Lanes __attribute__((vector_size(16)));
typedef std::int16_t NarrowLanes __attribute__((vector_size(16)));

// So many elements of N bytes are turned round at once; 1: no faster than one by one.
template <int N>
constexpr std::int64_t turned_at_once = N == 4   ? 4
                                        : N <= 2 ? 8
                                                 : 1;

template <int N>
void turn_round(const std::byte* from, std::byte* to) {
  if constexpr (N == 1) {
    std::uint64_t bytes;
    std::memcpy(&bytes, from, 8);
    bytes = __builtin_bswap64(bytes);
    std::memcpy(to, &bytes, 8);
  } else if constexpr (N == 2) {
    NarrowLanes lanes;
    std::memcpy(&lanes, from, 16);
    lanes = __builtin_shufflevector(lanes, lanes, 7, 6, 5, 4, 3, 2, 1, 0);
    std::memcpy(to, &lanes, 16);
  } else {
    Lanes lanes;
    std::memcpy(&lanes, from, 16);
    lanes = __builtin_shufflevector(lanes, lanes, 3, 2, 1, 0);
    std::memcpy(to, &lanes, 16);
  }
}

// Elements from back to front: `from` is where the first one stands. The last stretch may overlap the one before.
template <int N>
void copy_reversed(const std::byte* from, std::byte* to, std::int64_t count) {
  constexpr std::int64_t stretch = turned_at_once<N>;
  const auto turn_at = [&](std::int64_t i) { turn_round<N>(from - N * (i + stretch - 1), to + N * i); };
  if (count < stretch) {
    for (std::int64_t i = 0; i < count; ++i) block<N>(to + N * i) = block<N>(from - N * i);
    return;
  }
  for (std::int64_t i = 0; i + stretch <= count; i += stretch) turn_at(i);
  if (count % stretch > 0) turn_at(count - stretch);
}

template <int N>
void copy_strided(const Loops& outer, const Loop& inner, const std::byte* from, std::byte* to) {
  constexpr bool turns = turned_at_once<N> != 1;
  for_each_leaf(outer, from, to, inner.size, N,
                [inner](const std::byte* source, std::byte* target, std::int64_t begin, std::int64_t end) {
                  if (inner.from == 0 && inner.to == N) return fill<N>(target + begin * N, source, end - begin);
                  if constexpr (turns)
                    if (inner.from == -N && inner.to == N)
                      return copy_reversed<N>(source - begin * N, target + begin * N, end - begin);
                  for (std::int64_t i = begin; i < end; ++i)
                    block<N>(target + i * inner.to) = block<N>(source + i * inner.from);
                });
}

// Four rows of four 4-byte elements, turned.
inline void turn4(const std::byte* from, std::int64_t from_row, std::byte* to, std::int64_t to_row) {
  Lanes a, b, c, d;
  std::memcpy(&a, from, 16);
  std::memcpy(&b, from + from_row, 16);
  std::memcpy(&c, from + 2 * from_row, 16);
  std::memcpy(&d, from + 3 * from_row, 16);
  const Lanes ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Lanes cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const Lanes rows[] = {
      __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5), __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
      __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
  for (int i = 0; i < 4; ++i) std::memcpy(to + i * to_row, &rows[i], 16);
}

// Turns a tile in a small buffer, so that both arrays are touched in whole cache lines whatever their strides.
// from [rows, columns], columns side by side; to [columns, rows], rows side by side.
template <int N, int tile>
void turn_tile(const std::byte* from, std::int64_t from_row, std::byte* to, std::int64_t to_row, std::int64_t rows,
               std::int64_t columns) {
  alignas(64) std::byte buffer[tile * tile * N];
  constexpr std::int64_t buffer_row = tile * N;
  std::int64_t whole_rows = 0, whole_columns = 0;
  if constexpr (N == 4) {
    whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
    for (std::int64_t r = 0; r < whole_rows; r += 4)
      for (std::int64_t c = 0; c < whole_columns; c += 4)
        turn4(from + r * from_row + c * N, from_row, buffer + c * buffer_row + r * N, buffer_row);
  }
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c)
      block<N>(buffer + c * buffer_row + r * N) = block<N>(from + r * from_row + c * N);
  for (std::int64_t c = 0; c < columns; ++c)
    std::memcpy(to + c * to_row, buffer + c * buffer_row, static_cast<std::size_t>(rows * N));
}

// `across` walks `from` element by element, `along` walks `to` so: a matrix transpose inside the outer loops.
template <int N>
void copy_turned(const Loops& outer, const Loop& across, const Loop& along, const std::byte* from, std::byte* to) {
  constexpr int tile = N == 16 ? 16 : 32;
  const std::int64_t tiles_along = (along.size + tile - 1) / tile, tiles_across = (across.size + tile - 1) / tile;
  for_each_leaf(outer, from, to, tiles_along * tiles_across, tile * tile * N,
                [=](const std::byte* source, std::byte* target, std::int64_t begin, std::int64_t end) {
                  for (std::int64_t t = begin; t < end; ++t) {
                    const std::int64_t i = t / tiles_along * tile, j = t % tiles_along * tile;
                    turn_tile<N, tile>(source + i * N + j * along.from, along.from, target + i * across.to + j * N,
                                       across.to, std::min<std::int64_t>(tile, along.size - j),
                                       std::min<std::int64_t>(tile, across.size - i));
                  }
                });
}

// The place of the loop that walks `from` block by block, or the number of loops.
std::size_t find_across(const Loops& loops, std::int64_t bytes) {
  return static_cast<std::size_t>(
      std::find_if(loops.begin(), loops.end(), [&](const Loop& loop) { return loop.from == bytes; }) - loops.begin());
}

void copy_blocks(Loops loops, const std::byte* from, std::byte* to, std::int64_t bytes) {
  const Loop inner = loops.back();
  loops.pop_back();
  const std::size_t k = inner.to == bytes ? find_across(loops, bytes) : loops.size();
  with_block(bytes, [&]<int N>(std::integral_constant<int, N>) {
    if (k == loops.size()) return copy_strided<N>(loops, inner, from, to);
    const Loop across = loops[k];
    Loops outer(loops.begin(), loops.begin() + k);
    outer.append(loops.begin() + k + 1, loops.end());
    copy_turned<N>(outer, across, inner, from, to);
  });
}

}  // namespace

void strided_copy(const void* from, const Ints& from_strides, void* to, const Ints& to_strides, const Ints& sizes,
                  std::int64_t element_bytes) {
  if (sizes.contains(0)) return;
  const auto* source = static_cast<const std::byte*>(from);
  auto* target = static_cast<std::byte*>(to);
  Loops loops = collapse(from_strides, to_strides, sizes, element_bytes);
  std::int64_t run = element_bytes;  // bytes that lie side by side in both arrays
  if (!loops.empty() && loops.back().from == element_bytes && loops.back().to == element_bytes) {
    run *= loops.back().size;
    loops.pop_back();
  }
  if (!loops.empty() && is_block(run)) return copy_blocks(std::move(loops), source, target, run);
  for_each_leaf(loops, source, target, run, 1,
                [](const std::byte* s, std::byte* t, std::int64_t begin, std::int64_t end) {
                  std::memcpy(t + begin, s + begin, static_cast<std::size_t>(end - begin));
                });
}

Ints row_major_strides(const Shape& shape) {
  Ints strides(shape.rank(), 1);
  for (int i = shape.rank() - 2; i >= 0; --i) strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

void fill_elements(void* to, std::int64_t count, const void* value, std::int64_t element_bytes) {
  strided_copy(value, {0}, to, {1}, {count}, element_bytes);
}

}  // namespace thalweg::cpu
