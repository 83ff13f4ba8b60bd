#include "trainer/data/image_loader.h"

#include <algorithm>
#include <utility>

#include "normball/base/error.h"

namespace normball::trainer::data {
namespace {

constexpr const char* where = "ImageLoader";

struct Placement {
  bool flip = false;
  std::int64_t down = 0, right = 0;  // the pixel (y, x) shows the image's (y + down, x + right)
};

Placement place(const Augmentation& augmentation, const DataCursor& cursor, std::int64_t image) {
  Placement placement;
  Random random = random_for(cursor.seed, Purpose::Augment, cursor.epoch, image);
  if (augmentation.flip) {
    const bool first = (random_for(cursor.seed, Purpose::Flip, image).next() >> 63) != 0;
    placement.flip = first != (cursor.epoch % 2 == 1);
  }
  if (augmentation.translate > 0) {
    const auto choices = static_cast<std::uint64_t>(2 * augmentation.translate + 1);
    placement.down = static_cast<std::int64_t>(random.below(choices)) - augmentation.translate;
    placement.right = static_cast<std::int64_t>(random.below(choices)) - augmentation.translate;
  }
  return placement;
}

// Mirrored at the centre of the edge pixel: -1 is 1, and size is size - 2.
std::int64_t reflect(std::int64_t i, std::int64_t size) {
  if (i < 0) return -i;
  return i < size ? i : 2 * (size - 1) - i;
}

void draw(const ImageSet& images, const PixelTable& table, std::int64_t i,
          const Placement& placement, float* out) {
  const auto pixels = images.image(i);
  const std::int64_t width = images.width, height = images.height;
  for (std::int64_t c = 0; c < images.channels; ++c) {
    const auto& values = table.channel(c);
    for (std::int64_t y = 0; y < height; ++y) {
      const std::int64_t row = reflect(y + placement.down, height);
      const std::uint8_t* from = pixels.data() + (c * height + row) * width;
      for (std::int64_t x = 0; x < width; ++x) {
        const std::int64_t column = reflect(x + placement.right, width);
        *out++ = values[from[placement.flip ? width - 1 - column : column]];
      }
    }
  }
}

void resize(const ImageSet& images, std::int64_t count, ImageBatch& batch) {
  batch.count = count;
  batch.channels = images.channels;
  batch.height = images.height;
  batch.width = images.width;
  batch.pixels.resize(static_cast<size_t>(count * images.image_size()));
  batch.labels.resize(static_cast<size_t>(count));
}

}  // namespace

PixelTable::PixelTable(const ImageSet& images, const ChannelStatistics& statistics) {
  const auto channels = static_cast<size_t>(images.channels);
  if (statistics.mean.size() != channels || statistics.std.size() != channels) {
    throw_invalid("PixelTable", "mean and std must have ", channels, " channels, got ",
                  statistics.mean.size(), " and ", statistics.std.size());
  }
  tables_.resize(channels);
  for (size_t c = 0; c < channels; ++c) {
    require_positive("PixelTable", "std", statistics.std[c]);
    for (size_t v = 0; v < 256; ++v) {
      tables_[c][v] = (static_cast<float>(v) / 255 - statistics.mean[c]) / statistics.std[c];
    }
  }
}

ImageLoader::ImageLoader(ImageSet images, ImageLoaderOptions options, DataCursor cursor)
    : images_(std::move(images)),
      options_(std::move(options)),
      table_(images_, options_.normalization),
      cursor_(cursor) {
  if (options_.batch < 1) throw_invalid(where, "batch must be at least 1, got ", options_.batch);
  if (options_.batch > images_.count) {
    throw_invalid(where, "a batch of ", options_.batch, " is more than the ", images_.count,
                  " images there are");
  }
  const std::int64_t room = std::min(images_.height, images_.width) - 1;
  if (options_.augmentation.translate < 0 || options_.augmentation.translate > room) {
    throw_invalid(where, "translate must be 0 to ", room, ", got ",
                  options_.augmentation.translate);
  }
  attach(cursor_, images_.count);
  start_epoch();
}

void ImageLoader::next(ImageBatch& batch, std::int64_t first, std::int64_t end) {
  if (images_.count - cursor_.position < options_.batch) {
    ++cursor_.epoch;
    cursor_.position = 0;
    start_epoch();
  }
  resize(images_, end - first, batch);
  for (std::int64_t i = 0; i < batch.count; ++i) {
    const std::int64_t image = order_[static_cast<size_t>(cursor_.position + first + i)];
    draw(images_, table_, image, place(options_.augmentation, cursor_, image),
         batch.pixels.data() + i * images_.image_size());
    batch.labels[static_cast<size_t>(i)] = images_.label(image);
  }
  cursor_.position += options_.batch;
  batch.after = cursor_;
}

void image_range(const ImageSet& images, const PixelTable& table, std::int64_t first,
                 std::int64_t count, ImageBatch& batch) {
  if (first < 0 || count < 0 || count > images.count - first) {
    throw_invalid("image_range", "images ", first, " to ", first + count, " of ", images.count,
                  " asked for");
  }
  resize(images, count, batch);
  for (std::int64_t i = 0; i < count; ++i) {
    draw(images, table, first + i, {}, batch.pixels.data() + i * images.image_size());
    batch.labels[static_cast<size_t>(i)] = images.label(first + i);
  }
}

}  // namespace normball::trainer::data
