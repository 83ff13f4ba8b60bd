// The libraries behind decode.h.
#pragma once

#include "trainer/images/decode.h"

namespace normball::trainer::images {

inline constexpr const char* decode_where = "decode_image";

// Throws where a header promises what must not be believed.
void require_plausible(const Header& header, FileBytes file, const std::string& name);

Header jpeg_header(FileBytes file, const std::string& name);
Header png_header(FileBytes file, const std::string& name);
Header webp_header(FileBytes file, const std::string& name);

// Of the whole picture, at 1 / shrink of its size: only these rows and columns of it.
void decode_jpeg(FileBytes file, const std::string& name, int shrink, const Region* part,
                 Image& out, Region* decoded);
void decode_png(FileBytes file, const std::string& name, Image& out);
void decode_webp(FileBytes file, const std::string& name, Image& out);

}  // namespace normball::trainer::images
