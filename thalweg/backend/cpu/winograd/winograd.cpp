#include "thalweg/backend/cpu/winograd/winograd.h"

#include <algorithm>

#include "thalweg/backend/cpu/winograd/plan.h"

namespace thalweg::cpu::winograd {
namespace {

Problem problem_of(Direction direction, const Convolution& c) {
  const Problem forward{c.batch,     c.input[0],     c.input[1],      c.in_channels,   c.output[0],
                        c.output[1], c.out_channels, c.pad_before[0], c.pad_before[1], false};
  if (direction != Direction::backward_data) return forward;
  return {c.batch,    c.output[0],   c.output[1],         c.out_channels,      c.input[0],
          c.input[1], c.in_channels, 2 - c.pad_before[0], 2 - c.pad_before[1], true};
}

float* floats(std::byte* bytes) { return reinterpret_cast<float*>(bytes); }

constexpr std::int64_t kTaskTiles = 14;      // of transforms that are tasks of their own
constexpr std::int64_t kTaskChannels = 128;  // of weights

class OutputRun {
 public:
  OutputRun(const Problem& problem, int tile, DType dtype, const ConvolutionOperands& operands,
            std::span<std::byte> workspace)
      : problem_(problem),
        tile_(tile),
        plan_(problem, tile),
        kernels_(kernels(tile, dtype)),
        x_(operands.a),
        w_(operands.b),
        y_(operands.out),
        done_(operands.done),
        workspace_(workspace) {}

  // Returns whether it has told of all pixels.
  bool run() const {
    if (plan_.by_panels) return run_panels(), false;
    for (std::int64_t first = 0; first < plan_.panels; first += plan_.pass)
      run_tiles(first, std::min(plan_.panels, first + plan_.pass));
    return tells();
  }

 private:
  void run_panels() const {
    float* v = floats(workspace_.data());
    const TileBlock all{0, plan_.tiles};
    parallel_ranges(plan_.tiles, kTaskTiles, [&](std::int64_t begin, std::int64_t end) {
      kernels_.input(problem_, x_, all, false, begin, end, v);
    });
    run_in_slots(plan_.layout, workspace_, [&](std::int64_t panel, std::byte* scratch) {
      float *u = floats(scratch), *products = u + plan_.u_floats;
      kernels_.weights(problem_, w_, panel, 0, padded(problem_.channels), u);
      kernels_.output(problem_, all, panel, panel + 1, v, u, products, y_);
    });
  }

  void run_tiles(std::int64_t first, std::int64_t last) const {
    float* u = floats(workspace_.data());
    const std::int64_t channels = padded(problem_.channels), parts = ceil_div(channels, kTaskChannels);
    parallel_for((last - first) * parts, [&](std::int64_t task) {
      const std::int64_t panel = task / parts, begin = task % parts * kTaskChannels;
      kernels_.weights(problem_, w_, first + panel, begin, std::min(channels, begin + kTaskChannels),
                       u + panel * plan_.u_floats);
    });
    run_in_slots(plan_.layout, workspace_, [&](std::int64_t task, std::byte* scratch) {
      float *v = floats(scratch), *products = v + plan_.v_floats;
      const std::int64_t begin = task * plan_.block;
      const TileBlock block{begin, std::min(plan_.block, plan_.tiles - begin)};
      kernels_.input(problem_, x_, block, false, 0, block.count, v);
      for (std::int64_t panel = first; panel < last; panel += plan_.slice)
        kernels_.output(problem_, block, panel, std::min(last, panel + plan_.slice), v,
                        u + (panel - first) * plan_.u_floats, products, y_);
      if (tells()) tell(block);
    });
  }

  // While they are in the cache, where a block of tiles has all of its channels at once.
  bool tells() const { return done_ && plan_.pass >= plan_.panels; }

  // Tiles side by side are rows of pixels.
  void tell(TileBlock block) const {
    const Tiles tiles(problem_, tile_);
    for (std::int64_t tile = block.first, count; tile < block.first + block.count; tile += count) {
      count = std::min(block.first + block.count - tile, tiles.columns - tile % tiles.columns);
      const Tiles::Place at = tiles.at(tile);
      const std::int64_t pixels = std::min(count * tiles.size, problem_.out_width - at.x);
      for (std::int64_t y = at.y; y < std::min(at.y + tiles.size, problem_.out_height); ++y)
        (*done_)({(at.image * problem_.out_height + y) * problem_.out_width + at.x, pixels, 0, problem_.out_channels});
    }
  }

