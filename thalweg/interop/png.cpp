#include <png.h>

#include "thalweg/core/check.h"
#include "thalweg/interop/image.h"
#include "thalweg/interop/image_internal.h"

namespace thalweg {
namespace {

// libpng's simple interface, freed in every case.
struct Png {
  png_image image = {};
  Png() { image.version = PNG_IMAGE_VERSION; }
  ~Png() { png_image_free(&image); }
  Png(const Png&) = delete;
};

png_uint_32 format_of(std::int64_t channels) {
  return channels == 1 ? PNG_FORMAT_GRAY : channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
}

}  // namespace

Tensor decode_png(const ImageBytes& image) {
  Png png;
  if (!png_image_begin_read_from_memory(&png.image, image.bytes.data(), image.bytes.size()))
    image.damaged(png.image.message);
  png.image.format = format_of(image.channels);
  Tensor pixels = image.allocate(png.image.height, png.image.width);
  const png_color black = {0, 0, 0};  // what shows through where alpha is asked away
  if (!png_image_finish_read(&png.image, &black, mutable_data(pixels), 0, nullptr)) image.damaged(png.image.message);
  return pixels;
}

std::string encode_png(const Tensor& pixels) {
  const Shape& shape = pixels.shape();
  TW_CHECK_INTERNAL(pixels.dtype() == u8 && shape.rank() == 3, "png", "{} {} are no pixels", pixels.dtype(), shape);
  Png png;
  png.image.height = static_cast<png_uint_32>(shape[0]);
  png.image.width = static_cast<png_uint_32>(shape[1]);
  png.image.format = format_of(shape[2]);
  const auto* bytes = pixels.data<std::uint8_t>().data();
  png_alloc_size_t size = 0;
  std::string file;
  const auto write = [&](void* to) { return png_image_write_to_memory(&png.image, to, &size, 0, bytes, 0, nullptr); };
  bool good = write(nullptr) != 0;  // the size alone
  file.resize(size);
  good = good && write(file.data()) != 0;
  TW_CHECK(invalid_argument, good, "png", "expected 1 to 2^31 - 1 pixels a side",
           "an image of {} cannot be encoded: {}", shape, static_cast<const char*>(png.image.message));
  file.resize(size);
  return file;
}

}  // namespace thalweg
