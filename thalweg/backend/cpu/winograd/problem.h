#pragma once

// Shapes and layouts shared by the drivers and the kernels of every target. Nothing here depends on the vector width.
#include <cstdint>

#include "thalweg/backend/cpu/slots.h"

namespace thalweg::cpu::winograd {

// A 3 x 3 convolution of stride 1. The gradient of x is one too: of dy, with turned weights.
//   x [batch, height, width, channels]   y [batch, out_height, out_width, out_channels]
//   w [3, 3, channels, out_channels], or turned: [3, 3, out_channels, channels], rotated by 180 degrees
struct Problem {
  std::int64_t batch = 0, height = 0, width = 0, channels = 0;
  std::int64_t out_height = 0, out_width = 0, out_channels = 0;
  std::int64_t pad_top = 0, pad_left = 0;
  bool turned = false;
};

// Channels lie in blocks of 16 (zeros fill the last), the columns of products in panels of 32 (the last may be 16).
inline constexpr std::int64_t kBlock = 16, kPanel = 32;

constexpr std::int64_t padded(std::int64_t channels) { return round_up(channels, kBlock); }
constexpr std::int64_t panels(std::int64_t channels) { return ceil_div(channels, kPanel); }
constexpr std::int64_t panel_width(std::int64_t channels, std::int64_t panel) {
  return std::min(kPanel, padded(channels) - panel * kPanel);
}

// The values at one point are a plane. An odd number of cache lines between planes spreads them over the cache's sets.
constexpr std::int64_t plane(std::int64_t floats) {
  const std::int64_t lines = ceil_div(floats, 16);
  return (lines + (lines % 2 == 0 ? 1 : 0)) * 16;
}

// The output is cut into tiles of size x size, numbered image by image and row by row.
struct Tiles {
  std::int64_t size, rows, columns, total;
  Tiles(const Problem& p, std::int64_t size)
      : size(size),
        rows(ceil_div(p.out_height, size)),
        columns(ceil_div(p.out_width, size)),
        total(p.batch * rows * columns) {}

  struct Place {
    std::int64_t image, y, x;
  };
  Place at(std::int64_t tile) const {
    return {tile / (rows * columns), tile / columns % rows * size, tile % columns * size};
  }
};

}  // namespace thalweg::cpu::winograd
