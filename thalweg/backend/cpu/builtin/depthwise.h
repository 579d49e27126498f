#pragma once

#include <cstddef>
#include <cstdint>

#include "thalweg/backend/cpu/convolution_provider.h"

namespace thalweg::cpu::builtin {

// A block of target pixels of a depthwise convolution (one input channel a group), on gathered source pixels.
struct DepthwiseBlock {
  Direction direction;
  DType dtype;
  std::int64_t rows, taps, channels, multiplier;  // out_channels = channels * multiplier
  bool accumulate;                                // backward_weights: adds to the partial sums
};

// forward:          a = gathered x [rows, taps, channels], b = w [taps, out_channels], out = y [rows, out_channels]
// backward_data:    a = gathered dy [rows, taps, out_channels], b = w [taps, out_channels], out = dx [rows, channels]
// backward_weights: a = gathered x [rows, taps, channels], b = dy [rows, out_channels], out [taps, out_channels] in the
//                   dtype of sums
// sums: out_channels elements of 8 bytes.
void depthwise(const DepthwiseBlock& block, const void* a, const void* b, void* out, std::byte* sums);

}  // namespace thalweg::cpu::builtin
