// Errors of libjpeg-turbo, which leave it by longjmp: nothing between a setjmp and the library may
// have a destructor.
#pragma once

#include <csetjmp>
#include <cstdio>
// clang-format off
#include <jpeglib.h>  // needs <cstdio>
// clang-format on

namespace normball::trainer::images {

struct JpegErrors {
  jpeg_error_mgr base;  // first: the library knows no more
  std::jmp_buf jump;
  char text[JMSG_LENGTH_MAX];
};

[[noreturn]] inline void leave_jpeg(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->text);
  std::longjmp(errors->jump, 1);
}

}  // namespace normball::trainer::images
