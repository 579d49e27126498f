#pragma once

#include "thalweg/backend/cpu/gemm_tile.h"

namespace thalweg::cpu::amx {

inline constexpr std::int64_t kMaxDepth = 2048;  // deeper products are sums of such

bool supported(const GemmTile& tile);
std::size_t gemm_scratch(const GemmTile& tile);
void gemm_tile(const GemmTile& tile, const void* a, const void* b, void* c, std::byte* scratch);

}  // namespace thalweg::cpu::amx
