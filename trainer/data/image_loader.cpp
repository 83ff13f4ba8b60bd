#include "trainer/data/image_loader.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "normball/error.h"
#include "normball/text.h"

namespace normball::trainer::data {
namespace {

constexpr const char* where = "ImageLoader";
constexpr std::array<std::pair<std::string_view, Flip>, 3> flips{
    {{"none", Flip::None}, {"random", Flip::Random}, {"alternating", Flip::Alternating}}};

struct Placement {
  bool flip = false;
  std::int64_t down = 0, right = 0;  // the pixel (y, x) shows the image's (y + down, x + right)
};

Placement place(const Augmentation& augmentation, const DataCursor& cursor, std::int64_t image) {
  Placement placement;
  Random random = random_for(cursor.seed, Purpose::Augment, cursor.epoch, image);
  if (augmentation.flip == Flip::Random) placement.flip = (random.next() >> 63) != 0;
  if (augmentation.flip == Flip::Alternating) {
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

Flip parse_flip(std::string_view text) {
  for (const auto& [name, flip] : flips) {
    if (name == text) return flip;
  }
  std::array<std::string_view, flips.size()> names{};
  std::ranges::transform(flips, names.begin(), [](const auto& pair) { return pair.first; });
  detail::invalid("parse_flip", unknown_name("flip", text, names));
}

std::string to_text(Flip flip) { return std::string(flips[static_cast<size_t>(flip)].first); }

PixelTable::PixelTable(const ImageSet& images, const ChannelStatistics& statistics) {
  const auto channels = static_cast<size_t>(images.channels);
  if (statistics.mean.size() != channels || statistics.std.size() != channels) {
    detail::invalid("PixelTable", "mean and std must have ", channels, " channels, got ",
                    statistics.mean.size(), " and ", statistics.std.size());
  }
  tables_.resize(channels);
  for (size_t c = 0; c < channels; ++c) {
    detail::require_positive("PixelTable", "std", statistics.std[c]);
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
  if (options_.batch < 1) detail::invalid(where, "batch must be at least 1, got ", options_.batch);
  if (images_.count == 0 || (options_.drop_last && options_.batch > images_.count)) {
    detail::invalid(where, "a batch of ", options_.batch, " is more than the ", images_.count,
                    " images there are");
  }
  const std::int64_t room = std::min(images_.height, images_.width) - 1;
  if (options_.augmentation.translate < 0 || options_.augmentation.translate > room) {
    detail::invalid(where, "translate must be 0 to ", room, ", got ",
                    options_.augmentation.translate);
  }
  attach(cursor_, images_.count);
  start_epoch();
}

void ImageLoader::start_epoch() {
  if (options_.shuffle) {
    order_ = shuffled_order(cursor_.seed, cursor_.epoch, images_.count);
  } else {
    order_.resize(static_cast<size_t>(images_.count));
    std::iota(order_.begin(), order_.end(), 0u);
  }
}

std::int64_t ImageLoader::batches_per_epoch() const {
  return options_.drop_last ? images_.count / options_.batch
                            : (images_.count + options_.batch - 1) / options_.batch;
}

void ImageLoader::next(ImageBatch& batch) {
  const std::int64_t left = images_.count - cursor_.position;
  if (left == 0 || (options_.drop_last && left < options_.batch)) {
    ++cursor_.epoch;
    cursor_.position = 0;
    start_epoch();
  }
  const std::int64_t count = std::min(options_.batch, images_.count - cursor_.position);
  resize(images_, count, batch);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t image = order_[static_cast<size_t>(cursor_.position + i)];
    draw(images_, table_, image, place(options_.augmentation, cursor_, image),
         batch.pixels.data() + i * images_.image_size());
    batch.labels[static_cast<size_t>(i)] = images_.label(image);
  }
  cursor_.position += count;
  batch.after = cursor_;
}

void image_range(const ImageSet& images, const PixelTable& table, std::int64_t first,
                 std::int64_t count, ImageBatch& batch) {
  if (first < 0 || count < 0 || count > images.count - first) {
    detail::invalid("image_range", "images ", first, " to ", first + count, " of ", images.count,
                    " asked for");
  }
  resize(images, count, batch);
  for (std::int64_t i = 0; i < count; ++i) {
    draw(images, table, first + i, {}, batch.pixels.data() + i * images.image_size());
    batch.labels[static_cast<size_t>(i)] = images.label(first + i);
  }
}

}  // namespace normball::trainer::data
