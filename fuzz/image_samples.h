// Small valid image files of every kind that the libraries write.
#pragma once

#include <png.h>
#include <webp/encode.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
// clang-format off
#include <jpeglib.h>  // needs <cstdio>
// clang-format on

namespace normball::fuzz {

inline std::vector<std::uint8_t> sample_pixels(int width, int height, int channels) {
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        pixels.push_back(static_cast<std::uint8_t>(40 + 3 * x + 5 * y * (c + 1) + (x * y) % 7));
      }
    }
  }
  return pixels;
}

struct JpegKind {
  J_COLOR_SPACE colours = JCS_RGB;
  int channels = 3;
  bool progressive = false;
  int restart = 0;   // blocks between markers
  int sampling = 2;  // of brightness, against the colours
};

inline std::string jpeg_file(const JpegKind& kind, int width = 37, int height = 29) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = kind.channels;
  info.in_color_space = kind.colours;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 60, TRUE);
  info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor = kind.sampling;
  info.restart_interval = static_cast<unsigned>(kind.restart);
  if (kind.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  auto pixels = sample_pixels(width, height, kind.channels);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row =
        pixels.data() + info.next_scanline * static_cast<unsigned>(width * kind.channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<const char*>(bytes), size);
  std::free(bytes);
  return file;
}

struct PngKind {
  int colours = PNG_COLOR_TYPE_RGB, channels = 3, bits = 8;
  bool interlaced = false;
};

inline std::string png_file(const PngKind& kind, int width = 19, int height = 13) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  const auto write = [](png_structp to, png_bytep bytes, png_size_t count) {
    static_cast<std::string*>(png_get_io_ptr(to))
        ->append(reinterpret_cast<const char*>(bytes), count);
  };
  png_set_write_fn(png, &file, write, [](png_structp) {});
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height),
               kind.bits, kind.colours, kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_color palette[16];
  png_byte transparent[3] = {0, 100, 255};
  for (int i = 0; i < 16; ++i) {
    const auto value = static_cast<png_byte>(16 * i);
    palette[i] = {value, static_cast<png_byte>(255 - value), 77};
  }
  if (kind.colours == PNG_COLOR_TYPE_PALETTE) {
    png_set_PLTE(png, info, palette, 16);
    png_set_tRNS(png, info, transparent, 3, nullptr);
  }
  png_write_info(png, info);
  auto pixels = sample_pixels(width, height, kind.channels * 2);  // enough for 16 bits
  const int passes = png_set_interlace_handling(png);
  for (int pass = 0; pass < passes; ++pass) {
    for (int y = 0; y < height; ++y)
      png_write_row(png, pixels.data() + y * width * kind.channels * 2);
  }
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

inline std::string webp_file(bool lossless, bool alpha, int width = 21, int height = 18) {
  const auto pixels = sample_pixels(width, height, alpha ? 4 : 3);
  std::uint8_t* bytes = nullptr;
  const int stride = width * (alpha ? 4 : 3);
  size_t size = 0;
  if (lossless) {
    size = alpha ? WebPEncodeLosslessRGBA(pixels.data(), width, height, stride, &bytes)
                 : WebPEncodeLosslessRGB(pixels.data(), width, height, stride, &bytes);
  } else {
    size = alpha ? WebPEncodeRGBA(pixels.data(), width, height, stride, 50, &bytes)
                 : WebPEncodeRGB(pixels.data(), width, height, stride, 50, &bytes);
  }
  std::string file(reinterpret_cast<const char*>(bytes), size);
  WebPFree(bytes);
  return file;
}

}  // namespace normball::fuzz
