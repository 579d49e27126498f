#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "thalweg/core/dtype.h"
#include "thalweg/core/region.h"

namespace thalweg::cpu {

// Channels-last convolution in 1 to 3 dimensions. Per-axis values are in memory order (… H, W); those beyond `spatial`
// are ignored. y[n, o…, c] = sum over taps t and channels i of x[n, o * stride + t * dilation - pad_before, i] w[t, i,
// c]
//   x [batch, input…, in_channels]   w [kernel…, in_channels / groups, out_channels]   y [batch, output…, out_channels]
// Output channels are divided evenly among the groups; depthwise is groups == in_channels.
struct Convolution {
  DType dtype = DType::f32;
  bool wide_gradient = false;  // of f16 and bf16: the gradient of the weights is f32
  int spatial = 2;
  std::int64_t batch = 0, in_channels = 0, out_channels = 0, groups = 1;
  std::array<std::int64_t, 3> input{1, 1, 1}, kernel{1, 1, 1}, output{1, 1, 1};
  std::array<std::int64_t, 3> stride{1, 1, 1}, dilation{1, 1, 1}, pad_before{0, 0, 0}, pad_after{0, 0, 0};
  bool strict = false;  // every result a sum of plain products
  bool operator==(const Convolution&) const = default;
};

// Bytes of scratch, 64-byte aligned; as in gemm.h, a smaller workspace may do and changes no result.
std::size_t convolution_forward_workspace(const Convolution& convolution);
std::size_t convolution_backward_data_workspace(const Convolution& convolution);
std::size_t convolution_backward_weights_workspace(const Convolution& convolution);

// done: told what stands of y or dx, whose rows are pixels; null: nobody asks.
void convolution_forward(const Convolution& convolution, const void* x, const void* w, void* y,
                         std::span<std::byte> workspace, const OnRegion* done = nullptr);
void convolution_backward_data(const Convolution& convolution, const void* dy, const void* w, void* dx,
                               std::span<std::byte> workspace, const OnRegion* done = nullptr);
void convolution_backward_weights(const Convolution& convolution, const void* x, const void* dy, void* dw,
                                  std::span<std::byte> workspace);

}  // namespace thalweg::cpu
