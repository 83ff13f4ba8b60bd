// JPEG, PNG and WebP files to pictures, as Pillow's convert("RGB") gives them: grey becomes three
// equal channels, palettes and CMYK become colours, 16 bits become 8 (rounded), transparency is
// left out. What a file is follows from its first bytes, whatever its name says.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "trainer/images/image.h"

namespace normball::trainer::images {

using FileBytes = std::span<const std::uint8_t>;

enum class Format : std::uint8_t { Jpeg, Png, WebP };
const char* name_of(Format format);

struct Header {
  Format format = Format::Jpeg;
  int width = 0, height = 0;
};

// A header is believed up to this: more pixels, or more than a file of its size can hold, are
// refused before memory is taken for them.
inline constexpr std::int64_t max_pixels = std::int64_t{1} << 26;

// All throw ImageError, with the name in its text, where a file is damaged, truncated, of another
// format or too large.
Header read_header(FileBytes file, const std::string& name);
void decode(FileBytes file, const std::string& name, Image& out);

// Where the asked region is in the decoded picture: `inside` are the pixels that belong to it.
struct DecodedPart {
  Box box;
  Region inside;
};

// Decodes what a region needs that is to be shrunk to `size` x `size`: a JPEG only there, and at
// 1/2, 1/4 or 1/8 of its size where the region still has `size` pixels each way. Rows below the
// region are not looked at, so damage there goes unnoticed.
DecodedPart decode_part(FileBytes file, const std::string& name, const Region& region, int size,
                        Image& out);

}  // namespace normball::trainer::images
