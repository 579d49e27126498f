#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

// How places of the result are mapped to the image: as centres of pixels (the default), by their corners
// (align_corners: first on first, last on last), or by their upper left corners (both false).
struct Resize {
  bool align_corners = false;
  bool half_pixel_centers = true;
};

// Images [batch, height, width, channels] in another size {height, width}, without antialiasing.
TW_API Tensor resize_bilinear(const Tensor& x, const Ints& size, const Resize& options = {});
TW_API Tensor resize_nearest(const Tensor& x, const Ints& size, const Resize& options = {});

// [batch, height, width, block * block * channels] <-> [batch, height * block, width * block, channels]: a block of
// neighbouring pixels lies in the channels of one, row by row.
TW_API Tensor depth_to_space(const Tensor& x, std::int64_t block);
TW_API Tensor space_to_depth(const Tensor& x, std::int64_t block);

}  // namespace thalweg
