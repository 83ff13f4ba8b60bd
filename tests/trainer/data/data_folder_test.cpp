// Folders of images, packed images, and the batches made of them.
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "temporary_directory.h"
#include "testing.h"
#include "tests/trainer/data/data_samples.h"
#include "tests/trainer/data/image_samples.h"
#include "trainer/data/folder_loader.h"
#include "trainer/data/pack_images.h"
#include "trainer/data/packed_images.h"
#include "trainer/data/prefetcher.h"
#include "trainer/images/image_error.h"

namespace normball::testing {
namespace {

namespace fs = std::filesystem;
using namespace trainer::data;
using trainer::images::ImageError;

class FolderTest : public ::testing::Test {
 protected:
  FolderTest() { make_image_folders(at("set")); }
  std::string at(const std::string& name) const { return scratch_ / name; }
  static FolderLoaderOptions options(int threads = 1) {
    FolderLoaderOptions options{.batch = 4, .classes = 3, .threads = threads};
    options.augment = {.size = 24, .operations = 2, .erase = 0.5};
    options.mix = {.mixup = 0.8, .cutmix = 1};
    return options;
  }
  std::vector<ImageBatch> batches(const FolderLoaderOptions& options, int count,
                                  DataCursor cursor = {.seed = 3}) const {
    FolderLoader loader(load_image_folders(at("set")).train, options, cursor);
    std::vector<ImageBatch> result(static_cast<size_t>(count));
    for (auto& batch : result) loader.next(batch);
    return result;
  }
  static void expect_same(const std::vector<ImageBatch>& a, const std::vector<ImageBatch>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].pixels, b[i].pixels) << "batch " << i;
      EXPECT_EQ(a[i].labels, b[i].labels);
      EXPECT_EQ(a[i].shares, b[i].shares);
      EXPECT_EQ(a[i].after, b[i].after);
    }
  }
  TemporaryDirectory scratch_;
};

TEST_F(FolderTest, ListsClassesAndFilesInTheOrderOfTheirNames) {
  write(at("set/train/ant/notes.txt"), "x");
  write(at("set/train/ant/.hidden.jpg"), "x");
  const ImageFolders data = load_image_files(at("set"));
  EXPECT_EQ(data.class_names, (std::vector<std::string>{"ant", "bee", "cow"}));
  EXPECT_EQ(data.train.count(), 21);
  EXPECT_EQ(data.validation.count(), 9);
  EXPECT_EQ(data.ignored, 1);
  EXPECT_EQ(class_histogram(data.train, 3), (std::vector<std::int64_t>{7, 7, 7}));
  EXPECT_EQ(data.train.name(0), at("set/train/ant/0.JPEG"));
  EXPECT_EQ(data.train.name(9), at("set/train/bee/2.png"));
  EXPECT_EQ(data.train.label(9), 1);
  std::string buffer;
  EXPECT_EQ(data.train.bytes(9, buffer).size(), fs::file_size(at("set/train/bee/2.png")));
}

TEST_F(FolderTest, WhatIsWrongWithTheFoldersIsNamed) {
  fs::create_directories(at("set/train/dog"));
  expect_data_error([&] { load_image_folders(at("set")); }, {"train/dog", "has no images"});
  fs::remove(at("set/train/dog"));
  fs::create_directories(at("set/val/dog"));
  expect_data_error([&] { load_image_folders(at("set")); }, {"val/dog", "without training images"});
  fs::remove(at("set/val/dog"));
  fs::rename(at("set/val"), at("old"));
  EXPECT_EQ(load_image_folders(at("set")).validation.count(), 0);
  fs::create_directories(at("set/test"));
  EXPECT_EQ(load_image_folders(at("set")).validation.count(), 0) << "without classes";
  fs::rename(at("old"), at("set/test"));
  EXPECT_EQ(load_image_folders(at("set")).validation.count(), 9);
  fs::rename(at("set/test"), at("old"));
  write_bytes(at("set/val/ILSVRC2012_val_00000001.JPEG"), {1});
  expect_data_error([&] { load_image_folders(at("set")); }, {"val", "a folder for each class"});
  expect_data_error([&] { load_image_folders(at("old")); }, {"old", "has no train/<class>/"});
}

