#pragma once

#include "thalweg/data/dataset.h"

namespace thalweg::data {

enum class ShapesTask { segmentation, classification };

struct ShapesOptions {
  std::int64_t count = 1000;  // images
  std::int64_t size = 64;     // pixels a side
  ShapesTask task = ShapesTask::segmentation;
  std::uint64_t seed = 0;
};

// Drawn circles (1), squares (2) and triangles (3) on a noisy ground (0): data that need no file. Image number i
// depends on the seed and i alone. The image is f32 [size, size, 3] from 0 to 1. Segmentation: one to four shapes, and
// the class of each pixel, i32 [size, size]. Classification: one shape, and 0, 1 or 2 (i64) for circle, square or
// triangle.
TW_API Dataset shapes(const ShapesOptions& options = {});

}  // namespace thalweg::data
