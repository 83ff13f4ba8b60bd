// What goes wrong with data names the file and the remedy:
//   [read_idx] /data/x.gz: ends after 12 bytes of its header; get the file again
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "normball/error.h"

namespace normball::trainer::data {

class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Parts>
[[noreturn]] void fail(std::string_view where, const Parts&... parts) {
  throw DataError(normball::detail::message(where, parts...));
}

// "No such file or directory", for the last failed system call.
std::string system_error_text();

}  // namespace normball::trainer::data
