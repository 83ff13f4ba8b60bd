#include "trainer/images/decode.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "trainer/images/decoders.h"
#include "trainer/images/image_error.h"

namespace normball::trainer::images {
namespace {

bool starts_with(FileBytes file, std::string_view bytes, size_t at = 0) {
  return file.size() >= at + bytes.size() &&
         std::equal(bytes.begin(), bytes.end(), file.begin() + static_cast<std::ptrdiff_t>(at),
                    [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; });
}

Format format_of(FileBytes file, const std::string& name) {
  if (starts_with(file, "\xff\xd8\xff")) return Format::Jpeg;
  if (starts_with(file, "\x89PNG\r\n\x1a\n")) return Format::Png;
  if (starts_with(file, "RIFF") && starts_with(file, "WEBP", 8)) return Format::WebP;
  if (file.empty()) fail(decode_where, name, ": is empty; get the file again, or remove it");
  fail(decode_where, name, ": is neither a JPEG nor a PNG nor a WebP; convert it, or remove it");
}

}  // namespace

const char* name_of(Format format) {
  switch (format) {
    case Format::Jpeg:
      return "JPEG";
    case Format::Png:
      return "PNG";
    case Format::WebP:
      return "WebP";
  }
  return "";
}

void require_plausible(const Header& header, FileBytes file, const std::string& name) {
  const std::int64_t pixels = std::int64_t{header.width} * header.height;
  if (header.width < 1 || header.height < 1) {
    fail(decode_where, name, ": its header says ", header.width, "x", header.height,
         " pixels; get the file again, or remove it");
  }
  if (pixels > max_pixels) {
    fail(decode_where, name, ": has ", header.width, "x", header.height, " pixels, more than the ",
         max_pixels, " that are decoded; make it smaller, or remove it");
  }
  // One bit for a block of 8x8 is the least that JPEG takes; the others can be denser only where
  // there is nothing to see.
  constexpr std::int64_t per_byte = 2000, always = std::int64_t{1} << 20;
  if (pixels > always + per_byte * static_cast<std::int64_t>(file.size())) {
    fail(decode_where, name, ": its header says ", header.width, "x", header.height,
         " pixels, which do not fit into ", file.size(),
         " bytes; the file is damaged, get it again or remove it");
  }
}

Header read_header(FileBytes file, const std::string& name) {
  Header header;
  switch (format_of(file, name)) {
    case Format::Jpeg:
      header = jpeg_header(file, name);
      break;
    case Format::Png:
      header = png_header(file, name);
      break;
    case Format::WebP:
      header = webp_header(file, name);
      break;
  }
  require_plausible(header, file, name);
  return header;
}

void decode(FileBytes file, const std::string& name, Image& out) {
  switch (format_of(file, name)) {
    case Format::Jpeg:
      return decode_jpeg(file, name, 1, nullptr, out, nullptr);
    case Format::Png:
      return decode_png(file, name, out);
    case Format::WebP:
      return decode_webp(file, name, out);
  }
}

DecodedPart decode_part(FileBytes file, const std::string& name, const Region& region, int size,
                        Image& out) {
  if (format_of(file, name) != Format::Jpeg) {
    decode(file, name, out);
    return {box_of(region), region};
  }
  int shrink = 1;
  while (shrink < 8 && std::min(region.width, region.height) >= 2 * shrink * size) shrink *= 2;
  const auto down = [&](int value) { return value / shrink; };
  const auto up = [&](int value) { return (value + shrink - 1) / shrink; };
  Region part{down(region.left), down(region.top), 0, 0};
  part.width = up(region.left + region.width) - part.left;
  part.height = up(region.top + region.height) - part.top;
  Region decoded;
  decode_jpeg(file, name, shrink, &part, out, &decoded);
  const double scale = 1.0 / shrink;
  const Box full = box_of(region);
  return {{full.left * scale - decoded.left, full.top * scale - decoded.top,
           full.right * scale - decoded.left, full.bottom * scale - decoded.top},
          {part.left - decoded.left, part.top - decoded.top, part.width, part.height}};
}

}  // namespace normball::trainer::images
