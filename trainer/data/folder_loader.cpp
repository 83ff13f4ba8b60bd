#include "trainer/data/folder_loader.h"

#include <algorithm>
#include <utility>

#include "normball/base/error.h"
#include "trainer/data/data_error.h"
#include "trainer/files/file_system.h"
#include "trainer/images/image_error.h"

namespace normball::trainer::data {
namespace {
constexpr const char* where = "FolderLoader";
}

void BadImages::add(const std::string& name, const std::string& message) {
  const std::lock_guard lock(mutex_);
  if (names_.empty() || name < *names_.begin()) message_ = message;
  names_.insert(name);
}
std::int64_t BadImages::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(names_.size());
}
std::string BadImages::first_message() const {
  const std::lock_guard lock(mutex_);
  return message_;
}

ImageWorkers::ImageWorkers(ImageFiles files, const FolderLoaderOptions& options)
    : files_(std::move(files)),
      options_(options),
      states_(static_cast<size_t>(std::max(1, options.threads)),
              Worker{images::Augmenter(options.augment), {}}),
      workers_(std::max(1, options.threads)) {}

void ImageWorkers::resize(std::int64_t count, ImageBatch& batch) const {
  const std::int64_t size = options_.augment.size;
  batch.count = count;
  batch.channels = 3;
  batch.height = batch.width = size;
  batch.pixels.resize(static_cast<size_t>(count * 3 * size * size));
  batch.labels.resize(static_cast<size_t>(count));
  batch.shares.clear();
}

bool ImageWorkers::draw(int worker, std::int64_t image, const Draw& draw, float* out) {
  const auto skip = [&](const std::exception& error) {
    if (!options_.skipped) throw;
    options_.skipped->add(files_.name(image), error.what());
    return false;
  };
  try {
    draw(states_[static_cast<size_t>(worker)], image, out);
    return true;
  } catch (const images::ImageError& error) {
    return skip(error);
  } catch (const files::FileError& error) {
    return skip(error);
  }
}

void ImageWorkers::draw_item(const DataCursor& cursor, const std::vector<std::uint32_t>& order,
                             std::int64_t item, int worker, std::int64_t row, ImageBatch& batch) {
  const std::int64_t place = cursor.position + item;
  const std::int64_t first = order[static_cast<size_t>(place / options_.repeats)];
  const Random random = random_for(cursor.seed, Purpose::Augment, cursor.epoch,
                                   first * options_.repeats + place % options_.repeats);
  const Draw as_training = [&](Worker& state, std::int64_t image, float* out) {
    state.augmenter.training(files_.bytes(image, state.buffer), files_.name(image), random, out);
  };
  float* pixels = batch.pixels.data() + row * batch.channels * batch.height * batch.width;
  for (std::int64_t k = 0; k < files_.count(); ++k) {
    const std::int64_t image = (first + k) % files_.count();
    if (!draw(worker, image, as_training, pixels)) continue;
    batch.labels[static_cast<size_t>(row)] = files_.label(image);
    return;
  }
  fail(where, "none of the ", files_.count(),
       " training images can be decoded; the first says: ", options_.skipped->first_message());
}

void ImageWorkers::training(const DataCursor& cursor, const std::vector<std::uint32_t>& order,
                            std::int64_t first, std::int64_t end, ImageBatch& batch) {
  std::vector<std::int64_t> items;
  for (std::int64_t i = first; i < end; ++i) items.push_back(i);
  if (options_.mix.any()) {  // those that they are mixed with, too
    for (std::int64_t i = first; i < end; ++i) {
      const std::int64_t partner = options_.batch - 1 - i;
      if (partner < first || partner >= end) items.push_back(partner);
    }
  }
  resize(static_cast<std::int64_t>(items.size()), batch);
  workers_.run(batch.count, [&](int worker, std::int64_t row) {
    draw_item(cursor, order, items[static_cast<size_t>(row)], worker, row, batch);
  });
  if (options_.mix.any()) mix(cursor, items, end - first, batch);
}

