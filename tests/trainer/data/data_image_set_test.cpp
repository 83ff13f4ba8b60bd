// IDX and CIFAR-10 files.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "temporary_directory.h"
#include "testing.h"
#include "tests/trainer/data/data_samples.h"
#include "trainer/data/data_directories.h"
#include "trainer/data/data_error.h"
#include "trainer/data/idx.h"
#include "trainer/data/image_set.h"

namespace normball::testing {
namespace {

using namespace trainer::data;

IdxArray parse(const ByteVector& file) { return parse_idx(bytes_of(file), "test.idx"); }

TEST(IdxTest, ReadsPlainAndCompressed) {
  const ByteVector elements = counting(2 * 3 * 4);
  const ByteVector file = idx_file({2, 3, 4}, elements);
  for (const auto& form : {file, gzip(file)}) {
    const IdxArray array = parse(form);
    EXPECT_EQ(array.shape, (std::vector<std::int64_t>{2, 3, 4}));
    EXPECT_EQ(ByteVector(array.data.span().begin(), array.data.span().end()), elements);
  }
}

TEST(IdxTest, TruncationAtEveryOffsetAndOneByteMoreAreErrors) {
  const ByteVector file = idx_file({2, 3, 4}, counting(24));
  const ByteVector packed = gzip(file);
  for (size_t size = 0; size < file.size(); ++size) {
    SCOPED_TRACE(size);
    const ByteVector part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW(parse(part), DataError);
    EXPECT_THROW(parse(gzip(part)), DataError);
  }
  for (size_t size = 0; size < packed.size(); ++size) {
    SCOPED_TRACE(size);
    EXPECT_THROW(parse({packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size)}),
                 DataError);
  }
  ByteVector longer = file;
  longer.push_back(0);
  expect_data_error([&] { parse(longer); }, {"test.idx", "41 bytes", "promises 40"});
  expect_data_error([&] { parse(gzip(longer)); }, {"test.idx", "more than the 24"});
}

TEST(IdxTest, WrongHeadersAreNamed) {
  ByteVector file = idx_file({2, 2}, counting(4));
  file[0] = 1;
  expect_data_error([&] { parse(file); }, {"test.idx", "not an IDX file"});
  file = idx_file({2, 2}, counting(4));
  file[2] = 13;
  expect_data_error([&] { parse(file); }, {"type 13", "type 8"});
  file = idx_file({2, 2}, counting(4));
  file[3] = 0;
  expect_data_error([&] { parse(file); }, {"0 dimensions"});
  file[3] = 9;
  expect_data_error([&] { parse(file); }, {"9 dimensions"});
  expect_data_error([&] { parse(idx_file({3, 0}, {})); }, {"no elements", "3x0"});
}

TEST(IdxTest, APromiseBeyondTheFileAllocatesNothing) {
  const std::uint32_t most = 0xffffffff;
  expect_data_error([&] { parse(idx_file({most, most, most}, counting(4))); }, {"more elements"});
  expect_data_error([&] { parse(idx_file({most, 64}, counting(4))); }, {"promises 274877906892"});
  expect_data_error(
      [&] {
        parse(gzip(idx_file({most, 64}, counting(4))));
      },
      {"compressed bytes can hold"});
}

// MNIST's four files with `train` and `test` images of 2x3.
void write_idx_directory(const TemporaryDirectory& directory, std::uint32_t train,
                         std::uint32_t test) {
  write(directory / "train-images-idx3-ubyte.gz",
        gzip(idx_file({train, 2, 3}, counting(train * 6))));
  write(directory / "train-labels-idx1-ubyte", idx_file({train}, counting(train, 3)));
  write(directory / "t10k-images-idx3-ubyte", idx_file({test, 2, 3}, counting(test * 6)));
  write(directory / "t10k-labels-idx1-ubyte.gz", gzip(idx_file({test}, counting(test, 3))));
}

TEST(ImageSetTest, LoadsADirectoryOfIdxFiles) {
  const TemporaryDirectory directory;
  write_idx_directory(directory, 7, 3);
  const ImageData data = load_images(directory.path());
  EXPECT_EQ(data.kind, "IDX");
  EXPECT_EQ(data.classes, 3);
  EXPECT_EQ(data.train.count, 7);
  EXPECT_EQ(data.test.count, 3);
  EXPECT_EQ(data.train.channels, 1);
  EXPECT_EQ(data.train.image(2)[0], 12);
  EXPECT_EQ(data.train.label(5), 2);
  EXPECT_EQ(class_histogram(data.train, 3), (std::vector<std::int64_t>{3, 2, 2}));
}

TEST(ImageSetTest, InconsistentIdxFilesAreNamed) {
  const TemporaryDirectory directory;
  expect_data_error([&] { load_images(directory.path()); }, {directory.path(), "neither"});
  expect_data_error([&] { load_images(directory / "missing"); }, {"missing", "not a directory"});
  write_idx_directory(directory, 7, 3);
  write(directory / "t10k-labels-idx1-ubyte.gz", idx_file({4}, counting(4)));
  expect_data_error([&] { load_images(directory.path()); }, {"t10k-labels", "3 images"});
  write(directory / "t10k-labels-idx1-ubyte.gz", idx_file({3}, {0, 1, 9}));
  expect_data_error([&] { load_images(directory.path()); }, {"up to 9", "only to 2"});
  write(directory / "t10k-labels-idx1-ubyte.gz", idx_file({3}, {0, 1, 2}));
  write(directory / "t10k-images-idx3-ubyte", idx_file({3, 3, 3}, counting(27)));
  expect_data_error([&] { load_images(directory.path()); }, {"2x3", "3x3"});
  write(directory / "t10k-images-idx3-ubyte", idx_file({3, 6}, counting(18)));
  expect_data_error([&] { load_images(directory.path()); }, {"3x6", "three dimensions"});
  std::filesystem::remove(directory / "t10k-images-idx3-ubyte");
  expect_data_error([&] { load_images(directory.path()); }, {"t10k-images-idx3-ubyte", "all four"});
}

TEST(ImageSetTest, LoadsCifar10FromTheDirectoryOrItsParent) {
  const TemporaryDirectory directory;
  const std::string inner = directory / "cifar-10-batches-bin";
  std::filesystem::create_directory(inner);
  for (int i = 1; i <= 5; ++i) {
    write(inner + "/data_batch_" + std::to_string(i) + ".bin", cifar10_file(12));
  }
  write(inner + "/test_batch.bin", cifar10_file(11));
  write(inner + "/batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  for (const auto& path : {inner, directory.path()}) {
    const ImageData data = load_images(path);
    EXPECT_EQ(data.train.count, 60);
    EXPECT_EQ(data.test.count, 11);
    EXPECT_EQ(data.classes, 10);
    EXPECT_EQ(data.class_names.at(9), "j");
    EXPECT_EQ(data.train.label(12 + 11), 1);
    EXPECT_EQ(data.train.image(12 + 11)[0], 11);
    EXPECT_EQ(data.train.image(12 + 11)[3071], 1);
  }
  std::filesystem::remove(inner + "/data_batch_4.bin");
  expect_file_error([&] { load_images(inner); }, {"data_batch_4.bin", "No such file"});
}

TEST(ImageSetTest, WrongCifar10FilesAreErrors) {
  const ByteVector file = cifar10_file(2);
  const auto parse_part = [&](size_t size) {
    return parse_cifar10(bytes_of({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)}),
                         "test.bin");
  };
  EXPECT_EQ(parse_part(file.size()).count, 2);
  for (size_t size = 0; size < file.size(); ++size) {
    if (size == file.size() / 2) continue;  // one whole record
    EXPECT_THROW(parse_part(size), DataError) << size;
  }
  ByteVector wrong = file;
  wrong[3073] = 10;
  expect_data_error([&] { parse_cifar10(bytes_of(wrong), "test.bin"); },
                    {"test.bin", "record 1 has label 10"});
}

