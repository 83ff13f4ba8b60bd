#include "trainer/images/encode.h"

#include <png.h>

#include <cstdlib>

#include "trainer/images/image_error.h"
#include "trainer/images/jpeg_errors.h"

namespace normball::trainer::images {
namespace {

// Nothing here owns anything: errors leave by longjmp. The bytes are malloc's.
bool compress(const Image& image, int quality, JpegErrors& errors, unsigned char*& bytes,
              unsigned long& size) {
  jpeg_compress_struct info{};
  info.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = leave_jpeg;
  if (setjmp(errors.jump) != 0) {
    jpeg_destroy_compress(&info);
    return false;
  }
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = 4;
  info.in_color_space = JCS_EXT_RGBX;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  info.optimize_coding = TRUE;
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPROW>(image.row(static_cast<int>(info.next_scanline)));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  return true;
}

}  // namespace

std::vector<std::uint8_t> encode_jpeg(const Image& image, int quality) {
  JpegErrors errors;
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const bool done = compress(image, quality, errors, bytes, size);
  std::vector<std::uint8_t> file(bytes, bytes + (done ? size : 0));
  std::free(bytes);
  if (!done) fail("encode_jpeg", image.width, "x", image.height, " pixels: ", errors.text);
  return file;
}

std::vector<std::uint8_t> encode_png(const Image& image) {
  std::vector<std::uint8_t> colours;
  colours.reserve(image.pixels.size() / 4 * 3);
  for (size_t i = 0; i < image.pixels.size(); i += 4) {
    colours.insert(colours.end(), {image.pixels[i], image.pixels[i + 1], image.pixels[i + 2]});
  }
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  std::vector<std::uint8_t> file;
  for (int pass = 0; pass < 2; ++pass) {  // the first says how large it is
    file.resize(size);
    if (png_image_write_to_memory(&png, pass == 0 ? nullptr : file.data(), &size, 0, colours.data(),
                                  0, nullptr) == 0) {
      fail("encode_png", image.width, "x", image.height, " pixels: ", png.message);
    }
  }
  file.resize(size);
  return file;
}

}  // namespace normball::trainer::images
