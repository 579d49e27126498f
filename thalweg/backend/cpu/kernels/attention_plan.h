#pragma once

// Tasks and scratch of attention: functions of the shape alone, the same for every vector target.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "thalweg/backend/cpu/kernels/attention.h"
#include "thalweg/backend/cpu/kernels/blocks.h"

namespace thalweg::cpu {

// Measured on Zen 4, one core: 128 x 128 takes 0-3 % less time than 64 x 64 at every length from 256 to 16384 and reads
// long sequences half as often from outer caches.
inline constexpr std::int64_t kQueryBlock = 128, kKeyBlock = 128;
inline constexpr std::int64_t kLargestSlab = 32;  // widest pair of vectors, in elements
inline constexpr std::int64_t kRowPad = 16;       // rows are padded to whole vectors of every target

inline constexpr std::int64_t padded(std::int64_t width) { return divide_up(width, kRowPad) * kRowPad; }
inline constexpr bool needs_padding(std::int64_t width) { return width % kRowPad != 0; }
// Few queries or keys take no room for a whole block.
inline constexpr std::int64_t shortened(std::int64_t block, std::int64_t rows) {
  return std::min(block, std::max<std::int64_t>(divide_up(rows, kLargestSlab), 1) * kLargestSlab);
}

// Keys and values pass by once per block of queries. Beyond the inner caches they are best read half as often, where
// that leaves 64 tasks. Measured on Zen 4, one core, T = 8192: 256 instead of 128 queries saves 3 % of forward.
inline constexpr std::int64_t forward_query_block(const AttentionShape& s) {
  const bool large = s.queries >= 2048 && s.batch * s.heads * s.queries >= 64 * 2 * kQueryBlock;
  return shortened(large ? 2 * kQueryBlock : kQueryBlock, s.queries);
}

// Scratch of one forward task (a block of queries of one head), in elements.
struct ForwardScratch {
  std::int64_t block, key_block;  // queries and keys at a time
  std::int64_t queries, scores, output, values, keys, statistics, total;
  explicit ForwardScratch(const AttentionShape& s) {
    const std::int64_t row = padded(s.value_depth);
    block = forward_query_block(s), key_block = shortened(kKeyBlock, s.keys);
    queries = 0;                                 // q^T [slabs][depth][slab]
    scores = queries + block * padded(s.depth);  // [key block][slab]
    output = scores + key_block * kLargestSlab;  // [query block][padded value depth]
    values = output + block * row;               // [key block][padded value depth] where v needs it
    keys = values + (needs_padding(s.value_depth) ? key_block * row : 0);
    // Copies where operands are narrow or spread: at first the queries, [query block][depth]; then k [key block][depth]
    // and v [key block][value depth].
    const std::int64_t wide = std::max(block * padded(s.depth), key_block * (padded(s.depth) + row));
    statistics = keys + (s.copies_blocks() ? wide : 0);  // [3][query block]
    total = statistics + 3 * block;
  }
};

inline Slots forward_slots(const AttentionShape& s) {
  return {s.batch * s.heads * divide_up(s.queries, forward_query_block(s))};
}

// With few heads the key blocks of a head are dealt to several tasks, each with its own dq, summed in order at the end.
// The number does not depend on the keys, so that scratch grows in proportion to the queries.
inline std::int64_t backward_splits(const AttentionShape& s) {
  const std::int64_t heads = std::max<std::int64_t>(s.batch * s.heads, 1);
  return heads >= 4 ? 1 : divide_up(8, heads);
}

// Queries, their gradients and dq pass by once per block of keys: long sequences, which outer caches or memory hold,
// take larger blocks. Measured on Zen 4, one core, T = 16384: 512 instead of 128 keys saves 5 %. Every task still gets
// eight blocks, and scratch at most doubles where the length does.
inline std::int64_t backward_key_block(const AttentionShape& s) {
  const std::int64_t eighth = s.keys / (8 * backward_splits(s)) / kKeyBlock * kKeyBlock;
  return shortened(std::clamp<std::int64_t>(eighth, kKeyBlock, 512), s.keys);
}

// Scratch of one backward task (all or every n-th key block of one head), in elements.
struct BackwardScratch {
  std::int64_t block, queries;  // keys and queries at a time
  std::int64_t keys, values, p, ds, dk, dv, q_rows, do_rows, k_rows, dq_rows, wide_k, wide_q, wide_do, total;
  explicit BackwardScratch(const AttentionShape& s) {
    const std::int64_t row = padded(s.depth), value_row = padded(s.value_depth);
    block = backward_key_block(s);
    queries = shortened(kQueryBlock, s.queries);
    keys = 0;                          // k^T [slabs][depth][slab]
    values = keys + block * row;       // v^T [slabs][value depth][slab]
    p = values + block * value_row;    // [slabs][query block][slab]
    ds = p + queries * block;          // the same
    dk = ds + queries * block;         // [key block][padded depth]
    dv = dk + block * row;             // [key block][padded value depth]
    dq_rows = dv + block * value_row;  // [query block][padded depth] where dq cannot be used in place
    q_rows = dq_rows + queries * row;  // padded copies where the rows need them
    k_rows = q_rows + (needs_padding(s.depth) ? queries * row : 0);
    do_rows = k_rows + (needs_padding(s.depth) ? block * row : 0);
    wide_k = do_rows + (needs_padding(s.value_depth) ? queries * value_row : 0);
    wide_q = wide_k + (s.copies_blocks() ? block * std::max(row, value_row) : 0);  // first v, then k [key block][depth]
    wide_do = wide_q + (s.copies_blocks() ? queries * row : 0);
    total = wide_do + (s.copies_blocks() ? queries * value_row : 0);
  }
};

// Scratch counts for more where the operands take half the bytes, or are short: a block is larger than they are.
inline Slots backward_slots(const AttentionShape& s) {
  const bool is_short = s.queries <= kLargestSlab && s.keys <= kLargestSlab;
  return {s.batch * s.heads * backward_splits(s), s.narrow || is_short ? 16 : 64};
}

}  // namespace thalweg::cpu
