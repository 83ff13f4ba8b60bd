// The CIFAR-10 binary layout.
#include <algorithm>
#include <filesystem>
#include <sstream>

#include "trainer/data/data_error.h"
#include "trainer/data/image_set.h"

namespace normball::trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* where = "read_cifar10";
constexpr size_t side = 32, channels = 3, image_bytes = channels * side * side;
constexpr size_t record = 1 + image_bytes;
constexpr int classes = 10;

void append(const Bytes& file, const std::string& name, std::vector<std::uint8_t>& pixels,
            std::vector<std::uint8_t>& labels) {
  if (file.empty() || file.size() % record != 0) {
    fail(where, name, ": has ", file.size(), " bytes, which is not a whole number of records of ",
         record, " bytes; the file is truncated or not CIFAR-10's binary version, get it again");
  }
  for (size_t begin = 0; begin < file.size(); begin += record) {
    if (file[begin] >= classes) {
      fail(where, name, ": record ", begin / record, " has label ", int{file[begin]},
           "; CIFAR-10 has labels 0 to 9");
    }
    labels.push_back(file[begin]);
    const auto image = file.span().subspan(begin + 1, image_bytes);
    pixels.insert(pixels.end(), image.begin(), image.end());
  }
}

ImageSet make_set(std::vector<std::uint8_t> pixels, std::vector<std::uint8_t> labels) {
  return {static_cast<std::int64_t>(labels.size()),
          channels,
          side,
          side,
          Bytes::own(std::move(pixels)),
          Bytes::own(std::move(labels))};
}

// Archives unpack into cifar-10-batches-bin: either that directory or its parent may be named.
fs::path batch_directory(const std::string& directory) {
  std::error_code ignored;
  const fs::path inner = fs::path(directory) / "cifar-10-batches-bin";
  return fs::exists(inner / "data_batch_1.bin", ignored) ? inner : fs::path(directory);
}

std::vector<std::string> read_class_names(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  std::istringstream text{std::string(read_small_file(path.string(), 4096).text())};
  std::vector<std::string> names;
  for (std::string line; std::getline(text, line);) {
    if (!line.empty()) names.push_back(line);
  }
  return names.size() == classes ? names : std::vector<std::string>{};
}

}  // namespace

bool is_cifar10_directory(const std::string& directory) {
  std::error_code ignored;
  return fs::exists(batch_directory(directory) / "data_batch_1.bin", ignored);
}

ImageSet parse_cifar10(const Bytes& file, const std::string& name) {
  std::vector<std::uint8_t> pixels, labels;
  pixels.reserve(file.size());
  append(file, name, pixels, labels);
  return make_set(std::move(pixels), std::move(labels));
}

ImageSet read_cifar10(const std::vector<std::string>& paths) {
  std::vector<Bytes> files;
  size_t size = 0;
  for (const auto& path : paths) size += files.emplace_back(Bytes::map(path)).size();
  std::vector<std::uint8_t> pixels, labels;
  pixels.reserve(size);
  for (size_t i = 0; i < paths.size(); ++i) append(files[i], paths[i], pixels, labels);
  return make_set(std::move(pixels), std::move(labels));
}

ImageData load_cifar10(const std::string& directory) {
  const fs::path base = batch_directory(directory);
  std::vector<std::string> train;
  for (int i = 1; i <= 5; ++i) {
    train.push_back((base / ("data_batch_" + std::to_string(i) + ".bin")).string());
  }
  return {.kind = "CIFAR-10",
          .path = base.string(),
          .train = read_cifar10(train),
          .test = read_cifar10({(base / "test_batch.bin").string()}),
          .classes = classes,
          .class_names = read_class_names(base / "batches.meta.txt")};
}

}  // namespace normball::trainer::data
