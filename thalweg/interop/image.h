#pragma once

#include <span>
#include <string>

#include "thalweg/core/tensor.h"

namespace thalweg {

// A PNG or JPEG image as u8 [height, width, channels]; 1 (grey), 3 (red, green, blue) or 4 channels (with alpha; opaque
// for JPEG). Alpha that is not asked for is dropped, 16 bits are rounded to 8, and the grey of a colour is 0.299 red +
// 0.587 green + 0.114 blue. JPEG: libjpeg's slow integer transform
// and smooth chroma upsampling, its defaults. `place` names the image in errors.
Tensor decode_image(std::span<const char> bytes, int channels, std::int64_t most_pixels, const std::string& place);

// u8 [height, width, channels] of 1, 3 or 4 channels as the bytes of a PNG file.
std::string encode_png(const Tensor& pixels);

}  // namespace thalweg