  const Problem problem_;
  const int tile_;
  const OutputPlan plan_;
  const Kernels& kernels_;
  const void *x_, *w_;
  void* y_;
  const OnRegion* done_;
  std::span<std::byte> workspace_;
};

class WeightsRun {
 public:
  WeightsRun(const Problem& problem, int tile, const Convolution& c, const ConvolutionOperands& operands,
             std::span<std::byte> workspace)
      : problem_(problem),
        plan_(problem, tile),
        kernels_(kernels(tile, c.dtype)),
        finish_(kernels(tile, gradient_dtype(c)).finish),
        x_(operands.a),
        dy_(operands.b),
        dw_(operands.out),
        workspace_(workspace) {}

  void run() const {
    if (!plan_.by_pieces) return run_parts();
    for (std::int64_t panel = 0; panel < plan_.panels; panel += plan_.pass)
      for (std::int64_t first = 0; first < plan_.tiles; first += plan_.block)
        run_pieces(panel, {first, std::min(plan_.block, plan_.tiles - first)});
  }

 private:
  void transform(TileBlock block, std::int64_t begin, std::int64_t end, float* v, float* d) const {
    kernels_.input(problem_, x_, block, true, begin, end, v);
    kernels_.gradient(problem_, dy_, block, begin, end, d);
  }

  struct Piece {
    std::int64_t panel, channel;
  };
  Piece piece(std::int64_t first_panel, std::int64_t index) const {
    return {first_panel + index / plan_.channel_blocks, index % plan_.channel_blocks};
  }

  void sum(TileBlock block, Piece piece, const float* v, const float* d, bool add, float* to) const {
    kernels_.sum(problem_, block, piece.panel, piece.channel, v, d, add, to);
  }
  void finish(Piece piece, const float* from) const {
    finish_(problem_, piece.panel, piece.channel, from, plan_.parts, plan_.sum_floats, dw_);
  }

  // The sums of the panels of one pass and one block of tiles.
  void run_pieces(std::int64_t first_panel, TileBlock block) const {
    float *v = floats(workspace_.data()), *d = v + plan_.v_floats, *sums = d + plan_.d_floats;
    parallel_ranges(block.count, kTaskTiles,
                    [&](std::int64_t begin, std::int64_t end) { transform(block, begin, end, v, d); });
    WorkspaceLayout layout = plan_.layout;
    layout.tasks = std::min(plan_.pass, plan_.panels - first_panel) * plan_.channel_blocks;
    run_in_slots(layout, workspace_, [&](std::int64_t task, std::byte* scratch) {
      float* at = scratch != nullptr ? floats(scratch) : sums + task * plan_.piece_floats;
      sum(block, piece(first_panel, task), v, d, block.first > 0, at);
      if (block.first + block.count == plan_.tiles) finish(piece(first_panel, task), at);
    });
  }

  void run_parts() const {
    float* all_sums = floats(workspace_.data());
    const std::int64_t pieces = plan_.panels * plan_.channel_blocks;
    run_in_slots(plan_.layout, workspace_, [&](std::int64_t task, std::byte* scratch) {
      float *v = floats(scratch), *d = v + plan_.v_floats, *sums = all_sums + task * plan_.sum_floats;
      const std::int64_t begin = task * plan_.task_tiles, end = std::min(plan_.tiles, begin + plan_.task_tiles);
      for (std::int64_t first = begin; first < end; first += plan_.block) {
        const TileBlock block{first, std::min(plan_.block, end - first)};
        transform(block, 0, block.count, v, d);
        for (std::int64_t i = 0; i < pieces; ++i)
          sum(block, piece(0, i), v, d, first > begin, sums + i * plan_.piece_floats);
      }
    });
    parallel_for(pieces, [&](std::int64_t i) { finish(piece(0, i), all_sums + i * plan_.piece_floats); });
  }

