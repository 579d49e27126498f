#include "thalweg/backend/cpu/winograd/plan.h"

namespace thalweg::cpu::winograd {
namespace {

constexpr std::int64_t kSharedFloats = 2 << 20;  // of weights, inputs or sums at the points held at once: 8 MiB
constexpr std::int64_t kSlicePanels = 2;
constexpr std::int64_t kLongestSum = 128;         // tiles: longer sums cost accuracy
constexpr std::int64_t kBlockFloats = 128 << 10;  // of inputs and gradients at the points: half of a small L2
constexpr std::int64_t kPrivateSums = 1 << 18;    // floats: 1 MiB for every part
constexpr std::int64_t kFewestParts = 8, kMostParts = 32;

}  // namespace

OutputPlan::OutputPlan(const Problem& problem, int tile) {
  const std::int64_t count = points(tile), channels = padded(problem.channels);
  tiles = Tiles(problem, tile).total;
  panels = winograd::panels(problem.out_channels);
  by_panels = tiles <= problem.out_channels && count * tiles * channels <= kSharedFloats;
  // Multiples of the 14 rows that products take at once; the inputs of a block stay in L2.
  block = by_panels ? tiles : std::min<std::int64_t>(tiles, (channels <= 64 ? 28 : 14) * (tile == 2 ? 2 : 1));
  u_floats = count * plane(channels * kPanel);
  pass = by_panels ? 1 : std::clamp<std::int64_t>(kSharedFloats / u_floats, 1, panels);
  slice = by_panels ? 1 : std::min(kSlicePanels, pass);
  v_floats = count * plane(block * channels);
  product_floats = count * plane(block * std::min(slice * kPanel, padded(problem.out_channels)));
  layout.tasks = by_panels ? panels : ceil_div(tiles, block);
  layout.shared_bytes = bytes_of(by_panels ? v_floats : pass * u_floats);
  layout.slot_bytes = bytes_of(product_floats + (by_panels ? u_floats : v_floats));
}

WeightsPlan::WeightsPlan(const Problem& problem, int tile) {
  const std::int64_t count = points(tile), channels = padded(problem.channels), outputs = padded(problem.out_channels);
  tiles = Tiles(problem, tile).total;
  panels = winograd::panels(problem.out_channels);
  channel_blocks = channels / kBlock;
  piece_floats = count * kBlock * std::min(kPanel, outputs);
  by_pieces = count * channels * outputs > kPrivateSums;
  block = kLongestSum;
  if (!by_pieces) block = std::clamp<std::int64_t>(kBlockFloats / (count * (channels + outputs)), 28, kLongestSum);
  const std::int64_t blocks = ceil_div(tiles, block);
  block = ceil_div(tiles, blocks);  // evenly
  v_floats = count * plane(block * channels);
  d_floats = count * plane(block * outputs);
  const std::int64_t panel_floats = channel_blocks * piece_floats;
  if (by_pieces) {
    const bool one = tiles <= block;  // no sums to keep
    const std::int64_t passes = one ? 1 : ceil_div(panels, std::max<std::int64_t>(1, kSharedFloats / panel_floats));
    pass = ceil_div(panels, passes);  // evenly
    sum_floats = one ? 0 : pass * panel_floats;
    layout.tasks = pass * channel_blocks;
    layout.shared_bytes = bytes_of(v_floats + d_floats + sum_floats);
    layout.slot_bytes = bytes_of(one ? piece_floats : 0);
  } else {
    pass = panels;
    sum_floats = panels * panel_floats;
    const std::int64_t wanted = std::clamp(kSharedFloats / sum_floats, kFewestParts, kMostParts);
    const std::int64_t task_blocks = ceil_div(blocks, std::min(wanted, blocks));
    task_tiles = task_blocks * block;
    layout.tasks = parts = ceil_div(tiles, task_tiles);
    layout.shared_bytes = bytes_of(parts * sum_floats);
    layout.slot_bytes = bytes_of(v_floats + d_floats);
  }
}

}  // namespace thalweg::cpu::winograd
