#include <png.h>

#include <algorithm>
#include <vector>

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

// As libjpeg takes it: of the numbers that are stored. libpng would take that of the light that they stand for.
std::uint8_t grey_of(const std::uint8_t* colour) {
  return static_cast<std::uint8_t>((19595U * colour[0] + 38470U * colour[1] + 7471U * colour[2] + 32768U) >> 16);
}

}  // namespace

Tensor decode_png(const ImageBytes& image) {
  Png png;
  if (!png_image_begin_read_from_memory(&png.image, image.bytes.data(), image.bytes.size()))
    image.damaged(png.image.message);
  png.image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // 16 bits are the same numbers as 8, only finer
  const bool drops_alpha = (png.image.format & PNG_FORMAT_FLAG_ALPHA) != 0 && image.channels < 4;
  const bool makes_grey = (png.image.format & PNG_FORMAT_FLAG_COLOR) != 0 && image.channels == 1;
  png.image.format = format_of(makes_grey ? 3 : image.channels) | (drops_alpha ? PNG_FORMAT_FLAG_ALPHA : 0);
  Tensor pixels = image.allocate(png.image.height, png.image.width);
  const auto read = [&](void* to) {
    if (!png_image_finish_read(&png.image, nullptr, to, 0, nullptr)) image.damaged(png.image.message);
  };
  if (!drops_alpha && !makes_grey) {
    read(mutable_data(pixels));
    return pixels;
  }
  // Colours as they are stored: what lies under a transparent pixel counts too.
  const auto channels = static_cast<std::size_t>(image.channels),
             stored = std::size_t{PNG_IMAGE_PIXEL_CHANNELS(png.image.format)};
  std::vector<std::uint8_t> all(PNG_IMAGE_SIZE(png.image));
  read(all.data());
  auto* to = static_cast<std::uint8_t*>(mutable_data(pixels));
  for (std::size_t from = 0; from < all.size(); from += stored, to += channels)
    if (makes_grey)
      *to = grey_of(all.data() + from);
    else
      std::copy_n(all.data() + from, channels, to);
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
