// The built-in provider of convolutions: pixels are gathered into the rows of a small matrix, block by block, and
// multiplied by the weights. Any dtype, stride, dilation, padding and number of groups.
#include <algorithm>
#include <cstring>

#include "thalweg/backend/cpu/builtin/depthwise.h"
#include "thalweg/backend/cpu/convolution_provider.h"
#include "thalweg/backend/cpu/gemm_tile.h"
#include "thalweg/backend/cpu/partial_sums.h"
#include "thalweg/backend/cpu/slots.h"

namespace thalweg::cpu::builtin {
namespace {

using Axes = std::array<std::int64_t, 3>;

// Missing axes become leading ones.
Axes three_axes(const Axes& given, int spatial, std::int64_t fill) {
  Axes axes{fill, fill, fill};
  const auto missing = 3 - static_cast<std::size_t>(spatial);
  for (std::size_t i = missing; i < 3; ++i) axes[i] = given[i - missing];
  return axes;
}

std::int64_t product(const Axes& axes) { return axes[0] * axes[1] * axes[2]; }

// Rows of gathered pixels: one row for each pixel of the target image, [taps][channels of one group] of the source.
class Gather {
 public:
  Gather(Direction direction, const Convolution& c, std::int64_t groups)
      : scatter_(direction == Direction::backward_data),
        kernel_(three_axes(c.kernel, c.spatial, 1)),
        stride_(three_axes(c.stride, c.spatial, 1)),
        dilation_(three_axes(c.dilation, c.spatial, 1)),
        pad_(three_axes(c.pad_before, c.spatial, 0)),
        source_(three_axes(scatter_ ? c.output : c.input, c.spatial, 1)),
        target_(three_axes(scatter_ ? c.input : c.output, c.spatial, 1)),
        source_channels_(scatter_ ? c.out_channels : c.in_channels),
        channels_(source_channels_ / groups),
        element_(size_of(c.dtype)) {}

  std::int64_t taps() const { return product(kernel_); }
  std::int64_t columns() const { return taps() * channels_; }
  std::int64_t target_pixels() const { return product(target_); }

  // Rows [begin, begin + rows) of all target pixels of the batch, for one group.
  void rows(const std::byte* source, std::int64_t group, std::int64_t begin, std::int64_t rows, std::byte* out) const {
    for (std::int64_t row = begin; row < begin + rows; ++row) {
      const std::int64_t image = row / target_pixels(), pixel = row % target_pixels();
      const Axes at{pixel / (target_[1] * target_[2]), pixel / target_[2] % target_[1], pixel % target_[2]};
      const std::byte* first = source + (image * product(source_) * source_channels_ + group * channels_) * element_;
      out = one_row(first, at, out);
    }
  }

 private:
  std::byte* one_row(const std::byte* first, const Axes& at, std::byte* out) const {
    const std::int64_t bytes = channels_ * element_;
    for (std::int64_t d = 0; d < kernel_[0]; ++d)
      for (std::int64_t h = 0; h < kernel_[1]; ++h)
        for (std::int64_t w = 0; w < kernel_[2]; ++w, out += bytes) {
          const std::int64_t z = source_at(0, at[0], d), y = source_at(1, at[1], h), x = source_at(2, at[2], w);
          if (z < 0 || y < 0 || x < 0) {
            std::memset(out, 0, static_cast<std::size_t>(bytes));
          } else {
            const std::int64_t pixel = (z * source_[1] + y) * source_[2] + x;
            std::memcpy(out, first + pixel * source_channels_ * element_, static_cast<std::size_t>(bytes));
          }
        }
    return out;
  }

  // The source coordinate that a tap joins with the target's, or -1. Data gradients walk the taps backwards.
  std::int64_t source_at(std::size_t axis, std::int64_t target, std::int64_t tap) const {
    if (!scatter_) {
      const std::int64_t at = target * stride_[axis] + tap * dilation_[axis] - pad_[axis];
      return at < source_[axis] ? at : -1;
    }
    const std::int64_t scaled = target + pad_[axis] - tap * dilation_[axis];
    if (scaled < 0 || scaled % stride_[axis] != 0) return -1;
    const std::int64_t at = scaled / stride_[axis];
    return at < source_[axis] ? at : -1;
  }

