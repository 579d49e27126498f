// Convolutions of bf16 over tiles: products whose rows are the values under all taps of a pixel.
#include "thalweg/backend/cpu/amx/convolution.h"

#include <cstring>

#include "thalweg/backend/cpu/amx/product.h"
#include "thalweg/backend/cpu/amx/taps.h"

namespace thalweg::cpu::amx {
namespace {

constexpr double kTaskFlops = 1e7;
constexpr std::int64_t kColumns = 5 << 17;  // elements of all depths of a tile's columns

// How many tasks a convolution is worth, an even number.
std::int64_t tasks_wanted(double flops, std::int64_t most) {
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(flops / kTaskFlops) / 2 * 2, 1, most);
}

// An output, or the gradient of an input over one phase of it: pixels x (taps, channels) times weights.
class Outputs {
 public:
  Outputs(const Convolution& c, const Image& image) : c_(c), image_(image), grid_(image.outputs()) {
    for (std::int64_t i = 0; i < image.taps(); ++i) taps_.add(image.offset(i), i);
    cut();
  }

  // Gradients of the inputs of a phase.
  Outputs(const Convolution& c, const Image& image, const Phase& phase)
      : c_(c), image_(image), is_gradient_(true), grid_(phase.over_outputs(image)), to_(phase.over_inputs(image)) {
    Triple offset;
    for (std::int64_t i = 0; i < image.taps(); ++i)
      if (phase.offset(image, i, offset)) taps_.add(offset, i);
    cut();
  }

  const WorkspaceLayout& layout() const { return layout_; }

  void run(const ConvolutionOperands& operands, std::span<std::byte> workspace) const {
    if (shape_.m == 0 || shape_.k == 0) return;  // no input, or none that a tap sees
    const auto *x = reinterpret_cast<const BFloat16*>(operands.a), *w = reinterpret_cast<const BFloat16*>(operands.b);
    auto* y = reinterpret_cast<BFloat16*>(operands.out);
    run_in_slots(layout_, workspace, [&](std::int64_t task, std::byte* scratch) {
      run_part(task / n_tiles_ * m_tile_, task % n_tiles_ * n_tile_, x, w, y, scratch);
    });
  }

 private:
  std::int64_t channels() const { return is_gradient_ ? c_.out_channels : c_.in_channels; }
  bool is_dense() const { return !is_gradient_ && TapRows::is_dense(image_, channels()); }

  void cut() {
    const std::int64_t of_tap = is_dense() ? channels() : TapRows::tap_depth(channels());
    shape_ = {c_.batch * grid_.pixels(), is_gradient_ ? c_.in_channels : c_.out_channels, taps_.count * of_tap};
    if (shape_.m == 0 || shape_.k == 0) return;
    const double flops = 2.0 * static_cast<double>(shape_.m) * static_cast<double>(shape_.n * shape_.k);
    const std::int64_t fitting = std::clamp<std::int64_t>(kColumns / shape_.k / kStrip * kStrip, 64, 1024);
    n_tile_ = std::min(shape_.n, round_up(ceil_div(shape_.n, ceil_div(shape_.n, fitting)), kStrip));
    n_tiles_ = ceil_div(shape_.n, n_tile_);
    const std::int64_t most = std::max<std::int64_t>(16, 4 * config::threads());  // cuts of pixels change no sum
    const std::int64_t parts = std::max<std::int64_t>(1, tasks_wanted(flops, most) / n_tiles_);
    m_tile_ = std::min(shape_.m, round_up(ceil_div(shape_.m, parts), kStrip));
    layout_.tasks = n_tiles_ * ceil_div(shape_.m, m_tile_);
    layout_.slot_bytes = align_up(buffer_bytes() + scratch_bytes({m_tile_, n_tile_, shape_.k}));
  }

  std::size_t buffer_bytes() const {
    return is_dense() ? static_cast<std::size_t>(TapRows::buffer_size(image_, channels())) * sizeof(BFloat16) : 0;
  }

  void run_part(std::int64_t first, std::int64_t column, const BFloat16* x, const BFloat16* w, BFloat16* y,
                std::byte* scratch) const {
    const Shape shape{std::min(m_tile_, shape_.m - first), std::min(n_tile_, shape_.n - column), shape_.k};
    TapRows source(x, channels(), grid_, taps_, is_dense() ? reinterpret_cast<BFloat16*>(scratch) : nullptr);
    const bool scattered = is_gradient_ && Phase::count(image_) > 1;
    PixelStrip to;
    const auto columns = [&](BFloat16* strips) {
      for (std::int64_t at = 0; at < shape.n; at += kStrip)
        pack_weights(w, column + at, std::min(kStrip, shape.n - at), strips + at / kStrip * shape.strip_size());
      return Range();
    };
    const auto rows = [&](std::int64_t row, std::int64_t p, std::int64_t depth, BFloat16* strip) {
      const std::int64_t count = std::min(kStrip, shape.m - row);
      if (p == 0) source.set(first + row, count);
      if (p == 0 && scattered) to.set(to_, first + row, count);
      source.rows(p, depth, strip);
      return Range();
    };
    const auto store = [&](std::int64_t row, std::int64_t at, const float* block) {
      const std::int64_t m = std::min(kStrip, shape.m - row), n = std::min(kStrip, shape.n - at);
      if (scattered) return scatter(block, m, n, y + column + at, shape_.n, to.index);
      unpack(block, m, n, false, y + (first + row) * shape_.n + column + at, shape_.n);
    };
    product(shape, scratch + buffer_bytes(), {}, columns, rows, store, [](std::int64_t, std::int64_t) {});
  }

