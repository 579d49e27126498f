#pragma once

#include "thalweg/backend/cpu/convolution_provider.h"

// Depthwise convolutions of 3 x 3 taps at stride 1 that keep the size of the image (padding 1), one output a channel:
// vectors of channels, every result a sum of plain products. f32. Results have the same bits for any number of threads,
// and those of an image do not depend on the others.
namespace thalweg::cpu::depthwise {

// Whether this is one, with enough channels for vectors.
bool supported(const Convolution& c);

std::size_t convolution_workspace(Direction direction, const Convolution& c);
void convolution(Direction direction, const Convolution& c, const ConvolutionOperands& operands,
                 std::span<std::byte> workspace);

}  // namespace thalweg::cpu::depthwise
