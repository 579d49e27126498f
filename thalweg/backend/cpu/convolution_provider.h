#pragma once

#include <span>

#include "thalweg/backend/cpu/convolution.h"
#include "thalweg/backend/cpu/partial_sums.h"
#include "thalweg/backend/cpu/provider.h"

namespace thalweg::cpu {

enum class Direction : std::uint8_t { forward, backward_data, backward_weights };

// Pointers in the order of the public functions: forward (x, w, y), data (dy, w, dx), weights (x, dy, dw).
struct ConvolutionOperands {
  const std::byte* a;
  const std::byte* b;
  std::byte* out;
  const OnRegion* done = nullptr;  // told what stands of y or dx, whose rows are pixels; null: nobody asks
};

// Tells of all pixels, for ways that do not do so while they compute.
void tell_pixels(Direction direction, const Convolution& convolution, const OnRegion& done);

double flops_of(const Convolution& convolution);
inline DType gradient_dtype(const Convolution& c) { return c.wide_gradient ? sum_dtype(c.dtype) : c.dtype; }
std::int64_t elements_of_x(const Convolution& convolution);
std::int64_t elements_of_w(const Convolution& convolution);
std::int64_t elements_of_y(const Convolution& convolution);

// Whether its windows reach beyond what 32 bits can count, as no image needs: the built-in loops alone take those.
bool reaches_far(const Convolution& convolution);

// How many partial sums of weights_bytes a weight gradient of that many FLOPs is worth: up to 8, at most 16 MiB of
// them, but two of any size for large work.
std::int64_t weight_partials(double flops, std::size_t weights_bytes);

// Providers see no empty operand.
namespace builtin {
std::size_t convolution_workspace(Direction direction, const Convolution& convolution);
void convolution(Direction direction, const Convolution& convolution, const ConvolutionOperands& operands,
                 std::span<std::byte> workspace);
}  // namespace builtin

namespace onednn {
bool supported(Direction direction, const Convolution& convolution);
std::size_t convolution_workspace(Direction direction, const Convolution& convolution);
void convolution(Direction direction, const Convolution& convolution, const ConvolutionOperands& operands,
                 std::span<std::byte> workspace);
}  // namespace onednn

std::size_t convolution_workspace(Provider provider, Direction direction, const Convolution& convolution);
void convolution(Provider provider, Direction direction, const Convolution& convolution,
                 const ConvolutionOperands& operands, std::span<std::byte> workspace);

}  // namespace thalweg::cpu
