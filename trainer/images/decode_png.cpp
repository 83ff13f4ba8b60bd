// libpng. Its errors leave by longjmp, so nothing between a setjmp and the library has a
// destructor.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "trainer/images/decoders.h"
#include "trainer/images/image_error.h"

namespace normball::trainer::images {
namespace {

class Decoder {
 public:
  Decoder(FileBytes file, const std::string& name) : name_(name), rest_(file) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, leave, ignore);
    info_ = png_ != nullptr ? png_create_info_struct(png_) : nullptr;
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      fail(decode_where, name, ": libpng did not start; is there memory left?");
    }
    try {
      guarded([&] {
        png_set_read_fn(png_, this, read);
        png_set_chunk_malloc_max(png_, png_alloc_size_t{1} << 20);
        // Texts and profiles mean nothing here, and could be large when unpacked.
        constexpr png_byte left_out[] =
            "iCCP\0zTXt\0iTXt\0tEXt\0sPLT\0eXIf\0hIST\0pCAL\0sCAL\0tIME";
        png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, left_out, 10);
        png_read_info(png_, info_);
      });
    } catch (...) {
      png_destroy_read_struct(&png_, &info_, nullptr);
      throw;
    }
  }
  ~Decoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  Header header() const {
    return {Format::Png, static_cast<int>(png_get_image_width(png_, info_)),
            static_cast<int>(png_get_image_height(png_, info_))};
  }

  void pixels(Image& out) {
    int passes = 1;
    guarded([&] {
      png_set_expand(png_);
      png_set_scale_16(png_);
      png_set_gray_to_rgb(png_);
      png_set_strip_alpha(png_);
      png_set_filler(png_, 255, PNG_FILLER_AFTER);
      passes = png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
    });
    if (png_get_rowbytes(png_, info_) != out.stride()) {
      fail(decode_where, name_, ": is a PNG of an unknown kind; convert it, or remove it");
    }
    guarded([&] {
      for (int pass = 0; pass < passes; ++pass) {
        for (int y = 0; y < out.height; ++y) png_read_row(png_, out.row(y), nullptr);
      }
      png_read_end(png_, nullptr);
    });
  }

 private:
  // The steps must not own anything.
  template <class Steps>
  void guarded(const Steps& steps) {
    if (setjmp(jump_) != 0) {
      fail(decode_where, name_, ": is not a whole PNG (", text_,
           "); get the file again, or remove it");
    }
    steps();
  }

  [[noreturn]] static void leave(png_structp png, png_const_charp text) {
    auto* self = static_cast<Decoder*>(png_get_error_ptr(png));
    std::snprintf(self->text_, sizeof self->text_, "%s", text);
    std::longjmp(self->jump_, 1);
  }
  static void ignore(png_structp, png_const_charp) {}
  static void read(png_structp png, png_bytep to, png_size_t count) {
    auto* self = static_cast<Decoder*>(png_get_io_ptr(png));
    if (count > self->rest_.size()) png_error(png, "it ends too early");
    std::memcpy(to, self->rest_.data(), count);
    self->rest_ = self->rest_.subspan(count);
  }

  const std::string& name_;
  FileBytes rest_;
  std::jmp_buf jump_;
  char text_[128] = "";
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

Header png_header(FileBytes file, const std::string& name) { return Decoder(file, name).header(); }

void decode_png(FileBytes file, const std::string& name, Image& out) {
  Decoder decoder(file, name);
  const Header header = decoder.header();
  require_plausible(header, file, name);
  out.reshape(header.width, header.height);
  decoder.pixels(out);
}

}  // namespace normball::trainer::images