TEST_F(FolderTest, TheDigestChangesWithNamesAndSizes) {
  const auto digest = [&] { return load_image_folders(at("set")).train.digest(); };
  const std::string before = digest();
  EXPECT_EQ(digest(), before);
  fs::rename(at("set/train/ant/0.JPEG"), at("set/train/ant/00.JPEG"));
  const std::string renamed = digest();
  EXPECT_NE(renamed, before);
  fs::resize_file(at("set/train/ant/00.JPEG"), 100);
  EXPECT_NE(digest(), renamed);
}

TEST_F(FolderTest, AnyNumberOfThreadsGivesTheSameBatches) {
  const auto one = batches(options(1), 12);
  for (const int threads : {2, 3, 8}) expect_same(batches(options(threads), 12), one);
}

TEST_F(FolderTest, ABatchAfterACursorIsTheOneOfARunThatNeverStopped) {
  const auto all = batches(options(2), 12);
  for (size_t stop = 0; stop + 1 < all.size(); ++stop) {
    const DataCursor cursor = cursor_of(entries_of(all[stop].after));
    expect_same(batches(options(3), 1, cursor), {all[stop + 1]});
  }
  FolderLoader loader(load_image_folders(at("set")).train, options(2), {.seed = 3});
  Prefetcher<FolderLoader, ImageBatch> ahead(std::move(loader));
  ImageBatch batch;
  for (const auto& expected : all) {
    ahead.next(batch);
    expect_same({batch}, {expected});
  }
}

TEST_F(FolderTest, EveryImageIsShownOnceAnEpochAndRepeatedWhereAskedFor) {
  FolderLoaderOptions once{.batch = 7, .classes = 3};
  once.augment.size = 8;
  std::map<std::int64_t, int> seen;
  for (const auto& batch : batches(once, 3)) {
    for (const auto label : batch.labels) ++seen[label];
  }
  EXPECT_EQ(seen, (std::map<std::int64_t, int>{{0, 7}, {1, 7}, {2, 7}}));

  once.repeats = 3;
  once.batch = 21;
  const ImageBatch batch = batches(once, 1)[0];
  const size_t values = 3 * 8 * 8;
  std::set<std::vector<float>> different;
  for (size_t i = 0; i < 21; ++i) {
    EXPECT_EQ(batch.labels[i], batch.labels[i / 3 * 3]);
    const auto* begin = batch.pixels.data() + i * values;
    different.emplace(begin, begin + values);
  }
  EXPECT_EQ(different.size(), 21u) << "each time augmented anew";
}

TEST_F(FolderTest, APieceOfABatchIsThatOfTheWhole) {
  const auto whole = batches(options(), 6);
  for (const auto& [first, end] :
       {std::pair<std::int64_t, std::int64_t>{0, 1}, {1, 2}, {1, 4}, {2, 4}, {0, 0}}) {
    FolderLoader loader(load_image_folders(at("set")).train, options(2), {.seed = 3});
    const std::int64_t values = 3 * 24 * 24;
    for (const auto& expected : whole) {
      ImageBatch piece;
      loader.next(piece, first, end);
      EXPECT_EQ(piece.after, expected.after);
      ASSERT_EQ(piece.count, end - first);
      EXPECT_TRUE(std::equal(piece.pixels.begin(), piece.pixels.end(),
                             expected.pixels.begin() + first * values));
      EXPECT_TRUE(
          std::equal(piece.labels.begin(), piece.labels.end(), expected.labels.begin() + first));
      EXPECT_TRUE(std::equal(piece.shares.begin(), piece.shares.end(),
                             expected.shares.begin() + first * 3));
    }
  }
}

