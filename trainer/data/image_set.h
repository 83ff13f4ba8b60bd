// Labelled images of one size, as bytes: what IDX and CIFAR-10 files hold.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/data/bytes.h"

namespace normball::trainer::data {

struct ImageSet {
  std::int64_t count = 0;
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  Bytes pixels;  // count x channels x height x width
  Bytes labels;  // count, each below the number of classes

  std::int64_t image_size() const { return channels * height * width; }
  std::span<const std::uint8_t> image(std::int64_t i) const {
    return pixels.span().subspan(static_cast<size_t>(i * image_size()),
                                 static_cast<size_t>(image_size()));
  }
  int label(std::int64_t i) const { return labels[static_cast<size_t>(i)]; }
};

struct ImageData {
  std::string kind;  // "IDX" or "CIFAR-10"
  std::string path;
  ImageSet train;
  ImageSet test;
  int classes = 0;
  std::vector<std::string> class_names;  // empty, or one for each class
};

// The four files of MNIST's layout, train-images-idx3-ubyte and so on, plain or with .gz.
ImageData load_idx_directory(const std::string& directory);

// data_batch_1.bin to data_batch_5.bin and test_batch.bin: records of a label and 3x32x32 bytes.
ImageData load_cifar10(const std::string& directory);
ImageSet read_cifar10(const std::vector<std::string>& paths);
ImageSet parse_cifar10(const Bytes& file, const std::string& name);

// A directory of either layout, or the name "fashion-mnist", which is looked for in
// data_directories().
ImageData load_images(const std::string& name_or_directory);
bool is_idx_directory(const std::string& directory);
bool is_cifar10_directory(const std::string& directory);

// Mean and standard deviation of each channel, of pixels scaled to [0, 1].
struct ChannelStatistics {
  std::vector<float> mean;
  std::vector<float> std;
};
ChannelStatistics channel_statistics(const ImageSet& images);

std::vector<std::int64_t> class_histogram(const ImageSet& images, int classes);

}  // namespace normball::trainer::data
