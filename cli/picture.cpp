#include "cli/picture.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace normball::cli {
namespace {

using Color = std::array<int, 3>;

Color pixel(const trainer::data::ImageSet& images, std::int64_t i, std::int64_t y, std::int64_t x) {
  if (y >= images.height) return {};
  Color color{};
  for (std::int64_t c = 0; c < 3; ++c) {
    const std::int64_t channel = std::min(c, images.channels - 1);
    color[static_cast<size_t>(c)] =
        images.image(i)[static_cast<size_t>((channel * images.height + y) * images.width + x)];
  }
  return color;
}

std::string half_block(const Color& top, const Color& bottom) {
  const auto code = [](const char* ground, const Color& color) {
    return std::string("\x1b[") + ground + ";2;" + std::to_string(color[0]) + ";" +
           std::to_string(color[1]) + ";" + std::to_string(color[2]) + "m";
  };
  return code("38", top) + code("48", bottom) + "▀";
}

char shade(const Color& top, const Color& bottom) {
  constexpr std::string_view shades = " .:-=+*#%@";
  int sum = 0;
  for (const auto& color : {top, bottom}) sum += color[0] + color[1] + color[2];
  return shades[static_cast<size_t>(sum) * shades.size() / (6 * 256)];
}

}  // namespace

std::string draw_images(const trainer::data::ImageSet& images,
                        const std::vector<std::int64_t>& which, bool color) {
  std::string text;
  for (std::int64_t y = 0; y < images.height; y += 2) {
    std::string line;
    for (const auto i : which) {
      line += "  ";
      for (std::int64_t x = 0; x < images.width; ++x) {
        const Color top = pixel(images, i, y, x), bottom = pixel(images, i, y + 1, x);
        if (color) {
          line += half_block(top, bottom);
        } else {
          line += shade(top, bottom);
        }
      }
      if (color) line += "\x1b[0m";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace normball::cli
