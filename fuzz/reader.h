// One reader of files, as every fuzz target of this folder describes it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace normball::fuzz {

struct Reader {
  const char* name;
  // Small valid files, from which damaged ones are made.
  std::vector<std::string> (*samples)();
  // Reads these bytes. std::runtime_error or std::invalid_argument for a bad file; any other
  // exception, and a require() that does not hold, is a bug.
  void (*read)(std::string_view file);
  // The share of damaged files that the format must notice.
  double refused;
};

extern const Reader reader;  // each target defines one

// Whether the file was read; false where it was refused with a clear error.
bool reads(std::string_view file);

// Ends the process with the text unless the condition holds.
void require(bool condition, const char* text);

}  // namespace normball::fuzz
