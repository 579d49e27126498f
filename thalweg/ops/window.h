#pragma once

// A window of taps that slides over the spatial axes of [batch, spatial…, channels]: convolutions and pools.
#include <array>
#include <cstdint>

#include "thalweg/core/shape.h"
#include "thalweg/ops/padding.h"

namespace thalweg {

// What the caller asked for. Lists have one entry per spatial axis, or one for all, or none (all ones).
struct WindowOptions {
  Ints strides, dilations;
  Padding padding;
};

// One axis of it: place o covers x[o * stride + t * dilation - pad_before] for the taps t in [0, taps).
struct WindowAxis {
  std::int64_t input = 1, taps = 1, output = 1, stride = 1, dilation = 1, pad_before = 0, pad_after = 0;
};

// Up to three axes, in memory order.
using Window = std::array<WindowAxis, 3>;

// One entry per spatial axis from a list with as many, with one, or with none.
Ints per_axis(const char* op, const char* what, const Ints& values, int spatial, std::int64_t otherwise = 1);

// The window over `input` sizes (spatial axes only). Throws user errors in the name of `op`.
Window make_window(const char* op, const Ints& input, const Ints& taps, const WindowOptions& options);

}  // namespace thalweg
