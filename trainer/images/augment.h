// From an image file to the numbers a model sees: for training a random part of it, mirrored,
// changed by RandAugment and partly erased, as in timm; for evaluation its middle.
#pragma once

#include <string>

#include "normball/random.h"
#include "trainer/images/decode.h"
#include "trainer/images/operations.h"
#include "trainer/images/resize.h"

namespace normball::trainer::images {

struct AugmentOptions {
  int size = 224;                                   // pixels in height and width
  double area_min = 0.08, area_max = 1;             // share of the picture that a part has
  double ratio_min = 3.0 / 4, ratio_max = 4.0 / 3;  // of its width to its height
  double flip = 0.5;                                // probability
  int operations = 0;                               // of RandAugment, drawn with replacement
  double magnitude = 9, deviation = 0.5;            // their level is normal, cut to [0, 10]
  double probability = 0.5;                         // of each of them
  double erase = 0;                                 // probability
  double middle = 0.875;                            // share of the short side in an evaluation
};

// ImageNet's mean and standard deviation, of values scaled to [0, 1]; what moves in from outside
// has the mean colour.
inline constexpr float image_mean[3] = {0.485f, 0.456f, 0.406f};
inline constexpr float image_std[3] = {0.229f, 0.224f, 0.225f};
inline constexpr Colour mean_colour{124, 116, 104};

// The random choices, each from the numbers that follow in `random`.
Region random_part(const AugmentOptions& options, int width, int height, Random& random);
struct Step {
  Operation operation;
  double amount;
};
// The next operation of RandAugment; false where the coin says none.
bool random_operation(const AugmentOptions& options, Random& random, Step& step);
// A rectangle that is filled with noise; false where nothing is erased.
bool random_rectangle(const AugmentOptions& options, Random& random, Region& rectangle);

// Where the middle of a picture is, as resizing its short side to size / middle and cutting out
// size x size would have it.
Box middle_of(const AugmentOptions& options, int width, int height);

// Keeps its buffers; one for each thread.
class Augmenter {
 public:
  explicit Augmenter(const AugmentOptions& options) : options_(options) {}

  // 3 x size x size floats, normalized.
  void training(FileBytes file, const std::string& name, Random random, float* out);
  void evaluation(FileBytes file, const std::string& name, float* out);

 private:
  void normalize(float* out) const;

  AugmentOptions options_;
  Image decoded_, picture_;
  Resizer resizer_;
  Operator operator_;
};

}  // namespace normball::trainer::images
