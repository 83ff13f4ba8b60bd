#include "trainer/data/pack_images.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "trainer/data/data_error.h"
#include "trainer/data/folder_loader.h"
#include "trainer/data/packed_images.h"
#include "trainer/data/partial_directory.h"
#include "trainer/files/atomic_file.h"
#include "trainer/images/encode.h"
#include "trainer/images/image_error.h"

namespace normball::trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* where = "pack_images";
constexpr std::int64_t at_once = 256;

class ShardsOfImages {
 public:
  ShardsOfImages(std::string directory, std::string prefix, std::int64_t shard_bytes)
      : directory_(std::move(directory)), prefix_(std::move(prefix)), shard_bytes_(shard_bytes) {}

  void append(std::span<const std::uint8_t> image, std::int64_t label) {
    if (file_ &&
        file_->contents().bytes() + image.size() > static_cast<std::uint64_t>(shard_bytes_)) {
      finish_shard();
    }
    if (!file_) {
      char number[32];
      std::snprintf(number, sizeof number, "_%06zu.images", part_.shards.size());
      name_ = prefix_ + number;
      file_ = std::make_unique<files::AtomicFile>(files_, fs::path(directory_) / name_);
    }
    records_.push_back({static_cast<std::uint32_t>(part_.shards.size()),
                        static_cast<std::uint32_t>(label), file_->contents().bytes(),
                        image.size()});
    file_->contents().write(std::as_bytes(image));
  }

  PackedPart finish() {
    if (file_) finish_shard();
    if (records_.empty()) return {};
    files::AtomicFile index(files_, fs::path(directory_) / (prefix_ + ".index"));
    index.contents().write(std::as_bytes(std::span(records_)));
    part_.index = {prefix_ + ".index", index.contents().bytes(), index.contents().crc()};
    index.commit(files::AtomicFile::Name::Unsynced);
    return part_;
  }

 private:
  void finish_shard() {
    part_.shards.push_back({name_, file_->contents().bytes(), file_->contents().crc()});
    file_->commit(files::AtomicFile::Name::Unsynced);
    file_.reset();
  }

  files::FileSystem& files_ = files::FileSystem::real();
  std::string directory_, prefix_, name_;
  std::int64_t shard_bytes_;
  std::unique_ptr<files::AtomicFile> file_;
  std::vector<PackedRecord> records_;
  PackedPart part_;
};

struct Worker {
  std::string buffer;
  images::Image decoded, small;
  images::Resizer resizer;
};

struct Packed {
  std::vector<std::uint8_t> bytes;
  bool good = true, shrunk = false;
};

// Every image is decoded, so that what is packed can be read.
Packed pack_one(const ImageFiles& files, std::int64_t i, const PackOptions& options,
                Worker& worker) {
  const auto file = files.bytes(i, worker.buffer);
  images::decode(file, files.name(i), worker.decoded);
  const int width = worker.decoded.width, height = worker.decoded.height;
  const int shorter = std::min(width, height);
  if (options.short_side == 0 || shorter <= options.short_side) {
    return {{file.begin(), file.end()}};
  }
  const auto side = [&](int n) {
    return static_cast<int>((static_cast<std::int64_t>(n) * options.short_side + shorter / 2) /
                            shorter);
  };
  worker.resizer.resize(worker.decoded, side(width), side(height), images::Filter::Bicubic,
                        worker.small);
  return {images::encode_jpeg(worker.small, options.quality), true, true};
}

class Packing {
 public:
  Packing(const PackOptions& options, const PackProgress& progress, std::int64_t all)
      : options_(options),
        progress_(progress),
        all_(all),
        workers_(options.threads),
        states_(static_cast<size_t>(workers_.threads())) {}

  PackedPart pack(const ImageFiles& files, const std::string& directory, const std::string& prefix,
                  std::int64_t& written) {
    ShardsOfImages shards(directory, prefix, options_.shard_bytes);
    std::vector<Packed> packed(at_once);
    for (std::int64_t begin = 0; begin < files.count(); begin += at_once) {
      const std::int64_t count = std::min(at_once, files.count() - begin);
      workers_.run(count, [&](int worker, std::int64_t k) {
        packed[static_cast<size_t>(k)] =
            pack_or_skip(files, begin + k, states_[static_cast<size_t>(worker)]);
      });
      for (std::int64_t k = 0; k < count; ++k) {
        const Packed& image = packed[static_cast<size_t>(k)];
        if (!image.good) continue;
        shards.append(image.bytes, files.label(begin + k));
        ++written;
        result_.shrunk += image.shrunk ? 1 : 0;
        result_.bytes += image.bytes.size();
      }
      done_ += count;
      if (progress_) progress_(done_, all_);
    }
    return shards.finish();
  }

  PackResult& result() { return result_; }
  const BadImages& bad() const { return bad_; }

 private:
  Packed pack_or_skip(const ImageFiles& files, std::int64_t i, Worker& worker) {
    try {
      return pack_one(files, i, options_, worker);
    } catch (const images::ImageError& error) {
      if (!options_.skip_bad) throw;
      bad_.add(files.name(i), error.what());
      return {{}, false, false};
    }
  }

  const PackOptions& options_;
  const PackProgress& progress_;
  std::int64_t all_, done_ = 0;
  Workers workers_;
  std::vector<Worker> states_;
  BadImages bad_;
  PackResult result_;
};

}  // namespace

PackResult pack_images(const PackOptions& options, const PackProgress& progress) {
  const ImageFolders from = load_image_folders(options.from);
  PartialDirectory directory(where, options.out);
  Packing packing(options, progress, from.train.count() + from.validation.count());
  PackResult& result = packing.result();
  PackedDescription description{.classes = from.class_names};
  description.train = packing.pack(from.train, directory.path(), "train", result.train);
  if (result.train == 0) {
    fail(where, options.from, ": none of the training images can be decoded; the first says: ",
         packing.bad().first_message());
  }
  description.validation =
      packing.pack(from.validation, directory.path(), "val", result.validation);
  files::write_file_atomically(files::FileSystem::real(),
                               fs::path(directory.path()) / "images.json", to_json(description));
  directory.commit();
  result.skipped = packing.bad().count();
  result.first_bad = packing.bad().first_message();
  return result;
}

}  // namespace normball::trainer::data
