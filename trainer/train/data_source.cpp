#include "trainer/train/data_source.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "normball/base/error.h"
#include "trainer/data/image_loader.h"
#include "trainer/data/prefetcher.h"
#include "trainer/data/token_loader.h"
#include "trainer/files/checksum.h"
#include "trainer/train/folder_source.h"

namespace normball::trainer::train {
namespace {

namespace fs = std::filesystem;
using data::DataCursor;
using data::ImageBatch;
using data::TokenBatch;

// A tensor on the batch's own memory.
torch::Tensor tensor_on(std::vector<float>& values, at::IntArrayRef shape) {
  return torch::from_blob(values.data(), shape, torch::kFloat32);
}
torch::Tensor tensor_on(std::vector<std::int64_t>& values, at::IntArrayRef shape) {
  return torch::from_blob(values.data(), shape, torch::kInt64);
}

models::Batch as_tensors(ImageBatch& batch) {
  return {tensor_on(batch.pixels, {batch.count, batch.channels, batch.height, batch.width}),
          tensor_on(batch.labels, {batch.count})};
}
models::Batch as_tensors(TokenBatch& batch) {
  return {tensor_on(batch.inputs, {batch.rows, batch.length}),
          tensor_on(batch.targets, {batch.rows, batch.length})};
}

// Batches made ahead, and where the data stands after the last one handed out.
template <class Loader, class Buffer>
class Stream {
 public:
  // Of batches of so many micro-batches, or of their pieces only.
  explicit Stream(std::int64_t parts) : parts_(parts) {}
  void divide(std::vector<data::Piece> pieces) { pieces_ = std::move(pieces); }

  void start(Loader loader) {
    batch_.after = loader.cursor();
    batches_.emplace(data::PieceLoader<Loader>(std::move(loader), parts_, pieces_));
  }
  // Adds the time it takes.
  models::Batch next(double& seconds) {
    const auto start = std::chrono::steady_clock::now();
    batches_->next(batch_);
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return as_tensors(batch_);
  }
  const DataCursor& cursor() const { return batch_.after; }

 private:
  std::int64_t parts_;
  std::vector<data::Piece> pieces_;
  std::optional<data::Prefetcher<data::PieceLoader<Loader>, Buffer>> batches_;
  Buffer batch_;
};

std::string digest_of(const std::vector<std::span<const std::uint8_t>>& pieces) {
  files::FileChecksum sum;
  for (const auto& piece : pieces) {
    sum.crc = files::crc32c(std::as_bytes(piece), sum.crc);
    sum.bytes += piece.size();
  }
  return files::checksum_text(sum.crc) + " of " + std::to_string(sum.bytes) + " bytes";
}
std::string digest_of(const data::ImageSet& images) {
  return digest_of({images.pixels.span(), images.labels.span()});
}

class ImageSource final : public DataSource {
 public:
  ImageSource(data::ImageData images, const config::Config& config)
      : images_(std::move(images)),
        evaluation_size_(evaluated_at_once(config)),
        evaluated_(evaluated_of(images_.test.count, config)),
        stream_(config.train.accumulation()) {
    const auto& train = images_.train;
    if (train.height != train.width) {
      throw_invalid("open_data", images_.path, ": images are ", train.height, "x", train.width,
                    "; the models take square ones");
    }
    require_enough_images(config, train.count, images_.path);
    options_.batch = config.train.micro();
    options_.augmentation = {config.data.flip, static_cast<int>(config.data.translate)};
    options_.normalization = data::channel_statistics(train);
    facts_ = {.unit = "images",
              .channels = train.channels,
              .size = train.height,
              .classes = images_.classes,
              .items = train.count / options_.batch * options_.batch,
              .has_validation = images_.test.count > 0};
    warn_of_one_class(facts_, images_.path);
    table_.emplace(train, options_.normalization);
    seek({.seed = static_cast<std::uint64_t>(config.run.seed)});
  }

  models::Batch next() override { return stream_.next(waited_); }
  void divide(std::vector<data::Piece> pieces) override {
    stream_.divide(std::move(pieces));
    seek(cursor());
  }
  DataCursor cursor() const override { return stream_.cursor(); }
  void seek(const DataCursor& cursor) override {
    stream_.start(data::ImageLoader(images_.train, options_, cursor));
  }

