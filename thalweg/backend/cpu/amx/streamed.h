#pragma once

// f32 products over tiles: one side waits in the second-level cache, packed; the other streams by, a strip at a time,
// and is packed while the strip before it is multiplied.
#include "thalweg/backend/cpu/gemm_tile.h"

namespace thalweg::cpu::amx {

// Entries of the waiting side at a time: what the cache holds of that depth.
std::int64_t waiting_entries(std::int64_t depth);
// Whether columns of C stream and rows wait, or the other way round; tiles of a product may differ, their bits do not.
bool streams_columns(const GemmTile& tile);

std::size_t streamed_scratch(const GemmTile& tile);
void streamed_tile(const GemmTile& tile, const float* a, const float* b, float* c, std::byte* scratch);

}  // namespace thalweg::cpu::amx
