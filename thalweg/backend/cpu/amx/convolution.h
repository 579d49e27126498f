#pragma once

#include "thalweg/backend/cpu/convolution_provider.h"

namespace thalweg::cpu::amx {

// Convolutions of bf16 in one group.
bool supported(const Convolution& convolution);
std::size_t convolution_workspace(Direction direction, const Convolution& convolution);
void convolution(Direction direction, const Convolution& convolution, const ConvolutionOperands& operands,
                 std::span<std::byte> workspace);

}  // namespace thalweg::cpu::amx
