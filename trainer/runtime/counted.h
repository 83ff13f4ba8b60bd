// Numbers of things in messages.
#pragma once

#include <cstdint>
#include <string>

namespace normball::trainer::runtime {

// "1 run", "2 runs"
inline std::string counted(std::int64_t number, const std::string& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

}  // namespace normball::trainer::runtime
