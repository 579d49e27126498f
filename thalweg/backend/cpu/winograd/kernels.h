#pragma once

#include "thalweg/backend/cpu/winograd/problem.h"
#include "thalweg/core/dtype.h"

namespace thalweg::cpu::winograd {

// Values at all points of `count` tiles from number `first` on; the distance of planes is plane(count * padded(…)).
struct TileBlock {
  std::int64_t first, count;
};

// What one thread does, for tiles of m x m; a point is one of (m + 2)^2. Images and weights are f32 or bf16; all else
// is computed and kept in f32:
//   v     [points][strip][channels / 16][rows of the strip][16]   inputs of a block: its tiles cut into strips, as
//                                                                 products take them, or in one strip for gradients
//   u     [panel][points][channels][panel width]                  weights, planes plane(channels * 32) apart
//   d     [points][panel][tiles][panel width]                     gradients of a block
//   sums  [panel][channels / 16][points][16][panel width]         dw
struct Kernels {
  // One panel of u, channels [begin, end), both multiples of 16.
  void (*weights)(const Problem& problem, const void* w, std::int64_t panel, std::int64_t begin, std::int64_t end,
                  float* u);
  // Tiles [begin, end) of the block.
  void (*input)(const Problem& problem, const void* x, TileBlock block, bool one_strip, std::int64_t begin,
                std::int64_t end, float* v);
  // y of the block's tiles and the channels of panels [begin, end); u is that of panel `begin`.
  // products: scratch [points][strip][channels / 16 of the panels][rows of the strip][16]
  void (*output)(const Problem& problem, TileBlock block, std::int64_t begin, std::int64_t end, const float* v,
                 const float* u, float* products, void* y);
  // Tiles [begin, end) of the block.
  void (*gradient)(const Problem& problem, const void* dy, TileBlock block, std::int64_t begin, std::int64_t end,
                   float* d);
  // One piece of the sums, 16 channels by one panel: (+)= the block's products.
  void (*sum)(const Problem& problem, TileBlock block, std::int64_t panel, std::int64_t channel, const float* v,
              const float* d, bool add, float* piece);
  // dw of one piece, from `parts` partial sums that are `distance` floats apart, added in order.
  void (*finish)(const Problem& problem, std::int64_t panel, std::int64_t channel, const float* piece,
                 std::int64_t parts, std::int64_t distance, void* dw);
};

// tile: 2 or 4; dtype: f32 or bf16
const Kernels& kernels(int tile, DType dtype);

}  // namespace thalweg::cpu::winograd
