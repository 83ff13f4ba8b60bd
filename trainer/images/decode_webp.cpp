#include <webp/decode.h>

#include "trainer/images/decoders.h"
#include "trainer/images/image_error.h"

namespace normball::trainer::images {

Header webp_header(FileBytes file, const std::string& name) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(file.data(), file.size(), &features) != VP8_STATUS_OK) {
    fail(decode_where, name, ": is not a whole WebP; get the file again, or remove it");
  }
  if (features.has_animation != 0) {
    fail(decode_where, name, ": is an animation; make a still picture of it, or remove it");
  }
  return {Format::WebP, features.width, features.height};
}

void decode_webp(FileBytes file, const std::string& name, Image& out) {
  const Header header = webp_header(file, name);
  require_plausible(header, file, name);
  out.reshape(header.width, header.height);
  if (WebPDecodeRGBAInto(file.data(), file.size(), out.pixels.data(), out.pixels.size(),
                         static_cast<int>(out.stride())) == nullptr) {
    fail(decode_where, name, ": is not a whole WebP; get the file again, or remove it");
  }
}

}  // namespace normball::trainer::images
