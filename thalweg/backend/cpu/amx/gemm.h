#pragma once

#include "thalweg/backend/cpu/amx/tiles.h"
#include "thalweg/backend/cpu/gemm_tile.h"

namespace thalweg::cpu::amx {

constexpr std::int64_t parts_of(DType dtype) { return dtype == DType::f32 ? kParts : 1; }

// Deeper products are sums of such.
constexpr std::int64_t max_depth(DType dtype) { return dtype == DType::f32 ? 256 : 2048; }

// bf16, and f32 in three parts of bf16 each.
bool supported(const GemmTile& tile);
// Whether that is faster than products of vectors.
bool pays(const GemmTile& tile);
std::size_t gemm_scratch(const GemmTile& tile);
void gemm_tile(const GemmTile& tile, const void* a, const void* b, void* c, std::byte* scratch);

}  // namespace thalweg::cpu::amx