TEST(ImageSetTest, StatisticsMatchTheDefinition) {
  Random random(5);
  ByteVector pixels(4 * 2 * 3 * 5);
  for (auto& p : pixels) p = static_cast<std::uint8_t>(random.below(256));
  const ImageSet images{4, 2, 3, 5, bytes_of(pixels), bytes_of({0, 0, 0, 0})};
  const ChannelStatistics statistics = channel_statistics(images);
  for (size_t c = 0; c < 2; ++c) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < 4; ++i) {
      for (size_t j = 0; j < 15; ++j) {
        const double v = pixels[i * 30 + c * 15 + j] / 255.0;
        sum += v;
        squares += v * v;
      }
    }
    const double mean = sum / 60;
    EXPECT_NEAR(statistics.mean[c], mean, 1e-6);
    EXPECT_NEAR(statistics.std[c], std::sqrt(squares / 60 - mean * mean), 1e-6);
  }
}

// Sets a variable of the environment, or unsets it, and puts it back at the end.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    change(value);
  }
  ~Environment() { change(before_ ? before_->c_str() : nullptr); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  void change(const char* value) const {
    value != nullptr ? ::setenv(name_, value, 1) : ::unsetenv(name_);
  }
  const char* name_;
  std::optional<std::string> before_;
};

