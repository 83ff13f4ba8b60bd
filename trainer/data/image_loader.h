// Batches of images as floats: shuffled without replacement, augmented as in airbench (flip and
// translate), normalized. Everything random follows from seed, epoch and the image's number.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trainer/data/cursor.h"
#include "trainer/data/image_set.h"

namespace normball::trainer::data {

struct Augmentation {
  // Mirrored left to right in every second epoch, starting with a random half of the images
  // (Jordan 2024: less repetition, faster training than with a new choice in every epoch).
  bool flip = false;
  int translate = 0;  // moved by up to so many pixels each way; what comes in is reflected
};

struct ImageBatch {
  std::int64_t count = 0, channels = 0, height = 0, width = 0;
  std::vector<float> pixels;         // count x channels x height x width
  std::vector<std::int64_t> labels;  // count
  std::vector<float> shares;         // count x classes, where images are mixed; otherwise empty
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
  Augmentation augmentation;
  ChannelStatistics normalization;  // usually channel_statistics of the training images
};

class ImageLoader {
 public:
  // The cursor is a new one with only its seed set, or one from a checkpoint.
  ImageLoader(ImageSet images, ImageLoaderOptions options, DataCursor cursor);

  // Fills the batch, whose buffers are reused, and moves on; epochs follow one another without end.
  void next(ImageBatch& batch) { next(batch, 0, options_.batch); }
  // Only images [first, end) of the next batch; moves on by all of it.
  void next(ImageBatch& batch, std::int64_t first, std::int64_t end);
  const DataCursor& cursor() const { return cursor_; }
  // Only whole batches: the rest of an epoch is not shown.
  std::int64_t batches_per_epoch() const { return images_.count / options_.batch; }

 private:
  void start_epoch() { order_ = shuffled_order(cursor_.seed, cursor_.epoch, images_.count); }

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
