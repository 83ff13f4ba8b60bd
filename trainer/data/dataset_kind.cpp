#include "trainer/data/dataset_kind.h"

#include <filesystem>

#include "trainer/data/data_error.h"
#include "trainer/data/gzip.h"
#include "trainer/data/image_files.h"
#include "trainer/data/image_set.h"
#include "trainer/data/token_shard.h"
#include "trainer/files/bytes.h"

namespace normball::trainer::data {
namespace {

namespace fs = std::filesystem;

DatasetKind kind_of_directory(const std::string& path) {
  if (is_idx_directory(path) || is_cifar10_directory(path)) return DatasetKind::Images;
  if (is_packed_images(path) || is_image_folders(path)) return DatasetKind::ImageFiles;
  if (!list_shards(path, "").empty()) return DatasetKind::Shards;
  std::error_code ignored;
  if (fs::exists(fs::path(path) / "vocab.bpe", ignored)) return DatasetKind::Bpe;
  fail(
      "dataset_kind", path,
      ": no known data there: expected IDX files (train-images-idx3-ubyte[.gz]), CIFAR-10 batches "
      "(data_batch_1.bin), image folders (train/<class>/*.jpg), packed images (images.json), token "
      "shards (*.bin) or a vocabulary (vocab.bpe)");
}

}  // namespace

DatasetKind dataset_kind(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return kind_of_directory(path);
  if (path == "fashion-mnist") return DatasetKind::Images;
  if (path.find_first_of("*?[") != std::string::npos && !fs::exists(path, ignored)) {
    return DatasetKind::Shards;
  }
  const files::Bytes file = files::Bytes::map(path);
  if (is_shard(file.span()) || path.ends_with(".bin")) return DatasetKind::Shards;
  if (is_gzip(file.span()) || path.ends_with("-ubyte") || path.ends_with(".gz")) {
    return DatasetKind::IdxFile;
  }
  return DatasetKind::Text;
}

}  // namespace normball::trainer::data
