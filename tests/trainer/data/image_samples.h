// Small pictures and folders of them, made here.
#pragma once

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "normball/random.h"
#include "trainer/images/encode.h"

namespace normball::testing {

// Smooth colours that differ with the seed, and some noise.
inline trainer::images::Image sample_picture(int width, int height, std::uint64_t seed) {
  Random random(seed);
  const double phase = 6 * random.uniform(), wave = 2 + 6 * random.uniform();
  trainer::images::Image image;
  image.reshape(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        const double value = 128 +
                             90 * std::sin(phase + c + wave * (x + 0.6 * y) / (width + height)) +
                             20 * (random.uniform() - 0.5);
        image.row(y)[4 * x + c] = static_cast<std::uint8_t>(value);
      }
      image.row(y)[4 * x + 3] = 255;
    }
  }
  return image;
}

inline void write_bytes(const std::filesystem::path& path, const std::vector<std::uint8_t>& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

// train/ and val/ with three classes: ant, bee, cow. Sizes vary; every third file is a PNG.
inline void make_image_folders(const std::filesystem::path& directory, int train_per_class = 7,
                               int validation_per_class = 3, std::uint64_t seed = 1) {
  for (const auto& [part, count] :
       {std::pair{"train", train_per_class}, {"val", validation_per_class}}) {
    for (const char* name : {"ant", "bee", "cow"}) {
      for (int i = 0; i < count; ++i, ++seed) {
        const auto image = sample_picture(40 + static_cast<int>(seed % 23),
                                          36 + static_cast<int>(seed % 17), seed);
        const std::string file = std::to_string(i);
        const auto base = directory / part / name;
        if (i % 3 == 2) {
          write_bytes(base / (file + ".png"), trainer::images::encode_png(image));
        } else {
          write_bytes(base / (file + ".JPEG"), trainer::images::encode_jpeg(image, 90));
        }
      }
    }
  }
}

}  // namespace normball::testing
