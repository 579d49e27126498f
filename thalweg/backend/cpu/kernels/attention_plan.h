#pragma once

// Tasks and scratch of attention: functions of the shape alone, the same for every vector target.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "thalweg/backend/cpu/kernels/attention.h"
#include "thalweg/backend/cpu/kernels/blocks.h"

namespace thalweg::cpu {

// Measured on Zen 4: blocks of 32-256 queries x 64-256 keys all lie within 3 %; larger ones waste more on the diagonal.
inline constexpr std::int64_t kQueryBlock = 64, kForwardKeyBlock = 128, kKeyBlock = 64;
inline constexpr std::int64_t kLargestSlab = 32;  // widest pair of vectors, in elements
inline constexpr std::int64_t kMaxSlots = 64;     // scratch areas, so also tasks that run at once
inline constexpr std::int64_t kRowPad = 16;       // rows are padded to whole vectors of every target

inline constexpr std::int64_t padded(std::int64_t width) { return divide_up(width, kRowPad) * kRowPad; }
inline constexpr bool needs_padding(std::int64_t width) { return width % kRowPad != 0; }

// Tasks dealt to at most kMaxSlots slots, back and forth so that causal tasks, which grow, are spread evenly.
struct Slots {
  std::int64_t tasks;
  constexpr std::int64_t count() const { return std::min(tasks, kMaxSlots); }
  template <class Body>
  void for_each_task(std::int64_t slot, Body body) const {
    for (std::int64_t round = 0; round * count() < tasks; ++round) {
      const std::int64_t task = round * count() + (round % 2 == 0 ? slot : count() - 1 - slot);
      if (task < tasks) body(task);
    }
  }
};

// Scratch of one forward task (a block of queries of one head), in elements.
struct ForwardScratch {
  std::int64_t queries, scores, output, values, statistics, total;
  constexpr explicit ForwardScratch(const AttentionShape& s) {
    const std::int64_t row = padded(s.value_depth);
    queries = 0;                                        // q^T [slabs][depth][slab]
    scores = queries + kQueryBlock * padded(s.depth);   // [key block][slab]
    output = scores + kForwardKeyBlock * kLargestSlab;  // [query block][padded value depth]
    values = output + kQueryBlock * row;                // [key block][padded value depth] where v needs it
    statistics = values + (needs_padding(s.value_depth) ? kForwardKeyBlock * row : 0);  // [3][query block]
    total = statistics + 3 * kQueryBlock;
  }
};

inline Slots forward_slots(const AttentionShape& s) { return {s.batch * s.heads * divide_up(s.queries, kQueryBlock)}; }

// Scratch of one backward task (all or every n-th key block of one head), in elements.
struct BackwardScratch {
  std::int64_t keys, values, p, ds, dk, dv, q_rows, do_rows, k_rows, dq_rows, total;
  constexpr explicit BackwardScratch(const AttentionShape& s) {
    const std::int64_t row = padded(s.depth), value_row = padded(s.value_depth);
    keys = 0;                              // k^T [slabs][depth][slab], scaled
    values = keys + kKeyBlock * row;       // v^T [slabs][value depth][slab]
    p = values + kKeyBlock * value_row;    // [slabs][query block][slab]
    ds = p + kQueryBlock * kKeyBlock;      // the same
    dk = ds + kQueryBlock * kKeyBlock;     // [key block][padded depth]
    dv = dk + kKeyBlock * row;             // [key block][padded value depth]
    dq_rows = dv + kKeyBlock * value_row;  // [query block][padded depth] where dq cannot be used in place
    q_rows = dq_rows + kQueryBlock * row;  // padded copies where the rows need them
    k_rows = q_rows + (needs_padding(s.depth) ? kQueryBlock * row : 0);
    do_rows = k_rows + (needs_padding(s.depth) ? kKeyBlock * row : 0);
    total = do_rows + (needs_padding(s.value_depth) ? kQueryBlock * value_row : 0);
  }
};

// With few heads the key blocks of a head are dealt to several tasks, each with its own dq, summed in order at the end.
inline std::int64_t backward_splits(const AttentionShape& s) {
  const std::int64_t heads = std::max<std::int64_t>(s.batch * s.heads, 1);
  return heads >= 4 ? 1 : std::clamp<std::int64_t>(divide_up(s.keys, kKeyBlock), 1, divide_up(8, heads));
}

inline Slots backward_slots(const AttentionShape& s) { return {s.batch * s.heads * backward_splits(s)}; }

}  // namespace thalweg::cpu
