// Batches of images as floats: shuffled without replacement, augmented as in airbench (flip and
// translate), normalized. Everything random follows from seed, epoch and the image's number.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/data/cursor.h"
#include "trainer/data/image_set.h"

namespace normball::trainer::data {

// Mirrored left to right: with probability 1/2 in every epoch, or in every second epoch, starting
// with a random half of the images (Jordan 2024: less repetition, faster training).
enum class Flip : std::uint8_t { None, Random, Alternating };
Flip parse_flip(std::string_view text);  // none, random, alternating
std::string to_text(Flip flip);

struct Augmentation {
  Flip flip = Flip::None;
  int translate = 0;  // moved by up to so many pixels each way; what comes in is reflected
};

struct ImageBatch {
  std::int64_t count = 0, channels = 0, height = 0, width = 0;
  std::vector<float> pixels;         // count x channels x height x width
  std::vector<std::int64_t> labels;  // count
  DataCursor after;                  // where the data stands after this batch
};

// Pixels to floats: (value / 255 - mean) / std for each channel.
class PixelTable {
 public:
  PixelTable(const ImageSet& images, const ChannelStatistics& statistics);
  const std::array<float, 256>& channel(std::int64_t c) const {
    return tables_[static_cast<size_t>(c)];
  }

 private:
  std::vector<std::array<float, 256>> tables_;
};

struct ImageLoaderOptions {
  std::int64_t batch = 500;
  bool shuffle = true;
  bool drop_last = true;  // only whole batches; the rest of an epoch is not shown
  Augmentation augmentation;
  ChannelStatistics normalization;  // usually channel_statistics of the training images
};

class ImageLoader {
 public:
  // The cursor is a new one with only its seed set, or one from a checkpoint.
  ImageLoader(ImageSet images, ImageLoaderOptions options, DataCursor cursor);

  // Fills the batch, whose buffers are reused, and moves on; epochs follow one another without end.
  void next(ImageBatch& batch);
  const DataCursor& cursor() const { return cursor_; }
  std::int64_t batches_per_epoch() const;

 private:
  void start_epoch();

  ImageSet images_;
  ImageLoaderOptions options_;
  PixelTable table_;
  DataCursor cursor_;
  std::vector<std::uint32_t> order_;  // of the epoch
};

// Images first, first + 1, ... as they are, normalized: for evaluation, independent of any seed.
void image_range(const ImageSet& images, const PixelTable& table, std::int64_t first,
                 std::int64_t count, ImageBatch& batch);

}  // namespace normball::trainer::data
