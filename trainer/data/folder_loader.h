// Batches of compressed images: decoded and augmented by several threads, whose number changes
// nothing. Everything random follows from seed, epoch and the image's number.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "trainer/data/cursor.h"
#include "trainer/data/image_files.h"
#include "trainer/data/image_loader.h"
#include "trainer/data/mix.h"
#include "trainer/data/workers.h"
#include "trainer/images/augment.h"

namespace normball::trainer::data {

// Images that could not be decoded and were passed over.
class BadImages {
 public:
  void add(const std::string& name, const std::string& message);
  std::int64_t count() const;
  std::string first_message() const;  // of the one whose name comes first; empty where none is bad

 private:
  mutable std::mutex mutex_;
  std::set<std::string> names_;
  std::string message_;
};

struct FolderLoaderOptions {
  std::int64_t batch = 256;
  images::AugmentOptions augment = {};
  MixOptions mix = {};
  std::int64_t classes = 0;
  std::int64_t repeats = 1;  // of an image, one after the other, each augmented anew
  int threads = 1;
  // Where an image cannot be decoded: the next one that can is taken; without, it is an error.
  std::shared_ptr<BadImages> skipped = nullptr;
};

// Threads with an augmenter each.
class ImageWorkers {
 public:
  ImageWorkers(ImageFiles files, const FolderLoaderOptions& options);

  // Rows [first, end) of the batch at the cursor as training shows them.
  void training(const DataCursor& cursor, const std::vector<std::uint32_t>& order,
                std::int64_t first, std::int64_t end, ImageBatch& batch);
  // Images of these numbers as they are evaluated; those that are passed over leave no row.
  void evaluation(const std::vector<std::int64_t>& numbers, ImageBatch& batch);

 private:
  struct Worker {
    images::Augmenter augmenter;
    std::string buffer;
  };
  using Draw = std::function<void(Worker& worker, std::int64_t image, float* out)>;
  void resize(std::int64_t count, ImageBatch& batch) const;
  // Whether it could be drawn.
  bool draw(int worker, std::int64_t image, const Draw& draw, float* out);
  void draw_item(const DataCursor& cursor, const std::vector<std::uint32_t>& order,
                 std::int64_t item, int worker, std::int64_t row, ImageBatch& batch);
  void mix(const DataCursor& cursor, const std::vector<std::int64_t>& items, std::int64_t wanted,
           ImageBatch& batch);

  ImageFiles files_;
  FolderLoaderOptions options_;
  std::vector<Worker> states_;
  Workers workers_;
};

class FolderLoader {
 public:
  // The cursor is a new one with only its seed set, or one from a checkpoint.
  FolderLoader(ImageFiles files, FolderLoaderOptions options, DataCursor cursor);

  // As ImageLoader's.
  void next(ImageBatch& batch) { next(batch, 0, options_.batch); }
  // The same, of which only rows [first, end) are made: with Mixup as they are in the whole batch.
  void next(ImageBatch& batch, std::int64_t first, std::int64_t end);
  const DataCursor& cursor() const { return cursor_; }
  std::int64_t batches_per_epoch() const { return items_ / options_.batch; }

 private:
  std::int64_t items_;  // of an epoch: as many as there are images, repeated or not
  FolderLoaderOptions options_;
  DataCursor cursor_;
  std::vector<std::uint32_t> order_;
  std::unique_ptr<ImageWorkers> workers_;
};

}  // namespace normball::trainer::data