  const Problem problem_;
  const WeightsPlan plan_;
  const Kernels& kernels_;
  decltype(Kernels::finish) finish_;  // of the gradient's own dtype
  const void *x_, *dy_;
  void* dw_;
  std::span<std::byte> workspace_;
};

bool possible(const Convolution& c) {
  const auto all_are = [](const std::array<std::int64_t, 3>& axes, std::int64_t value) {
    return axes[0] == value && axes[1] == value;
  };
  return (c.dtype == DType::f32 || c.dtype == DType::bf16) && c.spatial == 2 && c.groups == 1 && all_are(c.kernel, 3) &&
         all_are(c.stride, 1) && all_are(c.dilation, 1);
}

WorkspaceLayout layout_of(int tile, Direction direction, const Problem& problem) {
  return direction == Direction::backward_weights ? WeightsPlan(problem, tile).layout
                                                  : OutputPlan(problem, tile).layout;
}

// Time in multiply-adds of one lane, fitted to bench/kernels/winograd_bench on Zen 4: the transforms of a tile for each
// channel, those of the weights (or their packing) for each pair of channels.
struct Cost {
  int tile;
  double input, output, weights;
};
constexpr Cost kCosts[] = {{4, 400, 350, 500}, {2, 130, 100, 250}};
constexpr double kDirectWeights = 400;
constexpr double kLeastGain = 1.1;
constexpr double kFewestFlops = 4e6;  // smaller convolutions stay direct

double cost_of(const Cost& cost, const Problem& p) {
  const auto tiles = static_cast<double>(Tiles(p, cost.tile).total);
  const auto in = static_cast<double>(padded(p.channels)), out = static_cast<double>(padded(p.out_channels));
  return tiles * (static_cast<double>(points(cost.tile)) * in * out + cost.input * in + cost.output * out) +
         cost.weights * in * out;
}

// Outputs and taps along one axis that meet a pixel: direct convolutions leave out the others.
double pairs(std::int64_t in, std::int64_t out, std::int64_t pad) {
  std::int64_t count = 0;
  for (std::int64_t tap = 0; tap < 3; ++tap)
    count += std::max<std::int64_t>(0, std::min(out, in + pad - tap) - std::max<std::int64_t>(0, pad - tap));
  return static_cast<double>(count);
}

// Vectors lie along the output channels. Products of bf16 are added in pairs.
double direct_cost(const Problem& p, DType dtype) {
  const double products =
      static_cast<double>(p.batch) * pairs(p.height, p.out_height, p.pad_top) * pairs(p.width, p.out_width, p.pad_left);
  return (products * (dtype == DType::bf16 ? 0.5 : 1.0) + kDirectWeights) *
         static_cast<double>(p.channels * padded(p.out_channels));
}

}  // namespace

int tile_size(Direction direction, const Convolution& c) {
  if (c.strict || !possible(c) || flops_of(c) < kFewestFlops) return 0;
  const Problem problem = problem_of(direction, c);
  double least = direct_cost(problem, c.dtype) / kLeastGain;
  int tile = 0;
  for (const Cost& cost : kCosts)
    if (const double time = cost_of(cost, problem); time < least) least = time, tile = cost.tile;
  return tile;
}

std::size_t convolution_workspace(int tile, Direction direction, const Convolution& c) {
  return layout_of(tile, direction, problem_of(direction, c)).bytes();
}

void convolution(int tile, Direction direction, const Convolution& c, const ConvolutionOperands& operands,
                 std::span<std::byte> workspace) {
  const Problem problem = problem_of(direction, c);
  const auto needed = layout_of(tile, direction, problem);
  TW_CHECK_INTERNAL(workspace.size() >= needed.shared_bytes + needed.slot_bytes, "convolution",
                    "workspace of {} bytes, needs {}", workspace.size(), needed.shared_bytes + needed.slot_bytes);
  if (direction == Direction::backward_weights) {
    WeightsRun(problem, tile, c, operands, workspace).run();
  } else {
    const bool told = OutputRun(problem, tile, c.dtype, operands, workspace).run();
    if (operands.done && !told) tell_pixels(direction, c, *operands.done);
  }
}

}  // namespace thalweg::cpu::winograd