  bool scatter_;
  Axes kernel_, stride_, dilation_, pad_, source_, target_;
  std::int64_t source_channels_, channels_, element_;
};

// w [taps, in / groups, out] -> [groups, taps, out / groups, in / groups], the right factor of the data gradient.
template <class T>
void transpose_weights(const Convolution& c, std::int64_t taps, const T* w, T* out) {
  const std::int64_t in = c.in_channels / c.groups, each = c.out_channels / c.groups;
  for (std::int64_t group = 0; group < c.groups; ++group)
    for (std::int64_t tap = 0; tap < taps; ++tap)
      for (std::int64_t o = 0; o < each; ++o)
        for (std::int64_t i = 0; i < in; ++i) *out++ = w[(tap * in + i) * c.out_channels + group * each + o];
}

void transpose_weights(const Convolution& c, std::int64_t taps, const std::byte* w, std::byte* out) {
  const auto as = [&](auto word) {
    using T = decltype(word);
    transpose_weights(c, taps, reinterpret_cast<const T*>(w), reinterpret_cast<T*>(out));
  };
  switch (size_of(c.dtype)) {
    case 8: return as(std::uint64_t{});
    case 4: return as(std::uint32_t{});
    default: return as(std::uint16_t{});
  }
}

class Run {
 public:
  Run(Direction direction, const Convolution& c)
      : direction_(direction),
        c_(c),
        depthwise_(c.groups > 1 && c.groups == c.in_channels),
        gather_(direction, c, depthwise_ ? 1 : c.groups),
        element_(size_of(c.dtype)) {
    pixels_ = c.batch * gather_.target_pixels();
    const std::int64_t row_bytes = gather_.columns() * element_;
    block_rows_ = std::clamp<std::int64_t>(kBlockBytes / row_bytes, 16, 256);
    gathered_bytes_ = align_up(static_cast<std::size_t>(block_rows_ * row_bytes));
    const std::int64_t blocks = ceil_div(pixels_, block_rows_);
    const auto weights = static_cast<std::size_t>(elements_of_w(c));
    if (direction == Direction::backward_weights) {
      const std::size_t partial = weights * static_cast<std::size_t>(size_of(sum_dtype(c.dtype)));
      const std::int64_t partials = std::min(blocks, weight_partials(flops_of(c), partial));
      task_rows_ = ceil_div(blocks, partials) * block_rows_;
      layout_.tasks = ceil_div(pixels_, task_rows_);
      layout_.shared_bytes = align_up(partial * static_cast<std::size_t>(layout_.tasks));
    } else {
      const double tasks = std::max(1.0, flops_of(c) / kTaskFlops);
      task_rows_ =
          std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(blocks) / tasks)) * block_rows_;
      layout_.tasks = ceil_div(pixels_, task_rows_);
      if (direction == Direction::backward_data && !depthwise_)
        layout_.shared_bytes = align_up(weights * static_cast<std::size_t>(element_));
    }
    const std::size_t scratch =
        depthwise_ ? static_cast<std::size_t>(c.out_channels) * 8 : gemm_scratch(tile(block_rows_));
    layout_.slot_bytes = gathered_bytes_ + align_up(scratch);
  }

  std::size_t workspace_bytes() const { return layout_.bytes(); }

  void run(const ConvolutionOperands& operands, std::span<std::byte> workspace) const {
    TW_CHECK_INTERNAL(workspace.size() >= layout_.shared_bytes, "convolution", "workspace of {} bytes, needs {}",
                      workspace.size(), layout_.shared_bytes);
    std::byte* shared = workspace.data();
    if (direction_ == Direction::backward_data && !depthwise_)
      transpose_weights(c_, gather_.taps(), operands.b, shared);
    run_in_slots(layout_, workspace, [&](std::int64_t task, std::byte* scratch) {
      const std::int64_t end = std::min(pixels_, (task + 1) * task_rows_);
      for (std::int64_t row = task * task_rows_; row < end; row += block_rows_)
        run_block(task, row, std::min(block_rows_, end - row), operands, shared, scratch);
    });
    if (direction_ == Direction::backward_weights)
      sum_partials(gradient_dtype(c_), shared, layout_.tasks, elements_of_w(c_), operands.out, false);
  }

 private:
  static constexpr std::int64_t kBlockBytes = 1 << 18;  // of gathered pixels: stay in L2
  static constexpr double kTaskFlops = 1e6;