  // Weights are [tap][in][out].
  void pack_weights(const BFloat16* w, std::int64_t column, std::int64_t count, BFloat16* strip) const {
    if (is_dense()) {
      pack_columns(w + column, c_.out_channels, count, shape_.k, strip);
      return;
    }
    for (std::int64_t i = 0; i < taps_.count; ++i, strip += TapRows::tap_depth(channels()) * kStrip) {
      const BFloat16* of_tap = w + taps_.tap[static_cast<std::size_t>(i)] * c_.in_channels * c_.out_channels;
      if (is_gradient_)
        pack_columns_transposed(of_tap + column * c_.out_channels, c_.out_channels, count, c_.out_channels, strip);
      else
        pack_columns(of_tap + column, c_.out_channels, count, c_.in_channels, strip);
    }
  }

  const Convolution& c_;
  const Image& image_;
  const bool is_gradient_ = false;
  const Grid grid_, to_;
  TapList taps_;
  Shape shape_;
  std::int64_t m_tile_ = 1, n_tile_ = 1, n_tiles_ = 1;
  WorkspaceLayout layout_;
};

// Gradients of weights, turned: (out channels x pixels) (pixels x (taps, in channels)). Tasks take pixels, or columns
// where there are few pixels; sums stay in blocks until the end of a task.
class Weights {
 public:
  Weights(const Convolution& c, const Image& image) : c_(c), image_(image), grid_(image.outputs()) {
    for (std::int64_t i = 0; i < image.taps(); ++i) taps_.add(image.offset(i), i);
    const std::int64_t of_tap = is_dense() ? c.in_channels : TapRows::tap_depth(c.in_channels);
    pixels_ = c.batch * grid_.pixels();
    columns_ = taps_.count * of_tap;
    const double flops = flops_of(c);
    const std::int64_t wanted = tasks_wanted(flops, 16);
    parts_ =
        std::clamp<std::int64_t>(std::min(weight_partials(flops, weight_bytes()), pixels_ / kMinPixels), 1, wanted);
    const std::int64_t tiles = std::clamp<std::int64_t>(wanted / parts_, 1, ceil_div(columns_, 4 * kStrip));
    part_ = round_up(ceil_div(pixels_, parts_), kStep);
    parts_ = ceil_div(pixels_, part_);
    n_tile_ = round_up(ceil_div(columns_, tiles), kStrip);
    n_tiles_ = ceil_div(columns_, n_tile_);
    depth_ = std::clamp<std::int64_t>(kColumns / n_tile_ / kStep * kStep, 4 * kStep, Shape{1, 1, 384}.chunk());
    layout_.tasks = parts_ * n_tiles_;
    layout_.shared_bytes = sums_are_direct() ? 0 : static_cast<std::size_t>(parts_) * align_up(weight_bytes());
    layout_.slot_bytes = align_up(static_cast<std::size_t>((buffer_size() + (n_tile_ + kStrip) * depth_) * 2 +
                                                           row_strips() * column_strips() * kBlockSize * 4));
  }

  const WorkspaceLayout& layout() const { return layout_; }

  void run(const ConvolutionOperands& operands, std::span<std::byte> workspace) const {
    const auto *x = reinterpret_cast<const BFloat16*>(operands.a), *dy = reinterpret_cast<const BFloat16*>(operands.b);
    std::byte* sums = sums_are_direct() ? operands.out : workspace.data();
    run_in_slots(layout_, workspace, [&](std::int64_t task, std::byte* scratch) {
      const std::int64_t part = task / n_tiles_;
      run_part(part * part_, task % n_tiles_ * n_tile_, x, dy,
               reinterpret_cast<float*>(sums) + part * elements_of_w(c_), scratch);
    });
    if (!sums_are_direct())
      sum_partials(gradient_dtype(c_), workspace.data(), parts_, elements_of_w(c_), operands.out, false);
  }

 private:
  static constexpr std::int64_t kMinPixels = 512;  // of a task, before columns are cut

