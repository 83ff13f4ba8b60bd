// Decoding by libjpeg-turbo.
#include <algorithm>

#include "trainer/images/decoders.h"
#include "trainer/images/image_error.h"
#include "trainer/images/jpeg_errors.h"
// After the library's own header, which it needs.
#include <jerror.h>

namespace normball::trainer::images {
namespace {

// A progressive file may ask for any number of passes over all its coefficients.
constexpr int max_scans = 200;

// The library warns where it makes pixels up; what it only remarks on is common in photographs.
void warn(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_TOO_MUCH_DATA:
      return;
    default:
      leave_jpeg(info);
  }
}

void count_scans(j_common_ptr info) {
  if (!info->is_decompressor) return;
  const auto* decoder = reinterpret_cast<j_decompress_ptr>(info);
  if (decoder->input_scan_number <= max_scans) return;
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  std::snprintf(errors->text, sizeof errors->text, "more than %d scans", max_scans);
  std::longjmp(errors->jump, 1);
}

class Decoder {
 public:
  Decoder(FileBytes file, const std::string& name) : name_(name), info_{} {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = leave_jpeg;
    errors_.base.emit_message = warn;
    progress_.progress_monitor = count_scans;
    try {
      guarded([&] {
        jpeg_create_decompress(&info_);
        info_.progress = &progress_;
        jpeg_mem_src(&info_, file.data(), static_cast<unsigned long>(file.size()));
        jpeg_read_header(&info_, TRUE);
      });
    } catch (...) {
      jpeg_destroy_decompress(&info_);
      throw;
    }
  }
  ~Decoder() { jpeg_destroy_decompress(&info_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  jpeg_decompress_struct& info() { return info_; }
  Header header() const {
    return {Format::Jpeg, static_cast<int>(info_.image_width),
            static_cast<int>(info_.image_height)};
  }

  // The steps must not own anything.
  template <class Steps>
  void guarded(const Steps& steps) {
    if (setjmp(errors_.jump) != 0) {
      fail(decode_where, name_, ": is not a whole JPEG (", errors_.text,
           "); get the file again, or remove it");
    }
    steps();
  }

 private:
  const std::string& name_;
  JpegErrors errors_;
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct info_;
};

bool is_cmyk(const jpeg_decompress_struct& info) {
  return info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
}

// As Pillow: ink on white, where Adobe's files store 255 minus the ink.
void cmyk_to_rgb(std::uint8_t* row, int width, bool inverted) {
  for (int x = 0; x < width; ++x) {
    std::uint8_t* p = row + 4 * x;
    const int light = inverted ? p[3] : 255 - p[3];
    for (int c = 0; c < 3; ++c) {
      const int ink = inverted ? 255 - p[c] : p[c];
      const int product = ink * light + 128;
      p[c] = static_cast<std::uint8_t>(std::max(0, light - ((product >> 8) + product) / 256));
    }
    p[3] = 255;
  }
}

}  // namespace

Header jpeg_header(FileBytes file, const std::string& name) { return Decoder(file, name).header(); }

void decode_jpeg(FileBytes file, const std::string& name, int shrink, const Region* part,
                 Image& out, Region* decoded) {
  Decoder decoder(file, name);
  require_plausible(decoder.header(), file, name);
  auto& info = decoder.info();
  info.out_color_space = is_cmyk(info) ? JCS_CMYK : JCS_EXT_RGBX;
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(shrink);
  // Upsampling of colours looks at neighbours: two blocks more on every side than asked for.
  const unsigned margin = 32;
  unsigned left = 0, top = 0, width = 0, height = 0;
  decoder.guarded([&] {
    jpeg_start_decompress(&info);
    width = info.output_width;
    height = info.output_height;
    if (part == nullptr) return;
    const auto begin = [&](int at) {
      return static_cast<unsigned>(at) > margin ? static_cast<unsigned>(at) - margin : 0;
    };
    left = begin(part->left);
    width = std::min(width, static_cast<unsigned>(part->left + part->width) + margin) - left;
    if (width < info.output_width) jpeg_crop_scanline(&info, &left, &width);
    top = begin(part->top) / 16 * 16;
    height = std::min(height, static_cast<unsigned>(part->top + part->height)) - top;
  });
  out.reshape(static_cast<int>(width), static_cast<int>(height));
  std::uint8_t* pixels = out.pixels.data();
  const size_t stride = out.stride();
  decoder.guarded([&] {
    if (top > 0) jpeg_skip_scanlines(&info, top);
    while (info.output_scanline < top + height) {
      JSAMPROW row = pixels + (info.output_scanline - top) * stride;
      jpeg_read_scanlines(&info, &row, 1);
    }
    if (info.output_scanline == info.output_height) jpeg_finish_decompress(&info);
  });
  if (is_cmyk(info)) {
    for (int y = 0; y < out.height; ++y) {
      cmyk_to_rgb(out.row(y), out.width, info.saw_Adobe_marker != 0);
    }
  }
  if (decoded != nullptr)
    *decoded = {static_cast<int>(left), static_cast<int>(top), out.width, out.height};
}

}  // namespace normball::trainer::images
