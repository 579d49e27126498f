#pragma once

#include "thalweg/backend/cpu/amx/pixels.h"
#include "thalweg/backend/cpu/convolution_provider.h"

namespace thalweg::cpu::amx {

// A convolution over images of three axes, the first of them of one pixel where there are fewer.
struct Image {
  Triple input{1, 1, 1}, kernel{1, 1, 1}, output{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, pad{0, 0, 0};

  explicit Image(const Convolution& c) {
    const auto from = static_cast<std::size_t>(3 - c.spatial);
    for (std::size_t i = from; i < 3; ++i) {
      input[i] = c.input[i - from], kernel[i] = c.kernel[i - from], output[i] = c.output[i - from];
      stride[i] = c.stride[i - from], dilation[i] = c.dilation[i - from], pad[i] = c.pad_before[i - from];
    }
  }

  std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  Triple tap(std::int64_t i) const { return {i / (kernel[1] * kernel[2]), i / kernel[2] % kernel[1], i % kernel[2]}; }

  // Outputs, at the inputs under their first tap.
  Grid outputs() const { return {output, stride, {-pad[0], -pad[1], -pad[2]}, input}; }
  Triple offset(std::int64_t i) const {
    const Triple at = tap(i);
    return {at[0] * dilation[0], at[1] * dilation[1], at[2] * dilation[2]};
  }
};

// Inputs that see the same taps: every stride-th along each axis, from a first one. Gradients of inputs are sums over
// outputs, which lie side by side for them.
struct Phase {
  Triple first{0, 0, 0};

  Phase(const Image& image, std::int64_t i) {
    for (std::size_t axis = 3; axis-- > 0; i /= counted(image, axis)) first[axis] = i % counted(image, axis);
  }

  static std::int64_t count(const Image& image) { return counted(image, 0) * counted(image, 1) * counted(image, 2); }

  // The inputs, counted by stride, over the outputs.
  Grid over_outputs(const Image& image) const { return {counts(image), {1, 1, 1}, {0, 0, 0}, image.output}; }
  // The same inputs where they lie.
  Grid over_inputs(const Image& image) const { return {counts(image), image.stride, first, image.input}; }

  // Where the outputs that see the inputs through a tap lie from them; false where none does.
  bool offset(const Image& image, std::int64_t i, Triple& to) const {
    const Triple at = image.tap(i);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const std::int64_t back = first[axis] + image.pad[axis] - at[axis] * image.dilation[axis];
      if (back % image.stride[axis] != 0) return false;
      to[axis] = back / image.stride[axis];
    }
    return true;
  }

 private:
  // Where an image ends before the stride does, the rest of its phases are empty.
  static std::int64_t counted(const Image& image, std::size_t axis) {
    return std::min(image.stride[axis], image.input[axis]);
  }

  Triple counts(const Image& image) const {
    Triple made;
    for (std::size_t axis = 0; axis < 3; ++axis)
      made[axis] =
          std::max<std::int64_t>(0, image.input[axis] - first[axis] + image.stride[axis] - 1) / image.stride[axis];
    return made;
  }
};

}  // namespace thalweg::cpu::amx