TEST_F(FolderTest, SharesSumToOneAndFollowTheLabels) {
  for (const auto& batch : batches(options(), 20)) {
    ASSERT_EQ(batch.shares.size(), 12u);
    for (size_t i = 0; i < 4; ++i) {
      const float* row = batch.shares.data() + 3 * i;
      EXPECT_NEAR(row[0] + row[1] + row[2], 1, 1e-6);
      for (std::int64_t c = 0; c < 3; ++c) {
        if (c != batch.labels[i] && c != batch.labels[3 - i]) {
          EXPECT_EQ(row[c], 0);
        }
      }
    }
  }
}

TEST_F(FolderTest, ABadImageIsNamedOrPassedOver) {
  fs::resize_file(at("set/train/bee/1.JPEG"), 400);
  write(at("set/train/cow/2.png"), "no image");
  const auto run = [&](const FolderLoaderOptions& chosen) { return batches(chosen, 10); };
  expect_error<ImageError>([&] { run(options(2)); }, {"set/train/", "remove it"});
  auto skipping = options();
  skipping.skipped = std::make_shared<BadImages>();
  const auto one = run(skipping);
  EXPECT_EQ(skipping.skipped->count(), 2);
  EXPECT_NE(skipping.skipped->first_message().find("bee/1.JPEG"), std::string::npos);
  skipping.threads = 4;
  expect_same(run(skipping), one);
  for (const auto& entry : fs::recursive_directory_iterator(at("set/train"))) {
    if (entry.is_regular_file()) fs::resize_file(entry.path(), 3);
  }
  expect_data_error([&] { run(skipping); }, {"none of the 21 training images", "ant/0.JPEG"});
}

TEST_F(FolderTest, PipesAndLinksToNothingAreBadImagesAndNothingWaits) {
  for (const char* name : {"set/train/bee/1.JPEG", "set/train/cow/2.png"}) fs::remove(at(name));
  ASSERT_EQ(mkfifo(at("set/train/bee/1.JPEG").c_str(), 0600), 0);
  const auto run = [&](const FolderLoaderOptions& chosen) { return batches(chosen, 10); };
  expect_error<ImageError>([&] { run(options(2)); }, {"bee/1.JPEG", "not a regular file"});
  fs::create_symlink("2.png", at("set/train/cow/2.png"));  // to itself
  auto skipping = options();
  skipping.skipped = std::make_shared<BadImages>();
  run(skipping);
  EXPECT_EQ(skipping.skipped->count(), 2);
}

TEST_F(FolderTest, EvaluationLeavesOutWhatCannotBeDecoded) {
  auto chosen = options(2);
  const ImageFiles files = load_image_folders(at("set")).validation;
  ImageBatch all, rest;
  ImageWorkers(files, chosen).evaluation({0, 1, 2, 3}, all);
  EXPECT_EQ(all.labels, (std::vector<std::int64_t>{0, 0, 0, 1}));
  EXPECT_TRUE(all.shares.empty());
  fs::resize_file(files.name(1), 200);
  EXPECT_THROW(ImageWorkers(files, chosen).evaluation({0, 1, 2, 3}, rest), ImageError);
  chosen.skipped = std::make_shared<BadImages>();
  ImageWorkers(files, chosen).evaluation({0, 1, 2, 3}, rest);
  EXPECT_EQ(rest.labels, (std::vector<std::int64_t>{0, 0, 1}));
  EXPECT_EQ(rest.count, 3);
  const size_t values = 3 * 24 * 24;
  EXPECT_TRUE(
      std::equal(rest.pixels.begin() + values, rest.pixels.end(), all.pixels.begin() + 2 * values));
}

