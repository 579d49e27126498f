#include "thalweg/backend/cpu/convolution.h"

#include <algorithm>
#include <cstring>

#include "thalweg/backend/cpu/amx/convolution.h"
#include "thalweg/backend/cpu/amx/gathered.h"
#include "thalweg/backend/cpu/convolution_provider.h"
#include "thalweg/backend/cpu/kernels/depthwise.h"
#include "thalweg/backend/cpu/winograd/winograd.h"
#include "thalweg/core/check.h"
#include "thalweg/core/thread_pool.h"

namespace thalweg::cpu {
namespace {

std::int64_t product(const Convolution& convolution, const std::array<std::int64_t, 3>& sizes) {
  std::int64_t result = 1;
  for (int i = 0; i < convolution.spatial; ++i) result *= sizes[static_cast<std::size_t>(i)];
  return result;
}

void check(const Convolution& c) {
  TW_CHECK(unimplemented, c.dtype != DType::u8 && c.dtype != DType::boolean, "convolution",
           "cast the operands to a number type first", "no convolutions of u8 or boolean");
  TW_CHECK_INTERNAL(c.spatial >= 1 && c.spatial <= 3, "convolution", "{} spatial dimensions", c.spatial);
  TW_CHECK_INTERNAL(c.groups >= 1 && c.in_channels % c.groups == 0 && c.out_channels % c.groups == 0, "convolution",
                    "{} groups do not divide {} and {} channels", c.groups, c.in_channels, c.out_channels);
}

struct Sizes {
  std::int64_t a, b, out;
};

Sizes sizes_of(Direction direction, const Convolution& c) {
  switch (direction) {
    case Direction::forward: return {elements_of_x(c), elements_of_w(c), elements_of_y(c)};
    case Direction::backward_data: return {elements_of_y(c), elements_of_w(c), elements_of_x(c)};
    case Direction::backward_weights: break;
  }
  return {elements_of_x(c), elements_of_y(c), elements_of_w(c)};
}

// Who computes a convolution, and in tiles of which size if it is Winograd's method.
struct Way {
  enum Kind { builtin, onednn, amx, gathered, winograd, depthwise } kind = builtin;
  int tile = 0;
};

Way way_of(Provider provider, Direction direction, const Convolution& c) {
  if (provider == Provider::builtin) return {};
  if (provider == Provider::amx && amx::supported(c)) return {Way::amx};
  if (provider == Provider::onednn && onednn::supported(direction, c)) return {Way::onednn};
  TW_CHECK_INTERNAL(provider == Provider::automatic, "convolution", "provider {} does not support this convolution",
                    static_cast<int>(provider));
  if (amx::supported(c)) return {Way::amx};
  if (const int tile = winograd::tile_size(direction, c); tile != 0) return {Way::winograd, tile};
  if (amx::gathered::pays(direction, c)) return {Way::gathered};
  if (depthwise::supported(c)) return {Way::depthwise};
  return {onednn::supported(direction, c) ? Way::onednn : Way::builtin};
}

ConvolutionOperands operands(const void* a, const void* b, void* out, const OnRegion* done = nullptr) {
  return {static_cast<const std::byte*>(a), static_cast<const std::byte*>(b), static_cast<std::byte*>(out), done};
}

constexpr std::int64_t kTold = 16 * 1024;  // elements that are told of at a time

}  // namespace

std::int64_t elements_of_x(const Convolution& c) { return c.batch * product(c, c.input) * c.in_channels; }
std::int64_t elements_of_w(const Convolution& c) {
  return product(c, c.kernel) * (c.in_channels / c.groups) * c.out_channels;
}
std::int64_t elements_of_y(const Convolution& c) { return c.batch * product(c, c.output) * c.out_channels; }

double flops_of(const Convolution& c) {
  const std::int64_t products_of_one = product(c, c.kernel) * (c.in_channels / c.groups);
  return 2.0 * static_cast<double>(elements_of_y(c)) * static_cast<double>(products_of_one);
}

bool reaches_far(const Convolution& c) {
  constexpr std::int64_t far = 1 << 24;
  for (std::size_t i = 0; i < static_cast<std::size_t>(c.spatial); ++i)
    if (std::max({c.input[i], c.output[i], c.stride[i], c.kernel[i], c.pad_before[i], c.pad_after[i]}) >= far ||
        c.dilation[i] * (c.kernel[i] - 1) >= far || c.output[i] * c.stride[i] >= 4 * far)
      return true;
  return false;
}

std::int64_t weight_partials(double flops, std::size_t weights_bytes) {
  const double worth = std::clamp(flops / 4e6, 1.0, 8.0),
               fitting = 16.0 * 1024 * 1024 / static_cast<double>(weights_bytes);
  return static_cast<std::int64_t>(std::min(worth, std::max(fitting, 2.0)));
}

std::size_t convolution_workspace(Provider provider, Direction direction, const Convolution& c) {
  check(c);
  const Sizes sizes = sizes_of(direction, c);
  if (sizes.a == 0 || sizes.b == 0 || sizes.out == 0) return 0;
  const Way way = way_of(provider, direction, c);
  switch (way.kind) {
    case Way::amx: return amx::convolution_workspace(direction, c);
    case Way::gathered: return amx::gathered::convolution_workspace(direction, c);
    case Way::winograd: return winograd::convolution_workspace(way.tile, direction, c);
    case Way::depthwise: return depthwise::convolution_workspace(direction, c);
    case Way::onednn: return onednn::convolution_workspace(direction, c);
    case Way::builtin: break;
  }
  return builtin::convolution_workspace(direction, c);
}

void convolution(Provider provider, Direction direction, const Convolution& c, const ConvolutionOperands& operands,
                 std::span<std::byte> workspace) {
  check(c);
  const Sizes sizes = sizes_of(direction, c);
  if (sizes.out == 0) return;
  if (sizes.a == 0 || sizes.b == 0) {
    const DType dtype = direction == Direction::backward_weights ? gradient_dtype(c) : c.dtype;
    std::memset(operands.out, 0, static_cast<std::size_t>(sizes.out * size_of(dtype)));
    if (operands.done) tell_pixels(direction, c, *operands.done);
    return;
  }
  const Way way = way_of(provider, direction, c);
  switch (way.kind) {
    case Way::winograd: return winograd::convolution(way.tile, direction, c, operands, workspace);
    case Way::onednn: return onednn::convolution(direction, c, operands, workspace);
    case Way::amx: amx::convolution(direction, c, operands, workspace); break;
    case Way::gathered: amx::gathered::convolution(direction, c, operands, workspace); break;
    case Way::depthwise: depthwise::convolution(direction, c, operands, workspace); break;
    case Way::builtin: builtin::convolution(direction, c, operands, workspace); break;
  }
  if (operands.done) tell_pixels(direction, c, *operands.done);
}

void tell_pixels(Direction direction, const Convolution& c, const OnRegion& done) {
  const bool forward = direction == Direction::forward;
  const std::int64_t channels = forward ? c.out_channels : c.in_channels;
  const std::int64_t pixels = c.batch * product(c, forward ? c.output : c.input);
  parallel_ranges(pixels, std::max<std::int64_t>(1, kTold / channels), [&](std::int64_t begin, std::int64_t end) {
    done({begin, end - begin, 0, channels});
  });
}

std::size_t convolution_forward_workspace(const Convolution& c) {
  return convolution_workspace(Provider::automatic, Direction::forward, c);
}
std::size_t convolution_backward_data_workspace(const Convolution& c) {
  return convolution_workspace(Provider::automatic, Direction::backward_data, c);
}
std::size_t convolution_backward_weights_workspace(const Convolution& c) {
  return convolution_workspace(Provider::automatic, Direction::backward_weights, c);
}

void convolution_forward(const Convolution& c, const void* x, const void* w, void* y, std::span<std::byte> workspace,
                         const OnRegion* done) {
  convolution(Provider::automatic, Direction::forward, c, operands(x, w, y, done), workspace);
}
void convolution_backward_data(const Convolution& c, const void* dy, const void* w, void* dx,
                               std::span<std::byte> workspace, const OnRegion* done) {
  convolution(Provider::automatic, Direction::backward_data, c, operands(dy, w, dx, done), workspace);
}
void convolution_backward_weights(const Convolution& c, const void* x, const void* dy, void* dw,
                                  std::span<std::byte> workspace) {
  convolution(Provider::automatic, Direction::backward_weights, c, operands(x, dy, dw), workspace);
}

}  // namespace thalweg::cpu
