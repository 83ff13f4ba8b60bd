// Where libFuzzer and the driver of the tests hand a file to a target's reader.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "fuzz/reader.h"

namespace normball::fuzz {

bool reads(std::string_view file) {
  const auto refused = [](const std::exception& error) {
    require(error.what()[0] == '[', error.what());  // as all our messages begin
    return false;
  };
  try {
    reader.read(file);
    return true;
  } catch (const std::runtime_error& error) {
    return refused(error);
  } catch (const std::invalid_argument& error) {
    return refused(error);
  }
}

void require(bool condition, const char* text) {
  if (condition) return;
  std::fprintf(stderr, "%s: does not hold: %s\n", reader.name, text);
  std::abort();
}

}  // namespace normball::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  normball::fuzz::reads({reinterpret_cast<const char*>(data), size});
  return 0;
}
