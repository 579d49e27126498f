#pragma once

// Where a convolution finds the pixels under its taps: at an element for each pixel, moved by a tap, if that is inside.
#include <array>

#include "thalweg/backend/cpu/amx/tiles.h"

namespace thalweg::cpu::amx {

using Triple = std::array<std::int64_t, 3>;  // along the axes of an image, in memory order

// Pixels of a grid over every image of a batch: pixel g lies at g * step + shift of an image of `size` pixels.
struct Grid {
  Triple count{1, 1, 1}, step{1, 1, 1}, shift{0, 0, 0}, size{1, 1, 1};

  std::int64_t pixels() const { return count[0] * count[1] * count[2]; }  // of one image
  std::int64_t moved(const Triple& tap) const { return (tap[0] * size[1] + tap[1]) * size[2] + tap[2]; }
};

// 32 pixels of a grid that follow each other, also from one image to the next; those beyond the last are outside.
struct alignas(64) PixelStrip {
  std::int32_t place[3][kStrip];  // in the image
  std::int64_t index[kStrip];     // of that pixel, counted over all images

  void set(const Grid& grid, std::int64_t first, std::int64_t count);
  // A bit for each pixel that is inside of its image when moved by a tap.
  std::uint32_t inside(const Grid& grid, const Triple& tap) const;
};

}  // namespace thalweg::cpu::amx
