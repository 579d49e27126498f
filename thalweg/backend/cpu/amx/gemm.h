#pragma once

#include "thalweg/backend/cpu/amx/tiles.h"
#include "thalweg/backend/cpu/gemm_tile.h"

namespace thalweg::cpu::amx {

inline constexpr std::int64_t kMaxDepth = 2048;  // deeper products of bf16 are sums of such

// bf16, and f32 in three parts of bf16 each.
bool supported(const GemmTile& tile);
// Whether that is faster than products of vectors.
bool pays(const GemmTile& tile);
std::size_t gemm_scratch(const GemmTile& tile);
// done: told what stands of the tile; may be null.
void gemm_tile(const GemmTile& tile, const void* a, const void* b, void* c, std::byte* scratch, const OnRegion* done);

}  // namespace thalweg::cpu::amx
