#pragma once

#include "thalweg/backend/cpu/convolution_provider.h"

// Convolutions of 3 x 3 taps with fewer multiplications: every m x m outputs take (m + 2)^2 products instead of 9 m^2.
// f32 or bf16, computed in f32; two spatial dimensions, stride 1, no dilation, no groups, any padding. A value that is
// not finite spreads over its tile. Results have the same bits for any number of threads and do not depend on the other
// images of a batch.
namespace thalweg::cpu::winograd {

// Outputs of a tile along each axis, 2 or 4, where that beats direct convolution; 0 where it does not, cannot be done,
// or c.strict asks for sums of plain products. A formula of the shape.
int tile_size(Direction direction, const Convolution& c);

std::size_t convolution_workspace(int tile, Direction direction, const Convolution& c);
void convolution(int tile, Direction direction, const Convolution& c, const ConvolutionOperands& operands,
                 std::span<std::byte> workspace);

}  // namespace thalweg::cpu::winograd