  bool is_dense() const { return TapRows::is_dense(image_, c_.in_channels); }
  bool sums_are_direct() const { return parts_ == 1 && gradient_dtype(c_) == DType::f32; }
  std::size_t weight_bytes() const { return static_cast<std::size_t>(elements_of_w(c_)) * sizeof(float); }
  std::int64_t buffer_size() const { return TapRows::buffer_size(image_, c_.in_channels); }
  std::int64_t row_strips() const { return ceil_div(c_.out_channels, kStrip); }
  std::int64_t column_strips() const { return n_tile_ / kStrip; }

  void run_part(std::int64_t first, std::int64_t column, const BFloat16* x, const BFloat16* dy, float* dw,
                std::byte* scratch) const {
    auto* buffer = reinterpret_cast<BFloat16*>(scratch);
    BFloat16 *columns = buffer + buffer_size(), *rows = columns + n_tile_ * depth_;
    auto* blocks = reinterpret_cast<float*>(rows + kStrip * depth_);
    TapRows source(x, c_.in_channels, grid_, taps_, is_dense() ? buffer : nullptr);
    const std::int64_t last = std::min(pixels_, first + part_), end = std::min(columns_, column + n_tile_);
    const std::int64_t strips = ceil_div(end - column, kStrip);
    const Tiles tiles;
    for (std::int64_t pixel = first; pixel < last; pixel += depth_) {
      const std::int64_t depth = std::min(depth_, last - pixel), steps = ceil_div(depth, kStep);
      for (std::int64_t step = 0; step < steps; ++step) {
        source.set(pixel + step * kStep, std::min(kStep, depth - step * kStep));
        for (std::int64_t s = 0; s < strips; ++s)
          source.columns(column + s * kStrip, columns + (s * steps + step) * 2 * kTileSize);
      }
      for (std::int64_t r = 0; r < row_strips(); ++r) {
        const std::int64_t count = std::min(kStrip, c_.out_channels - r * kStrip);
        pack_rows_transposed(dy + pixel * c_.out_channels + r * kStrip, c_.out_channels, count, depth, rows);
        for (std::int64_t s = 0; s < strips; ++s)
          multiply(rows, columns + s * steps * 2 * kTileSize, steps, blocks + (r * strips + s) * kBlockSize,
                   pixel > first);
      }
    }
    for (std::int64_t r = 0; r < row_strips(); ++r)
      for (std::int64_t s = 0; s < strips; ++s)
        store(r * kStrip, column + s * kStrip, blocks + (r * strips + s) * kBlockSize, dw);
  }

  void store(std::int64_t row, std::int64_t column, const float* block, float* dw) const {
    const std::int64_t count = std::min(kStrip, c_.out_channels - row);
    const std::int64_t of_tap = is_dense() ? columns_ : TapRows::tap_depth(c_.in_channels), channel = column % of_tap;
    const std::int64_t at = is_dense() ? column : column / of_tap * c_.in_channels + channel;
    const std::int64_t have = is_dense() ? columns_ - column : c_.in_channels - channel;
    unpack_transposed(block, count, std::min(kStrip, have), dw + at * c_.out_channels + row, c_.out_channels);
  }

  const Convolution& c_;
  const Image& image_;
  const Grid grid_;
  TapList taps_;
  std::int64_t pixels_ = 0, columns_ = 0, parts_ = 1, part_ = 1, n_tile_ = 1, n_tiles_ = 1, depth_ = kStep;
  WorkspaceLayout layout_;
};

std::size_t bytes_of(const WorkspaceLayout& layout) {
  return layout.shared_bytes + layout.slot_bytes == 0 ? 0 : layout.bytes();
}

}  // namespace

bool supported(const Convolution& c) {
  if (c.dtype != DType::bf16 || c.groups != 1 || !usable()) return false;
  return !reaches_far(c) && Image(c).taps() <= kMaxTaps;
}

std::size_t convolution_workspace(Direction direction, const Convolution& c) {
  const Image image(c);
  if (direction == Direction::forward) return bytes_of(Outputs(c, image).layout());
  if (direction == Direction::backward_weights) return bytes_of(Weights(c, image).layout());
  std::size_t most = 0;
  for (std::int64_t i = 0; i < Phase::count(image); ++i)
    most = std::max(most, bytes_of(Outputs(c, image, Phase(image, i)).layout()));
  return most;
}

void convolution(Direction direction, const Convolution& c, const ConvolutionOperands& operands,
                 std::span<std::byte> workspace) {
  const Image image(c);
  if (direction == Direction::forward) return Outputs(c, image).run(operands, workspace);
  if (direction == Direction::backward_weights) return Weights(c, image).run(operands, workspace);
  if (image.stride != Triple{1, 1, 1})  // there may be inputs that no tap sees
    std::memset(operands.out, 0, static_cast<std::size_t>(elements_of_x(c)) * sizeof(BFloat16));
  for (std::int64_t i = 0; i < Phase::count(image); ++i) Outputs(c, image, Phase(image, i)).run(operands, workspace);
}

}  // namespace thalweg::cpu::amx
