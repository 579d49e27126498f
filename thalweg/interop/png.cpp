#include <png.h>

#include "thalweg/core/check.h"
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

}  // namespace

Tensor decode_png(const ImageBytes& image) {
  Png png;
  if (!png_image_begin_read_from_memory(&png.image, image.bytes.data(), image.bytes.size()))
    image.damaged(png.image.message);
  png.image.format = image.channels == 1 ? PNG_FORMAT_GRAY : image.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
  Tensor pixels = image.allocate(png.image.height, png.image.width);
  const png_color black = {0, 0, 0};  // what shows through where alpha is asked away
  if (!png_image_finish_read(&png.image, &black, mutable_data(pixels), 0, nullptr)) image.damaged(png.image.message);
  return pixels;
}

}  // namespace thalweg
