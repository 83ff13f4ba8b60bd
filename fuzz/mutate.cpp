#include "fuzz/mutate.h"

#include <algorithm>
#include <vector>

namespace normball::fuzz {
namespace {

std::string piece_of(const std::string& text, Random& random) {
  if (text.empty()) return "";
  return text.substr(random.below(text.size()), random.below(16));
}

}  // namespace

std::string mutated(std::string file, const std::string& other, Random& random) {
  static const std::vector<std::string> disliked = {"[[[[[[[[", "{\"a\":[null,1e999,-1,true]}",
                                                    "\\u",      "\\ud800",
                                                    "\xff",     "\xed\xa0\x80",
                                                    "\"",       "99999999999999999999",
                                                    "\n",       std::string(300, '['),
                                                    "-0",       std::string(9, '\0')};
  for (auto edits = 1 + random.below(4); edits > 0; --edits) {
    const std::size_t at = random.below(file.size() + 1);
    const std::size_t count = random.below(16);
    const bool inside = at < file.size();
    switch (random.below(8)) {
      case 0:
        if (inside) file[at] = static_cast<char>(file[at] ^ (1 << random.below(8)));
        break;
      case 1:
        if (inside) file[at] = static_cast<char>(random.below(256));
        break;
      case 2: {
        constexpr char telling[] = {0, 1, 0x7f, -128, -1};
        for (std::size_t i = random.below(16), end = i + random.below(5);
             i < std::min(end, file.size()); ++i) {
          file[i] = telling[random.below(5)];
        }
        break;
      }
      case 3:
        file.erase(at, count);
        break;
      case 4:
        file.insert(at, file.substr(at, count));
        break;
      case 5:
        file.resize(at);
        break;
      case 6:
        file.insert(at, piece_of(other, random));
        break;
      default:
        file.insert(at, disliked[random.below(disliked.size())]);
    }
  }
  return file;
}

}  // namespace normball::fuzz