TEST(DataDirectoriesTest, FollowTheXdgSpecification) {
  const Environment home("HOME", "/home/me");
  {
    const Environment own("XDG_DATA_HOME", nullptr), shared("XDG_DATA_DIRS", "");
    EXPECT_EQ(data_directories("x"),
              (std::vector<std::string>{"/home/me/.local/share/datasets/x",
                                        "/usr/local/share/datasets/x", "/usr/share/datasets/x"}));
  }
  const Environment own("XDG_DATA_HOME", "/mine"), shared("XDG_DATA_DIRS", "/a:relative::/b");
  EXPECT_EQ(data_directories("x"),
            (std::vector<std::string>{"/mine/datasets/x", "/a/datasets/x", "/b/datasets/x"}));
}

TEST(DataDirectoriesTest, FashionMnistIsFoundThereOrTheErrorNamesThePlaces) {
  const TemporaryDirectory first, second;
  const Environment own("XDG_DATA_HOME", first.path().c_str()),
      shared("XDG_DATA_DIRS", second.path().c_str());
  try {
    load_images("fashion-mnist");
    FAIL() << "found where there is none";
  } catch (const DataError& error) {
    for (const TemporaryDirectory* place : {&first, &second}) {
      EXPECT_NE(std::string(error.what()).find(*place / "datasets/fashion-mnist"),
                std::string::npos)
          << error.what();
    }
  }
  const std::string directory = second / "datasets/fashion-mnist";
  std::filesystem::create_directories(directory);
  for (const std::string part : {"train", "t10k"}) {
    write(directory + "/" + part + "-images-idx3-ubyte", idx_file({2, 3, 3}, counting(18)));
    write(directory + "/" + part + "-labels-idx1-ubyte", idx_file({2}, {0, 1}));
  }
  const ImageData data = load_images("fashion-mnist");
  EXPECT_EQ(data.path, directory);
  EXPECT_EQ(data.train.count, 2);
  EXPECT_EQ(data.class_names.size(), 10u);
}

TEST(ImageSetTest, TheWholeFashionMnist) {
  if (std::ranges::none_of(data_directories("fashion-mnist"), is_idx_directory)) {
    GTEST_SKIP() << "the data set is not installed (Debian: dataset-fashion-mnist)";
  }
  const ImageData data = load_images("fashion-mnist");
  EXPECT_EQ(data.train.count, 60000);
  EXPECT_EQ(data.test.count, 10000);
  EXPECT_EQ(data.train.image_size(), 784);
  EXPECT_EQ(class_histogram(data.train, data.classes), std::vector<std::int64_t>(10, 6000));
  EXPECT_EQ(class_histogram(data.test, data.classes), std::vector<std::int64_t>(10, 1000));
  // The figures commonly given for this data set.
  EXPECT_NEAR(channel_statistics(data.train).mean[0], 0.2860, 5e-5);
  EXPECT_NEAR(channel_statistics(data.train).std[0], 0.3530, 5e-5);
}

}  // namespace
}  // namespace normball::testing
