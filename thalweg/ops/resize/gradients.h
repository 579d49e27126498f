#pragma once

#include "thalweg/ops/resize/resize.h"

namespace thalweg {

enum class ResizeMethod { bilinear, nearest };

// The transpose of a resize: dy [batch, height, width, channels] added to the pixels of an image of `size` it was made
// of.
Tensor resize_backward(const Tensor& dy, const Ints& size, ResizeMethod method, const Resize& options);

}  // namespace thalweg