  std::int64_t group_in() const { return c_.in_channels / c_.groups; }
  std::int64_t group_out() const { return c_.out_channels / c_.groups; }

  // forward: rows [r, taps * in] w [taps * in, out]; data: rows [r, taps * out] w' [taps * out, in];
  // weights: rows' [taps * in, r] dy [r, out]
  GemmTile tile(std::int64_t rows) const {
    GemmTile tile;
    tile.dtype = tile.out = c_.dtype;
    tile.lda = gather_.columns();
    if (direction_ == Direction::backward_weights) {
      tile.out = sum_dtype(c_.dtype);
      tile.m = gather_.columns(), tile.n = group_out(), tile.k = rows;
      tile.transpose_a = true;
      tile.ldb = tile.ldc = c_.out_channels;
      return tile;
    }
    const bool forward = direction_ == Direction::forward;
    tile.m = rows, tile.n = forward ? group_out() : group_in(), tile.k = gather_.columns();
    tile.ldb = forward ? c_.out_channels : group_in();
    tile.ldc = forward ? c_.out_channels : c_.in_channels;
    return tile;
  }

  void run_block(std::int64_t task, std::int64_t row, std::int64_t rows, const ConvolutionOperands& operands,
                 std::byte* shared, std::byte* scratch) const {
    if (depthwise_) return run_depthwise(task, row, rows, operands, shared, scratch);
    for (std::int64_t group = 0; group < c_.groups; ++group)
      run_group(task, group, row, rows, operands, shared, scratch);
  }

  // All groups at once.
  void run_depthwise(std::int64_t task, std::int64_t row, std::int64_t rows, const ConvolutionOperands& operands,
                     std::byte* shared, std::byte* scratch) const {
    gather_.rows(operands.a, 0, row, rows, scratch);
    DepthwiseBlock block{direction_, c_.dtype, rows, gather_.taps(), c_.in_channels, group_out(), false};
    const std::byte* right = operands.b;
    std::byte* out = operands.out + row * c_.out_channels * element_;
    if (direction_ == Direction::backward_data) out = operands.out + row * c_.in_channels * element_;
    if (direction_ == Direction::backward_weights) {
      right += row * c_.out_channels * element_;
      out = shared + task * elements_of_w(c_) * size_of(sum_dtype(c_.dtype));
      block.accumulate = row > task * task_rows_;
    }
    depthwise(block, scratch, right, out, scratch + gathered_bytes_);
  }

  void run_group(std::int64_t task, std::int64_t group, std::int64_t row, std::int64_t rows,
                 const ConvolutionOperands& operands, std::byte* shared, std::byte* scratch) const {
    gather_.rows(operands.a, group, row, rows, scratch);
    std::byte* product_scratch = scratch + gathered_bytes_;
    GemmTile product = tile(rows);
    const std::byte* right = nullptr;
    std::byte* out = nullptr;
    switch (direction_) {
      case Direction::forward:
        right = operands.b + group * group_out() * element_;
        out = operands.out + (row * c_.out_channels + group * group_out()) * element_;
        break;
      case Direction::backward_data:
        right = shared + group * gather_.columns() * group_in() * element_;
        out = operands.out + (row * c_.in_channels + group * group_in()) * element_;
        break;
      case Direction::backward_weights:
        right = operands.b + (row * c_.out_channels + group * group_out()) * element_;
        out = shared + (task * elements_of_w(c_) + group * group_out()) * size_of(product.out);
        product.accumulate = row > task * task_rows_;
        break;
    }
    gemm_tile(product, scratch, right, out, product_scratch);
  }

  const Direction direction_;
  const Convolution c_;
  const bool depthwise_;
  const Gather gather_;
  const std::int64_t element_;
  std::int64_t pixels_ = 0, block_rows_ = 0, task_rows_ = 0;
  std::size_t gathered_bytes_ = 0;
  WorkspaceLayout layout_;
};

}  // namespace

std::size_t convolution_workspace(Direction direction, const Convolution& convolution) {
  return Run(direction, convolution).workspace_bytes();
}

void convolution(Direction direction, const Convolution& convolution, const ConvolutionOperands& operands,
                 std::span<std::byte> workspace) {
  Run(direction, convolution).run(operands, workspace);
}

}  // namespace thalweg::cpu::builtin
