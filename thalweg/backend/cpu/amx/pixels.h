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

// Stretches of a strip whose pixels lie side by side, to be read as vectors where a pixel is one number.
struct Stretches {
  std::int64_t count = 0;
  std::int64_t start[kStrip];    // where the first pixel of the strip would lie
  std::uint32_t pixels[kStrip];  // a bit for each

  void set(const PixelStrip& strip);
  // The strip's pixels, `by` further on; 0 where their bit in `inside` is not set.
  void load(const BFloat16* from, std::int64_t by, std::uint32_t inside, BFloat16* to) const;
};

}  // namespace thalweg::cpu::amx