TEST_F(FolderTest, PackedImagesAreThoseOfTheFolders) {
  const PackResult result = pack_images({.from = at("set"),
                                         .out = at("packed"),
                                         .short_side = 0,
                                         .shard_bytes = 10'000,
                                         .threads = 3});
  EXPECT_EQ(result.train, 21);
  EXPECT_EQ(result.validation, 9);
  EXPECT_TRUE(is_packed_images(at("packed")));
  const ImageFolders folders = load_image_files(at("set")), packed = load_image_files(at("packed"));
  EXPECT_EQ(packed.class_names, folders.class_names);
  EXPECT_TRUE(fs::exists(at("packed/train_000001.images"))) << "several shards";
  std::string a, b;
  for (const auto& [one, other] :
       {std::pair{&folders.train, &packed.train}, {&folders.validation, &packed.validation}}) {
    ASSERT_EQ(one->count(), other->count());
    for (std::int64_t i = 0; i < one->count(); ++i) {
      EXPECT_EQ(one->label(i), other->label(i));
      EXPECT_TRUE(std::ranges::equal(one->bytes(i, a), other->bytes(i, b))) << i;
    }
  }
  check_packed_images(at("packed"));
}

TEST_F(FolderTest, PackingShrinksToTheShortSideWhateverTheThreads) {
  for (const int threads : {1, 4}) {
    pack_images({.from = at("set"),
                 .out = at("p" + std::to_string(threads)),
                 .short_side = 20,
                 .threads = threads});
  }
  for (const char* name : {"images.json", "train.index", "train_000000.images", "val.index"}) {
    EXPECT_EQ(read(at(std::string("p1/") + name)), read(at(std::string("p4/") + name))) << name;
  }
  const ImageFolders packed = load_packed_images(at("p1"));
  std::string buffer;
  for (std::int64_t i = 0; i < packed.train.count(); ++i) {
    const auto header = trainer::images::read_header(packed.train.bytes(i, buffer), "");
    EXPECT_EQ(std::min(header.width, header.height), 20);
  }
}

TEST_F(FolderTest, DamagedPacksAndBadImagesAreNamed) {
  fs::resize_file(at("set/train/bee/1.JPEG"), 300);
  PackOptions options{.from = at("set"), .out = at("packed"), .threads = 2};
  EXPECT_THROW(pack_images(options), ImageError);
  EXPECT_FALSE(fs::exists(at("packed")));
  options.skip_bad = true;
  const PackResult result = pack_images(options);
  EXPECT_EQ(result.skipped, 1);
  EXPECT_EQ(result.train, 20);
  expect_data_error([&] { pack_images(options); }, {"packed", "not an empty directory"});

  std::string shard = read(at("packed/train_000000.images"));
  shard[shard.size() / 2] = static_cast<char>(shard[shard.size() / 2] ^ 1);
  write(at("packed/train_000000.images"), shard);
  load_packed_images(at("packed"));
  expect_data_error([&] { check_packed_images(at("packed")); },
                    {"train_000000.images", "checksum"});
  fs::resize_file(at("packed/train_000000.images"), 99);
  expect_data_error([&] { load_packed_images(at("packed")); },
                    {"has 99 bytes", "images.json says"});
  std::string index = read(at("packed/val.index"));
  index[0] = 9;
  write(at("packed/val.index"), index);
  write(at("packed/train_000000.images"), shard);
  expect_data_error([&] { load_packed_images(at("packed")); }, {"val.index", "checksum"});
  for (const char* text :
       {"", "[]", "{}", "{\"format\": \"normball images 1\", \"classes\": []}"}) {
    expect_data_error([&] { parse_packed_description(text, "images.json"); }, {"images.json"});
  }
}

TEST(PackedDescriptionTest, ReadsBackWhatItWrites) {
  const PackedDescription description{
      .classes = {"a", "b \"c\""},
      .train = {{"train.index", 48, 7}, {{"train_000000.images", 5, 0xffffffffu}}},
      .validation = {{"val.index", 24, 1}, {{"val_000000.images", 9, 2}}}};
  EXPECT_EQ(parse_packed_description(to_json(description), "images.json"), description);
}

}  // namespace
}  // namespace normball::testing
