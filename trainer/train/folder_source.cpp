#include "trainer/train/folder_source.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "normball/base/error.h"
#include "trainer/data/folder_loader.h"
#include "trainer/data/prefetcher.h"
#include "trainer/train/folder_options.h"

namespace normball::trainer::train {
namespace {

models::Batch tensors_of(data::ImageBatch& batch, std::int64_t classes) {
  const auto images =
      torch::from_blob(batch.pixels.data(),
                       {batch.count, batch.channels, batch.height, batch.width}, torch::kFloat32);
  if (batch.shares.empty()) {
    return {images, torch::from_blob(batch.labels.data(), {batch.count}, torch::kInt64)};
  }
  return {images, torch::from_blob(batch.shares.data(), {batch.count, classes}, torch::kFloat32)};
}

class FolderSource final : public DataSource {
 public:
  FolderSource(data::ImageFolders folders, const config::Config& config)
      : folders_(std::move(folders)),
        options_(folder_options(config, folders_.classes())),
        evaluation_size_(evaluated_at_once(config)),
        evaluated_(evaluated_of(folders_.validation.count(), config)),
        evaluators_(folders_.validation, options_),
        parts_(config.train.accumulation()) {
    require_enough_images(config, folders_.train.count(), folders_.path);
    facts_ = {.unit = "images",
              .channels = 3,
              .size = config.data.size,
              .classes = folders_.classes(),
              .items = folders_.train.count() / options_.batch * options_.batch,
              .has_validation = evaluated_ > 0};
    if (evaluated_ == 0) {
      facts_.warnings.push_back(folders_.path +
                                " has no validation images (in val, validation or test), so "
                                "nothing will be evaluated");
    }
    warn_of_one_class(facts_, folders_.path);
    seek({.seed = static_cast<std::uint64_t>(config.run.seed)});
  }

  models::Batch next() override {
    const auto start = std::chrono::steady_clock::now();
    batches_->next(batch_);
    waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return tensors_of(batch_, facts_.classes);
  }
  void divide(std::vector<data::Piece> pieces) override {
    pieces_ = std::move(pieces);
    seek(cursor());
  }
  data::DataCursor cursor() const override { return batch_.after; }
  void seek(const data::DataCursor& cursor) override {
    data::FolderLoader loader(folders_.train, options_, cursor);
    batch_.after = loader.cursor();
    batches_.emplace(Loader(std::move(loader), parts_, pieces_));
  }

  std::int64_t evaluation_batches() const override {
    return (evaluated_ + evaluation_size_ - 1) / evaluation_size_;
  }
  std::int64_t evaluation_items() const override { return evaluated_; }
  // Spread evenly: the files come class by class.
  models::Batch evaluation_batch(std::int64_t index) override {
    const std::int64_t first = index * evaluation_size_;
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = first; i < std::min(first + evaluation_size_, evaluated_); ++i) {
      numbers.push_back(i * folders_.validation.count() / evaluated_);
    }
    evaluators_.evaluation(numbers, evaluation_);
    return tensors_of(evaluation_, facts_.classes);
  }

  std::string training_digest() const override { return folders_.train.digest(); }
  std::string validation_digest() const override { return folders_.validation.digest(); }

  torch::Tensor preparation_inputs() override {
    constexpr std::int64_t most = 5000, values = std::int64_t{1} << 26;
    const std::int64_t count = folders_.train.count();
    const std::int64_t wanted = std::clamp<std::int64_t>(values / (3 * facts_.size * facts_.size),
                                                         1, std::min(most, count));
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = 0; i < wanted; ++i) numbers.push_back(i * count / wanted);
    data::ImageWorkers(folders_.train, options_).evaluation(numbers, evaluation_);
    return tensors_of(evaluation_, facts_.classes).inputs;
  }

  std::vector<std::string> remarks() const override {
    if (!options_.skipped || options_.skipped->count() == 0) return {};
    return {"warning: images that could not be decoded and were passed over: " +
            std::to_string(options_.skipped->count()) +
            "; the first: " + options_.skipped->first_message()};
  }

 private:
  using Loader = data::PieceLoader<data::FolderLoader>;

  data::ImageFolders folders_;
  data::FolderLoaderOptions options_;
  std::int64_t evaluation_size_, evaluated_;
  data::ImageWorkers evaluators_;
  std::int64_t parts_;  // micro-batches of a batch
  std::vector<data::Piece> pieces_;
  std::optional<data::Prefetcher<Loader, data::ImageBatch>> batches_;
  data::ImageBatch batch_, evaluation_;
};

}  // namespace

std::unique_ptr<DataSource> open_folder(const config::Config& config) {
  const std::string& path = config.data.path;
  if (!data::is_packed_images(path) && !data::is_image_folders(path)) {
    throw_invalid(
        "open_data", "data.kind is folder, but '", path,
        "' has neither train/<class>/ with images nor images.json (`normball data pack`); "
        "name their directory with data.path. docs/images.md describes both");
  }
  return std::make_unique<FolderSource>(data::load_image_files(path), config);
}

}  // namespace normball::trainer::train
