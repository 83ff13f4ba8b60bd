#include "trainer/data/image_set.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "trainer/data/data_directories.h"
#include "trainer/data/data_error.h"
#include "trainer/data/idx.h"

namespace normball::trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* fashion_mnist = "fashion-mnist";

// The file with or without .gz, or an empty path.
std::string find_idx(const std::string& directory, const char* name) {
  std::error_code ignored;
  for (const char* ending : {"", ".gz"}) {
    const fs::path path = fs::path(directory) / (std::string(name) + ending);
    if (fs::exists(path, ignored)) return path.string();
  }
  return {};
}

std::string require_idx(const std::string& directory, const char* name) {
  std::string path = find_idx(directory, name);
  if (path.empty()) {
    fail("load_images", directory, ": has no ", name, " (or ", name,
         ".gz); an IDX data set needs all four files of MNIST's layout");
  }
  return path;
}

ImageSet load_idx_pair(const std::string& directory, const char* images_name,
                       const char* labels_name) {
  const std::string images_path = require_idx(directory, images_name);
  const std::string labels_path = require_idx(directory, labels_name);
  const IdxArray images = read_idx(images_path), labels = read_idx(labels_path);
  if (images.shape.size() != 3) {
    fail("load_images", images_path, ": is ", shape_text(images.shape),
         "; images must have three dimensions (count, height, width)");
  }
  if (labels.shape.size() != 1 || labels.shape[0] != images.shape[0]) {
    fail("load_images", labels_path, ": is ", shape_text(labels.shape), ", but ", images_path,
         " has ", images.shape[0], " images; one label is needed for each");
  }
  return {images.shape[0], 1, images.shape[1], images.shape[2], images.data, labels.data};
}

int largest_label(const ImageSet& images) {
  return *std::ranges::max_element(images.labels.span());
}

}  // namespace

bool is_idx_directory(const std::string& directory) {
  return !find_idx(directory, "train-images-idx3-ubyte").empty();
}

ImageData load_idx_directory(const std::string& directory) {
  ImageData data{
      .kind = "IDX",
      .path = directory,
      .train = load_idx_pair(directory, "train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
      .test = load_idx_pair(directory, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
      .class_names = {}};
  if (data.train.height != data.test.height || data.train.width != data.test.width) {
    fail("load_images", directory, ": training images are ", data.train.height, "x",
         data.train.width, " but test images ", data.test.height, "x", data.test.width);
  }
  data.classes = largest_label(data.train) + 1;
  if (largest_label(data.test) >= data.classes) {
    fail("load_images", directory, ": the test labels go up to ", largest_label(data.test),
         ", the training labels only to ", data.classes - 1);
  }
  return data;
}

ImageData load_images(const std::string& name_or_directory) {
  std::error_code ignored;
  if (fs::is_directory(name_or_directory, ignored)) {
    if (is_idx_directory(name_or_directory)) return load_idx_directory(name_or_directory);
    if (is_cifar10_directory(name_or_directory)) return load_cifar10(name_or_directory);
    fail("load_images", name_or_directory,
         ": holds neither train-images-idx3-ubyte[.gz] (IDX) nor data_batch_1.bin (CIFAR-10)");
  }
  if (name_or_directory == fashion_mnist) {
    const std::vector<std::string> places = data_directories(fashion_mnist);
    const auto place = std::ranges::find_if(places, is_idx_directory);
    if (place == places.end()) {
      std::string searched;
      for (const std::string& directory : places)
        searched += (searched.empty() ? "" : ", ") + directory;
      fail(
          "load_images", fashion_mnist, ": the data set is in none of ", searched,
          "; put its four IDX files there (Debian: apt-get install dataset-fashion-mnist), or name "
          "a directory that has them");
    }
    ImageData data = load_idx_directory(*place);
    data.class_names = {"t-shirt", "trouser", "pullover", "dress", "coat",
                        "sandal",  "shirt",   "sneaker",  "bag",   "ankle boot"};
    return data;
  }
  fail("load_images", name_or_directory, ": is not a directory; name one, or \"", fashion_mnist,
       "\"");
}

ChannelStatistics channel_statistics(const ImageSet& images) {
  const std::int64_t plane = images.height * images.width;
  ChannelStatistics statistics;
  for (std::int64_t c = 0; c < images.channels; ++c) {
    std::array<std::int64_t, 256> histogram{};  // exact, whatever the number of pixels
    for (std::int64_t i = 0; i < images.count; ++i) {
      const auto pixels =
          images.image(i).subspan(static_cast<size_t>(c * plane), static_cast<size_t>(plane));
      for (const std::uint8_t p : pixels) ++histogram[p];
    }
    const double n = static_cast<double>(images.count * plane);
    double mean = 0, variance = 0;
    for (size_t v = 0; v < 256; ++v) {
      mean += static_cast<double>(histogram[v]) * (static_cast<double>(v) / 255) / n;
    }
    for (size_t v = 0; v < 256; ++v) {
      const double d = static_cast<double>(v) / 255 - mean;
      variance += static_cast<double>(histogram[v]) * d * d / n;
    }
    statistics.mean.push_back(static_cast<float>(mean));
    statistics.std.push_back(static_cast<float>(std::sqrt(variance)));
  }
  return statistics;
}

std::vector<std::int64_t> class_histogram(const ImageSet& images, int classes) {
  std::vector<std::int64_t> counts(static_cast<size_t>(classes));
  for (const std::uint8_t label : images.labels.span()) ++counts[label];
  return counts;
}

}  // namespace normball::trainer::data
