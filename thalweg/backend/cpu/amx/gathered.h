#pragma once

// Convolutions of f32 as products on tiles: the pixels under every output's taps stand side by side in a matrix, some
// images at a time. Windows of one pixel side by side are such a matrix as they are.
#include "thalweg/backend/cpu/convolution_provider.h"

namespace thalweg::cpu::amx::gathered {

// Whether that is faster than what the library has.
bool pays(Direction direction, const Convolution& convolution);
std::size_t convolution_workspace(Direction direction, const Convolution& convolution);
void convolution(Direction direction, const Convolution& convolution, const ConvolutionOperands& operands,
                 std::span<std::byte> workspace);

}  // namespace thalweg::cpu::amx::gathered