  std::int64_t evaluation_batches() const override {
    return (evaluated_ + evaluation_size_ - 1) / evaluation_size_;
  }
  std::int64_t evaluation_items() const override { return evaluated_; }
  models::Batch evaluation_batch(std::int64_t index) override {
    const std::int64_t first = index * evaluation_size_;
    data::image_range(images_.test, *table_, first, std::min(evaluation_size_, evaluated_ - first),
                      evaluation_);
    return as_tensors(evaluation_);
  }

  std::string training_digest() const override { return digest_of(images_.train); }
  std::string validation_digest() const override { return digest_of(images_.test); }

  torch::Tensor preparation_inputs() override {
    data::image_range(images_.train, *table_, 0, std::min<std::int64_t>(5000, images_.train.count),
                      evaluation_);
    return as_tensors(evaluation_).inputs;
  }

 private:
  data::ImageData images_;
  data::ImageLoaderOptions options_;
  std::int64_t evaluation_size_, evaluated_;
  std::optional<data::PixelTable> table_;
  Stream<data::ImageLoader, ImageBatch> stream_;
  ImageBatch evaluation_;
};

class TokenSource final : public DataSource {
 public:
  TokenSource(data::TokenDataset tokens, const config::Config& config)
      : tokens_(std::move(tokens)),
        options_{.batch = config.train.micro(), .length = config.model.context},
        stream_(config.train.accumulation()) {
    if (tokens_.train.size() <= options_.length) {
      throw_invalid("open_data", "the training data has ", tokens_.train.size(),
                    " tokens, fewer than a window of model.context = ", options_.length,
                    " and the next one; name more with data.path, or use a shorter context",
                    config.data.kind == "text" && config.data.validation.empty()
                        ? ", or a smaller data.validation_fraction"
                        : "");
    }
    const std::int64_t windows = (tokens_.validation.size() - 1) / options_.length;
    if (windows > 0) {
      evaluation_.emplace(tokens_.validation, evaluated_at_once(config), options_.length,
                          evaluated_of(windows, config));
    } else if (tokens_.validation.size() > 0) {
      throw_invalid(
          "open_data", "the validation data has ", tokens_.validation.size(),
          tokens_.validation.size() == 1 ? " token" : " tokens",
          ", fewer than a window of model.context = ", options_.length,
          " and the next one; name more with data.validation, or use a shorter "
          "context",
          config.data.kind == "text" ? ", or another data.validation_fraction (0: none)" : "");
    }
    facts_ = {.unit = "tokens",
              .vocabulary = tokens_.vocabulary,
              .tokenizer = tokens_.tokenizer,
              .item_units = options_.length,
              .has_validation = evaluation_.has_value()};
    if (!evaluation_) {
      facts_.warnings.push_back(
          "there is no validation data, so nothing will be evaluated; "
          "name some with data.validation");
    }
    if (config.sample.every > 0 && !tokens_.tokenizer) {
      facts_.warnings.push_back(
          "the vocabulary of the tokens is unknown, so sample.every shows nothing; name the "
          "directory with GPT-2's vocab.bpe and encoder.json in data.bpe");
    }
    seek({.seed = static_cast<std::uint64_t>(config.run.seed)});
    facts_.items = stream_.cursor().items;
  }

  models::Batch next() override { return stream_.next(waited_); }
  void divide(std::vector<data::Piece> pieces) override {
    stream_.divide(std::move(pieces));
    seek(cursor());
  }
  DataCursor cursor() const override { return stream_.cursor(); }
  void seek(const DataCursor& cursor) override {
    stream_.start(data::TokenLoader(tokens_.train, options_, cursor));
  }

  std::int64_t evaluation_batches() const override {
    return evaluation_ ? evaluation_->batches() : 0;
  }
  std::int64_t evaluation_items() const override {
    return evaluation_ ? evaluation_->windows() : 0;
  }
  models::Batch evaluation_batch(std::int64_t index) override {
    evaluation_->fill(index, evaluation_buffer_);
    return as_tensors(evaluation_buffer_);
  }
  std::string training_digest() const override { return digest_of(tokens_.train.bytes()); }
  std::string validation_digest() const override { return digest_of(tokens_.validation.bytes()); }
  torch::Tensor preparation_inputs() override { return {}; }

