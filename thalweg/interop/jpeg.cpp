#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>

#include "thalweg/core/check.h"
#include "thalweg/interop/image_internal.h"

namespace thalweg {
namespace {

// libjpeg reports errors by a jump. Nothing with a destructor lives in the functions that it jumps out of.
struct Decoder {
  jpeg_decompress_struct info = {};
  jpeg_error_mgr errors = {};
  std::jmp_buf failed;
  char message[JMSG_LENGTH_MAX] = "";

  Decoder() {
    info.err = jpeg_std_error(&errors);
    errors.error_exit = [](j_common_ptr common) {
      auto* self = static_cast<Decoder*>(common->client_data);
      common->err->format_message(common, self->message);
      std::longjmp(self->failed, 1);
    };
    errors.emit_message = [](j_common_ptr common, int level) {  // -1: a warning of damaged data
      if (level < 0) common->err->error_exit(common);
    };
    info.client_data = this;
    jpeg_create_decompress(&info);
  }
  ~Decoder() { jpeg_destroy_decompress(&info); }
  Decoder(const Decoder&) = delete;

  bool begin(const ImageBytes& image) {
    if (setjmp(failed)) return false;
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(image.bytes.data()), image.bytes.size());
    jpeg_read_header(&info, TRUE);
    info.out_color_space = image.channels == 1 ? JCS_GRAYSCALE : image.channels == 3 ? JCS_RGB : JCS_EXT_RGBA;
    jpeg_calc_output_dimensions(&info);
    return true;
  }
  bool finish(unsigned char* pixels, std::size_t row_bytes) {
    if (setjmp(failed)) return false;
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      unsigned char* row = pixels + info.output_scanline * row_bytes;
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
    return true;
  }
};

}  // namespace

Tensor decode_jpeg(const ImageBytes& image) {
  Decoder decoder;
  if (!decoder.begin(image)) image.damaged(decoder.message);
  const J_COLOR_SPACE colours = decoder.info.jpeg_color_space;
  TW_CHECK(unimplemented, colours != JCS_CMYK && colours != JCS_YCCK, "image", "convert it to RGB",
           "{} has the colours of printers, CMYK", image.place);
  Tensor pixels = image.allocate(decoder.info.output_height, decoder.info.output_width);
  const std::size_t row_bytes = std::size_t{decoder.info.output_width} * static_cast<std::size_t>(image.channels);
  if (!decoder.finish(static_cast<unsigned char*>(mutable_data(pixels)), row_bytes)) image.damaged(decoder.message);
  return pixels;
}

}  // namespace thalweg
