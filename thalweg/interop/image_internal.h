#pragma once

#include <span>
#include <string>

#include "thalweg/core/tensor.h"

namespace thalweg {

// An image to be decoded, and how.
struct ImageBytes {
  std::span<const char> bytes;
  int channels;
  std::int64_t most_pixels;
  const std::string& place;

  // Room for an image of that size, if it is allowed.
  Tensor allocate(std::int64_t height, std::int64_t width) const;
  [[noreturn]] void damaged(const std::string& what) const;
};

Tensor decode_png(const ImageBytes& image);
Tensor decode_jpeg(const ImageBytes& image);

}  // namespace thalweg