 private:
  data::TokenDataset tokens_;
  data::TokenLoaderOptions options_;
  std::optional<data::TokenEvaluation> evaluation_;
  Stream<data::TokenLoader, TokenBatch> stream_;
  TokenBatch evaluation_buffer_;
};

data::TokenDataset open_text(const config::Config& config) {
  const auto& from = config.data;
  const auto tokenizer =
      from.bpe.empty() ? data::Tokenizer::bytes() : data::Tokenizer::gpt2(from.bpe);
  const auto load = [&](const char* key, const std::string& path, double validation_share) {
    if (!fs::exists(path)) {
      throw_invalid("open_data", "data.kind is text, but there is no '", path,
                    "'; name a plain text file with ", key,
                    ". docs/data.md says where the presets' text comes from");
    }
    return data::load_text({path}, tokenizer, validation_share,
                           static_cast<int>(config.run.threads));
  };
  if (from.validation.empty()) return load("data.path", from.path, from.validation_fraction);
  auto tokens = load("data.path", from.path, 0);
  tokens.validation = load("data.validation", from.validation, 0).train;
  return tokens;
}

data::TokenDataset open_shards(const config::DataConfig& from) {
  auto tokens = data::load_shards(from.path, {.vocabulary = 0, .validation = from.validation});
  if (from.bpe.empty()) return tokens;
  tokens.tokenizer = data::Tokenizer::gpt2(from.bpe);
  if (tokens.tokenizer->vocabulary() < tokens.vocabulary) {
    throw_invalid("open_data", "data.bpe = '", from.bpe, "' knows ", tokens.tokenizer->vocabulary(),
                  " tokens, but the shards were made with ", tokens.vocabulary,
                  "; name that vocabulary");
  }
  return tokens;
}

data::ImageData open_images(const config::DataConfig& from) {
  const bool cifar10 = from.kind == "cifar10";
  std::string place = from.path;
  if (place.empty()) place = !cifar10 || fs::is_directory(from.kind) ? from.kind : "data";
  const bool there = cifar10 ? data::is_cifar10_directory(place)
                             : place == from.kind || data::is_idx_directory(place);
  if (!there) {
    throw_invalid("open_data", "data.kind is ", from.kind, ", but '", place, "' does not have ",
                  cifar10 ? "data_batch_1.bin to data_batch_5.bin and test_batch.bin, CIFAR-10's "
                            "binary version"
                          : "train-images-idx3-ubyte[.gz] and the other files of MNIST's layout",
                  "; name their directory with data.path. docs/data.md says where to get them");
  }
  return data::load_images(place);
}

struct Opener {
  std::string_view kind;
  std::unique_ptr<DataSource> (*open)(const config::Config&);
};
std::unique_ptr<DataSource> images(const config::Config& config) {
  return std::make_unique<ImageSource>(open_images(config.data), config);
}
constexpr Opener openers[] = {
    {"fashion-mnist", images},
    {"cifar10", images},
    {"folder", open_folder},
    {"shards",
     [](const config::Config& config) -> std::unique_ptr<DataSource> {
       return std::make_unique<TokenSource>(open_shards(config.data), config);
     }},
    {"text", [](const config::Config& config) -> std::unique_ptr<DataSource> {
       return std::make_unique<TokenSource>(open_text(config), config);
     }}};

}  // namespace

std::int64_t evaluated_of(std::int64_t items, const config::Config& config) {
  const std::int64_t batch = config.eval.batch > 0 ? config.eval.batch : config.train.batch;
  const std::int64_t batches = config.eval.batches;
  return batches > 0 && batches < items / batch + 1 ? std::min(items, batches * batch) : items;
}
std::int64_t evaluated_at_once(const config::Config& config) {
  return config.eval.batch > 0 ? config.eval.batch : config.train.micro();
}

void require_enough_images(const config::Config& config, std::int64_t images,
                           const std::string& path) {
  if (config.train.micro() <= images) return;
  throw_invalid(
      "open_data", config.train.micro_batch > 0 ? "train.micro_batch = " : "train.batch = ",
      config.train.micro(), " is more than the ", images, " training images of ", path,
      "; make it smaller", config.train.micro_batch > 0 ? "" : ", or set train.micro_batch",
      ", or name more images with data.path");
}
void warn_of_one_class(DataFacts& facts, const std::string& path) {
  if (facts.classes != 1) return;
  facts.warnings.push_back("all images of " + path +
                           " are of one class, so there is nothing to learn");
}

std::unique_ptr<DataSource> open_data(const config::Config& config) {
  const auto* opener = std::ranges::find(openers, config.data.kind, &Opener::kind);
  if (opener == std::end(openers)) {
    throw_invalid("open_data", "no reader for data of the kind ", config.data.kind);
  }
  return opener->open(config);
}

}  // namespace normball::trainer::train
