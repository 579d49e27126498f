#pragma once

// f32 products over tiles: one side waits in the second-level cache, packed; the other streams by, a strip at a time,
// and is packed while the strip before it is multiplied.
#include "thalweg/backend/cpu/gemm_tile.h"

namespace thalweg::cpu::amx {

// Entries of the waiting side at a time: what the cache holds of that depth.
std::int64_t waiting_entries(std::int64_t depth);
// Whether the columns of this product should stream and its rows wait, or the other way round. Its tiles keep to that:
// their scratch must not depend on how they are cut. Sums have the same bits either way; rows of a transposed A cannot
// stream.
bool streams_columns(const GemmTile& tile);

std::size_t streamed_scratch(const GemmTile& tile);
// done: told of rows as they stand; may be null.
void streamed_tile(const GemmTile& tile, const float* a, const float* b, float* c, std::byte* scratch,
                   const OnRegion* done = nullptr);

}  // namespace thalweg::cpu::amx
