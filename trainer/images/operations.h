// The fifteen operations of RandAugment, each as Pillow does it: those on colours bit for bit,
// those on places within one step of 255 (bicubic; Pillow rounds in double).
#pragma once

#include <cstdint>
#include <string_view>

#include "trainer/images/image.h"

namespace normball::trainer::images {

enum class Operation : std::uint8_t {
  AutoContrast,
  Equalize,
  Invert,
  Rotate,       // degrees, counter-clockwise
  Posterize,    // bits that are kept
  Solarize,     // values from here on are inverted
  SolarizeAdd,  // added to values below 128
  Color,        // 0: grey, 1: as it is
  Contrast,
  Brightness,
  Sharpness,
  ShearX,  // the column at y moves by this times y
  ShearY,
  TranslateX,  // pixels
  TranslateY,
};
inline constexpr int operation_count = 15;

std::string_view name_of(Operation operation);

// What timm's increasing operations take at a level from 0 to 10, where those with a direction
// have been told which one; of a picture with `size` pixels in height and width.
double amount_at(Operation operation, double level, bool negative, int size);
bool has_direction(Operation operation);

struct Colour {
  std::uint8_t red = 0, green = 0, blue = 0;
};

// Keeps its buffers; one for each thread. What comes in from outside has the colour `fill`.
class Operator {
 public:
  void apply(Operation operation, double amount, Colour fill, Image& image);

 private:
  void sharpen(float amount, Image& image);
  void move(Operation operation, double amount, Colour fill, Image& image);

  Image other_;
};

void mirror(Image& image);  // left to right

}  // namespace normball::trainer::images