void ImageWorkers::mix(const DataCursor& cursor, const std::vector<std::int64_t>& items,
                       std::int64_t wanted, ImageBatch& batch) {
  Random random = random_for(cursor.seed, Purpose::Mix, cursor.epoch, cursor.position);
  const int size = options_.augment.size;
  const Mix mix = random_mix(options_.mix, size, size, random);
  const std::int64_t values = batch.channels * batch.height * batch.width;
  std::vector<std::int64_t> row_of(static_cast<size_t>(options_.batch));
  for (size_t row = 0; row < items.size(); ++row) {
    row_of[static_cast<size_t>(items[row])] = static_cast<std::int64_t>(row);
  }
  const auto partner = [&](std::int64_t row) {
    return row_of[static_cast<size_t>(options_.batch - 1 - items[static_cast<size_t>(row)])];
  };
  workers_.run(batch.count, [&](int, std::int64_t row) {
    const std::int64_t other = partner(row);
    if (row >= other) return;  // a pair is mixed once; one in the middle is its own partner
    mix_images(mix, size, size, batch.pixels.data() + row * values,
               batch.pixels.data() + other * values);
  });
  std::vector<float> shares(static_cast<size_t>(wanted * options_.classes));
  for (std::int64_t row = 0; row < wanted; ++row) {
    float* of_row = shares.data() + row * options_.classes;
    of_row[batch.labels[static_cast<size_t>(row)]] += static_cast<float>(mix.weight);
    of_row[batch.labels[static_cast<size_t>(partner(row))]] += static_cast<float>(1 - mix.weight);
  }
  resize(wanted, batch);
  batch.shares = std::move(shares);
}

void ImageWorkers::evaluation(const std::vector<std::int64_t>& numbers, ImageBatch& batch) {
  resize(static_cast<std::int64_t>(numbers.size()), batch);
  const std::int64_t values = batch.channels * batch.height * batch.width;
  std::vector<std::uint8_t> drawn(numbers.size());
  const Draw as_evaluation = [&](Worker& state, std::int64_t image, float* out) {
    state.augmenter.evaluation(files_.bytes(image, state.buffer), files_.name(image), out);
  };
  workers_.run(batch.count, [&](int worker, std::int64_t i) {
    const std::int64_t image = numbers[static_cast<size_t>(i)];
    drawn[static_cast<size_t>(i)] =
        draw(worker, image, as_evaluation, batch.pixels.data() + i * values);
    batch.labels[static_cast<size_t>(i)] = files_.label(image);
  });
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < batch.count; ++i) {
    if (drawn[static_cast<size_t>(i)] == 0) continue;
    if (kept < i) {
      std::copy_n(batch.pixels.data() + i * values, values, batch.pixels.data() + kept * values);
      batch.labels[static_cast<size_t>(kept)] = batch.labels[static_cast<size_t>(i)];
    }
    ++kept;
  }
  resize(kept, batch);
}

FolderLoader::FolderLoader(ImageFiles files, FolderLoaderOptions options, DataCursor cursor)
    : items_(files.count()), options_(std::move(options)), cursor_(cursor) {
  if (options_.batch < 1) throw_invalid(where, "batch must be at least 1, got ", options_.batch);
  if (options_.batch > items_) {
    throw_invalid(where, "a batch of ", options_.batch, " is more than the ", items_,
                  " images there are");
  }
  if (options_.repeats < 1) {
    throw_invalid(where, "repeats must be at least 1, got ", options_.repeats);
  }
  attach(cursor_, items_);
  order_ = shuffled_order(cursor_.seed, cursor_.epoch, items_);
  workers_ = std::make_unique<ImageWorkers>(std::move(files), options_);
}

void FolderLoader::next(ImageBatch& batch, std::int64_t first, std::int64_t end) {
  if (items_ - cursor_.position < options_.batch) {
    ++cursor_.epoch;
    cursor_.position = 0;
    order_ = shuffled_order(cursor_.seed, cursor_.epoch, items_);
  }
  workers_->training(cursor_, order_, first, end, batch);
  cursor_.position += options_.batch;
  batch.after = cursor_;
}

}  // namespace normball::trainer::data
