#pragma once

// Blocks, tasks and workspace of a Winograd convolution: functions of the shape alone.
#include "thalweg/backend/cpu/winograd/kernels.h"

namespace thalweg::cpu::winograd {

constexpr std::int64_t points(int tile) { return (tile + 2) * (tile + 2); }

constexpr std::size_t bytes_of(std::int64_t floats) { return static_cast<std::size_t>(floats) * sizeof(float); }

// Forward, or the gradient of x. Many tiles: the weights of some panels at the points lie in the shared workspace, and
// a task takes a block of tiles through input, products and output. Few tiles: all inputs lie there, and a task takes
// one panel of weights.
struct OutputPlan {
  OutputPlan(const Problem& problem, int tile);

  std::int64_t tiles = 0, panels = 0;
  bool by_panels = false;                                       // few tiles
  std::int64_t block = 0;                                       // tiles
  std::int64_t pass = 0;                                        // panels whose weights are held at once
  std::int64_t slice = 0;                                       // panels multiplied before their output is taken
  std::int64_t v_floats = 0, u_floats = 0, product_floats = 0;  // of a block, a panel, and a slice
  WorkspaceLayout layout;
};

// The gradient of w. Few channels: a task sums a range of tiles, block by block, into sums of its own, which are added
// in order at the end. Many: for some panels at once and one block of tiles after the other, inputs and gradients lie
// in the shared workspace, and a task sums one piece of 16 channels by one panel.
struct WeightsPlan {
  WeightsPlan(const Problem& problem, int tile);

  std::int64_t tiles = 0, panels = 0, channel_blocks = 0;
  bool by_pieces = false;  // many channels
  std::int64_t block = 0;  // tiles
  std::int64_t pass = 0;   // panels whose sums are held at once
  std::int64_t task_tiles = 0, parts = 1;
  std::int64_t v_floats = 0, d_floats = 0, piece_floats = 0, sum_floats = 0;  // sums of a pass
  WorkspaceLayout layout;
};

}  // namespace thalweg::cpu::winograd
