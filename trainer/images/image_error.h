// What is wrong with an image file: it cannot be decoded, or must not be. The text names the file.
#pragma once

#include <stdexcept>
#include <string_view>

#include "normball/base/error.h"

namespace normball::trainer::images {

class ImageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Parts>
[[noreturn]] void fail(std::string_view where, const Parts&... parts) {
  throw ImageError(normball::error_message(where, parts...));
}

}  // namespace normball::trainer::images
