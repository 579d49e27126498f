#include "thalweg/interop/image.h"

#include <cstring>

#include "thalweg/core/check.h"
#include "thalweg/interop/image_internal.h"

namespace thalweg {

Tensor ImageBytes::allocate(std::int64_t height, std::int64_t width) const {
  static const memory::Owner owner = memory::owner("image");
  TW_CHECK(data_loss, height >= 1 && width >= 1 && height <= most_pixels / width, "image",
           "scale the image down, or raise .max_pixels", "{} is {} x {}, more than {} pixels", place, height, width,
           most_pixels);
  return allocate_tensor({DType::u8, {height, width, channels}}, owner);
}

void ImageBytes::damaged(const std::string& what) const {
  TW_FAIL(data_loss, "image", "the file is damaged; fetch it again", "{} cannot be decoded: {}", place, what);
}

Tensor decode_image(std::span<const char> bytes, int channels, std::int64_t most_pixels, const std::string& place) {
  const ImageBytes image{bytes, channels, most_pixels, place};
  if (bytes.size() >= 8 && std::memcmp(bytes.data(), "\x89PNG\r\n\x1a\n", 8) == 0) return decode_png(image);
  if (bytes.size() >= 3 && std::memcmp(bytes.data(), "\xff\xd8\xff", 3) == 0) return decode_jpeg(image);
  image.damaged("it is neither PNG nor JPEG");
}

}  // namespace thalweg
