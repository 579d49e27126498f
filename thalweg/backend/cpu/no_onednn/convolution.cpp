// A build without oneDNN: nothing is supported here, so every convolution goes to the built-in kernels.
#include "thalweg/backend/cpu/convolution_provider.h"
#include "thalweg/core/check.h"

namespace thalweg::cpu::onednn {

bool supported(Direction, const Convolution&) { return false; }

std::size_t convolution_workspace(Direction, const Convolution&) { return 0; }

void convolution(Direction, const Convolution&, const ConvolutionOperands&, std::span<std::byte>) {
  TW_FAIL(internal, "convolution", "configure with THALWEG_ONEDNN=ON", "this build has no oneDNN");
}

}  // namespace thalweg::cpu::onednn
