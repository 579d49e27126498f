#pragma once

// Products of tiles, instruction by instruction: the sums of two strips stand in tiles 0 to 3.
#include <immintrin.h>

#include "thalweg/backend/cpu/amx/tiles.h"

#define TW_INLINE_AMX TW_AMX __attribute__((always_inline))
#define TW_TILES TW_INLINE_AMX inline

namespace thalweg::cpu::amx {

TW_TILES void begin(const Block& block, bool add) {
  if (!add) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    return;
  }
  _tile_loadd(0, block.at, block.row_bytes);
  _tile_loadd(1, block.at + block.right, block.row_bytes);
  _tile_loadd(2, block.at + block.below, block.row_bytes);
  _tile_loadd(3, block.at + block.below + block.right, block.row_bytes);
}

TW_TILES void end(const Block& block) {
  _tile_stored(0, block.at, block.row_bytes);
  _tile_stored(1, block.at + block.right, block.row_bytes);
  _tile_stored(2, block.at + block.below, block.row_bytes);
  _tile_stored(3, block.at + block.below + block.right, block.row_bytes);
}

TW_TILES void load_rows(const BFloat16* a) {
  _tile_loadd(4, a, 64);
  _tile_loadd(5, a + kTileSize, 64);
}

TW_TILES void load_columns(const BFloat16* b) {
  _tile_loadd(6, b, 64);
  _tile_loadd(7, b + kTileSize, 64);
}

TW_TILES void add_products() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

inline constexpr std::int64_t kPartsSize = kParts * 2 * kTileSize;  // bf16 of a step of a strip in parts

// One step of strips in parts, the largest products last: what the others rounded is small beside them. `turned` goes
// through the parts as it would with rows and columns exchanged, so that sums have the same bits. `meanwhile` is
// called six times, with 64 cycles of products before it that need nothing but tiles.
template <bool turned, class Meanwhile>
TW_TILES void add_parts(const BFloat16* a, const BFloat16* b, Meanwhile&& meanwhile) {
  constexpr std::int64_t part = 2 * kTileSize;
  const auto rows = [](const BFloat16* at) TW_INLINE_AMX { load_rows(at); };
  const auto columns = [](const BFloat16* at) TW_INLINE_AMX { load_columns(at); };
  const auto multiply = [&]() TW_INLINE_AMX {
    add_products();
    meanwhile();
  };
  const auto all = [&](const BFloat16* x, auto load_x, const BFloat16* y, auto load_y) TW_INLINE_AMX {
    load_x(x + 2 * part), load_y(y), multiply();
    load_x(x + part), multiply();
    load_y(y + part), multiply();
    load_x(x), multiply();
    load_y(y + 2 * part), multiply();
    load_y(y), multiply();
  };
  if constexpr (turned)
    all(b, columns, a, rows);
  else
    all(a, rows, b, columns);
}

}  // namespace thalweg::cpu::amx
