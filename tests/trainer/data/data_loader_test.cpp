// Cursors, orders, and batches of images and tokens.
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "testing.h"
#include "tests/trainer/data/data_samples.h"
#include "trainer/data/cursor.h"
#include "trainer/data/image_loader.h"
#include "trainer/data/prefetcher.h"
#include "trainer/data/token_loader.h"

namespace normball::testing {
namespace {

using namespace trainer::data;

TEST(CursorTest, GoesThroughACheckpointUnchanged) {
  const DataCursor cursor{0xfedcba9876543210u, 12, 345, 678};
  auto entries = entries_of(cursor);
  entries["another's"] = -5;
  EXPECT_EQ(cursor_of(entries), cursor);
}

TEST(CursorTest, WrongEntriesAreRefused) {
  const auto with = [](const char* name, std::int64_t value) {
    auto entries = entries_of({1, 2, 3, 4});
    entries[name] = value;
    return [entries] { cursor_of(entries); };
  };
  expect_invalid(with("epoch", -1), {"'epoch'", "-1"});
  expect_invalid(with("position", 5), {"5, beyond the 4"});
  expect_invalid(with("items", -4), {"'items'"});
  for (const char* name : {"seed", "epoch", "position", "items"}) {
    auto missing = entries_of({1, 2, 3, 4});
    missing.erase(name);
    expect_invalid([&] { cursor_of(missing); }, {name});
  }
}

TEST(CursorTest, OrdersArePermutationsThatDiffer) {
  std::set<std::vector<std::uint32_t>> orders;
  for (const std::uint64_t seed : {0, 1, 2}) {
    for (int epoch = 0; epoch < 4; ++epoch) {
      auto order = shuffled_order(seed, epoch, 1000);
      EXPECT_EQ(order, shuffled_order(seed, epoch, 1000));
      orders.insert(order);
      std::ranges::sort(order);
      for (std::uint32_t i = 0; i < 1000; ++i) ASSERT_EQ(order[i], i);
    }
  }
  EXPECT_EQ(orders.size(), 12u);
  EXPECT_TRUE(shuffled_order(1, 0, 0).empty());
}

TEST(CursorTest, EveryOrderOfFourIsAsLikely) {
  std::map<std::vector<std::uint32_t>, int> counts;
  constexpr int rounds = 24'000;
  for (int seed = 0; seed < rounds; ++seed) {
    ++counts[shuffled_order(static_cast<std::uint64_t>(seed), seed % 7, 4)];
  }
  ASSERT_EQ(counts.size(), 24u);
  double chi2 = 0;
  for (const auto& [order, n] : counts) chi2 += (n - 1000.0) * (n - 1000.0) / 1000;
  EXPECT_LT(chi2, 60);  // 23 degrees of freedom: beyond this with probability 4e-5
}

ImageSet images_of(std::int64_t count, std::int64_t channels, std::int64_t height,
                   std::int64_t width) {
  Random random(17);
  ByteVector pixels(static_cast<size_t>(count * channels * height * width));
  for (auto& p : pixels) p = static_cast<std::uint8_t>(random.below(256));
  ByteVector labels(static_cast<size_t>(count));
  std::iota(labels.begin(), labels.end(), std::uint8_t{0});  // a label names its image
  return {count, channels, height, width, bytes_of(pixels), bytes_of(labels)};
}

// Values 0 to 255 as they are, so that a test can compare bytes.
ChannelStatistics as_bytes(std::int64_t channels) {
  const auto n = static_cast<size_t>(channels);
  return {std::vector<float>(n, 0), std::vector<float>(n, 1.0f / 255)};
}

std::vector<int> pixels_of(const ImageBatch& batch, std::int64_t i) {
  const std::int64_t size = batch.channels * batch.height * batch.width;
  std::vector<int> pixels;
  for (std::int64_t j = 0; j < size; ++j) {
    pixels.push_back(
        static_cast<int>(std::lround(batch.pixels[static_cast<size_t>(i * size + j)])));
  }
  return pixels;
}

// Flip the image, pad it by reflection, crop at (down, right): the way airbench does it.
std::vector<int> augmented(const ImageSet& images, std::int64_t image, bool flip, int pad, int down,
                           int right) {
  const auto h = static_cast<int>(images.height), w = static_cast<int>(images.width);
  std::vector<int> out;
  for (int c = 0; c < static_cast<int>(images.channels); ++c) {
    std::vector<std::vector<int>> padded(static_cast<size_t>(h + 2 * pad));
    for (int y = -pad; y < h + pad; ++y) {
      for (int x = -pad; x < w + pad; ++x) {
        const int row = y < 0 ? -y : y >= h ? 2 * h - 2 - y : y;
        const int col = x < 0 ? -x : x >= w ? 2 * w - 2 - x : x;
        const int from = flip ? w - 1 - col : col;
        padded[static_cast<size_t>(y + pad)].push_back(
            images.image(image)[static_cast<size_t>((c * h + row) * w + from)]);
      }
    }
    for (int y = 0; y < h; ++y) {
      for (int x = 0; x < w; ++x) {
        out.push_back(padded[static_cast<size_t>(y + down)][static_cast<size_t>(x + right)]);
      }
    }
  }
  return out;
}

TEST(ImageLoaderTest, AnEpochShowsEveryImageOnce) {
  const ImageSet images = images_of(50, 1, 4, 4);
  for (const std::int64_t batch_size : {12, 10}) {
    ImageLoader loader(images,
                       {.batch = batch_size, .augmentation = {}, .normalization = as_bytes(1)},
                       {.seed = 3});
    EXPECT_EQ(loader.batches_per_epoch(), batch_size == 12 ? 4 : 5);
    std::vector<std::vector<std::int64_t>> epochs;
    for (int epoch = 0; epoch < 3; ++epoch) {
      std::vector<std::int64_t> seen;
      ImageBatch batch;
      for (int b = 0; b < loader.batches_per_epoch(); ++b) {
        loader.next(batch);
        EXPECT_EQ(batch.after.epoch, epoch);
        for (std::int64_t i = 0; i < batch.count; ++i) {
          const auto image = batch.labels[static_cast<size_t>(i)];
          seen.push_back(image);
          EXPECT_EQ(pixels_of(batch, i), augmented(images, image, false, 0, 0, 0));
        }
      }
      EXPECT_EQ(seen.size(), batch_size == 12 ? 48u : 50u);
      EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), seen.size());
      epochs.push_back(seen);
    }
    EXPECT_NE(epochs[0], epochs[1]);
  }
}

TEST(ImageLoaderTest, AugmentationIsFlipThenReflectedTranslation) {
  const ImageSet images = images_of(20, 3, 5, 6);
  ImageLoader loader(
      images,
      {.batch = 20, .augmentation = {.flip = true, .translate = 2}, .normalization = as_bytes(3)},
      {.seed = 5});
  using Variant = std::tuple<bool, int, int>;
  std::vector<std::map<std::vector<int>, Variant>> variants(20);  // of each image, by its pixels
  for (std::int64_t image = 0; image < 20; ++image) {
    for (const bool flip : {false, true}) {
      for (int down = 0; down <= 4; ++down) {
        for (int right = 0; right <= 4; ++right) {
          variants[static_cast<size_t>(image)].emplace(
              augmented(images, image, flip, 2, down, right), Variant(flip, down, right));
        }
      }
    }
    ASSERT_EQ(variants[static_cast<size_t>(image)].size(), 50u);
  }
  std::map<Variant, int> counts;
  ImageBatch batch;
  for (int epoch = 0; epoch < 200; ++epoch) {
    loader.next(batch);
    for (std::int64_t i = 0; i < batch.count; ++i) {
      const auto& known = variants[static_cast<size_t>(batch.labels[static_cast<size_t>(i)])];
      const auto found = known.find(pixels_of(batch, i));
      ASSERT_NE(found, known.end());
      ++counts[found->second];
    }
  }
  ASSERT_EQ(counts.size(), 50u);  // all of them, each 80 times on average
  double chi2 = 0;
  for (const auto& [key, n] : counts) chi2 += (n - 80.0) * (n - 80.0) / 80;
  EXPECT_LT(chi2, 95);  // 49 degrees of freedom: beyond this with probability 1e-4
}

TEST(ImageLoaderTest, AlternatingFlipShowsBothSidesInEveryTwoEpochs) {
  const ImageSet images = images_of(200, 1, 4, 4);
  ImageLoader loader(images,
                     {.batch = 200, .augmentation = {.flip = true}, .normalization = as_bytes(1)},
                     {.seed = 6});
  std::vector<std::vector<bool>> flipped;
  ImageBatch batch;
  for (int epoch = 0; epoch < 4; ++epoch) {
    loader.next(batch);
    std::vector<bool> flips(200);
    for (std::int64_t i = 0; i < 200; ++i) {
      const auto image = batch.labels[static_cast<size_t>(i)];
      flips[static_cast<size_t>(image)] =
          pixels_of(batch, i) == augmented(images, image, true, 0, 0, 0);
      EXPECT_EQ(pixels_of(batch, i),
                augmented(images, image, flips[static_cast<size_t>(image)], 0, 0, 0));
    }
    flipped.push_back(flips);
  }
  const auto first = std::ranges::count(flipped[0], true);
  EXPECT_GT(first, 60);
  EXPECT_LT(first, 140);
  for (size_t i = 0; i < 200; ++i) EXPECT_NE(flipped[0][i], flipped[1][i]);
  EXPECT_EQ(flipped[0], flipped[2]);
  EXPECT_EQ(flipped[1], flipped[3]);
}

TEST(ImageLoaderTest, ResumesBitExactlyAtEveryBatch) {
  const ImageSet images = images_of(23, 2, 4, 5);
  for (const std::int64_t batch_size : {5, 23}) {
    const ImageLoaderOptions options{.batch = batch_size,
                                     .augmentation = {.flip = true, .translate = 2},
                                     .normalization = {{0.4f, 0.5f}, {0.2f, 0.3f}}};
    ImageLoader whole(images, options, {.seed = 9});
    std::vector<ImageBatch> batches(14);
    for (auto& batch : batches) whole.next(batch);
    for (size_t stop = 0; stop + 1 < batches.size(); ++stop) {
      ImageLoader resumed(images, options, cursor_of(entries_of(batches[stop].after)));
      for (size_t b = stop + 1; b < batches.size(); ++b) {
        ImageBatch batch;
        resumed.next(batch);
        EXPECT_EQ(batch.pixels, batches[b].pixels);
        EXPECT_EQ(batch.labels, batches[b].labels);
        EXPECT_EQ(batch.after, batches[b].after);
      }
    }
  }
}

TEST(ImageLoaderTest, EvaluationIsInOrderAndNormalized) {
  const ImageSet images = images_of(10, 2, 3, 3);
  const ChannelStatistics statistics{{0.25f, 0.5f}, {0.5f, 2}};
  const PixelTable table(images, statistics);
  ImageBatch batch;
  image_range(images, table, 4, 3, batch);
  ASSERT_EQ(batch.count, 3);
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(batch.labels[static_cast<size_t>(i)], 4 + i);
    for (std::int64_t j = 0; j < 18; ++j) {
      const auto c = static_cast<size_t>(j / 9);
      const double value = images.image(4 + i)[static_cast<size_t>(j)] / 255.0;
      EXPECT_NEAR(batch.pixels[static_cast<size_t>(i * 18 + j)],
                  (value - statistics.mean[c]) / statistics.std[c], 1e-6);
    }
  }
  expect_invalid([&] { image_range(images, table, 8, 3, batch); }, {"8 to 11 of 10"});
}

TEST(ImageLoaderTest, WrongOptionsAreRefused) {
  const ImageSet images = images_of(10, 1, 4, 6);
  const auto with = [&](ImageLoaderOptions options, DataCursor cursor = {}) {
    return [=] { ImageLoader(images, options, cursor); };
  };
  const auto one = as_bytes(1);
  expect_invalid(with({.batch = 0, .augmentation = {}, .normalization = one}), {"batch", "0"});
  expect_invalid(with({.batch = 11, .augmentation = {}, .normalization = one}),
                 {"11", "10 images"});
  expect_invalid(with({.batch = 2, .augmentation = {.translate = 4}, .normalization = one}),
                 {"0 to 3"});
  expect_invalid(with({.batch = 2, .augmentation = {}, .normalization = as_bytes(3)}),
                 {"1 channels"});
  expect_invalid(with({.batch = 2, .augmentation = {}, .normalization = {{0}, {0}}}), {"std"});
  expect_invalid(with({.batch = 2, .augmentation = {}, .normalization = one}, {1, 0, 3, 11}),
                 {"11 items", "this data has 10"});
}

// Tokens that name their place, over two pieces.
TokenData tokens_of(int count) {
  std::vector<Token> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), Token{0});
  TokenData data;
  const auto middle = tokens.begin() + count / 3;
  data.append(trainer::files::Bytes::own(std::vector<Token>(tokens.begin(), middle)),
              TokenData::Width::Two);
  data.append(trainer::files::Bytes::own(std::vector<Token>(middle, tokens.end())),
              TokenData::Width::Two);
  return data;
}

TEST(TokenLoaderTest, AnEpochShowsEveryWindowOnceFromARandomOffset) {
  const TokenData data = tokens_of(1003);
  TokenLoader loader(data, {.batch = 1, .length = 10}, {.seed = 1});
  EXPECT_EQ(loader.windows_per_epoch(), 99);
  std::set<std::int64_t> offsets;
  TokenBatch batch;
  for (int epoch = 0; epoch < 60; ++epoch) {
    std::set<std::int64_t> starts;
    for (int w = 0; w < 99; ++w) {
      loader.next(batch);
      for (size_t i = 0; i < 10; ++i) {
        EXPECT_EQ(batch.inputs[i], batch.inputs[0] + static_cast<std::int64_t>(i));
        EXPECT_EQ(batch.targets[i], batch.inputs[i] + 1);
      }
      starts.insert(batch.inputs[0]);
    }
    ASSERT_EQ(starts.size(), 99u);
    for (const auto start : starts) EXPECT_EQ(start % 10, *starts.begin() % 10);
    offsets.insert(*starts.begin());
    EXPECT_LT(*starts.begin(), 10);
    EXPECT_EQ(*starts.rbegin(), *starts.begin() + 980);
  }
  EXPECT_EQ(offsets.size(), 10u);  // each of ten offsets in 60 epochs, but with probability 2 %
}

TEST(TokenLoaderTest, ResumesBitExactlyAtEveryBatch) {
  const TokenData data = tokens_of(200);
  const TokenLoaderOptions options{.batch = 4, .length = 9};
  TokenLoader whole(data, options, {.seed = 77});
  std::vector<TokenBatch> batches(15);
  for (auto& batch : batches) whole.next(batch);
  EXPECT_GE(batches.back().after.epoch, 2);
  for (size_t stop = 0; stop + 1 < batches.size(); ++stop) {
    TokenLoader resumed(data, options, cursor_of(entries_of(batches[stop].after)));
    for (size_t b = stop + 1; b < batches.size(); ++b) {
      TokenBatch batch;
      resumed.next(batch);
      EXPECT_EQ(batch.inputs, batches[b].inputs);
      EXPECT_EQ(batch.targets, batches[b].targets);
      EXPECT_EQ(batch.after, batches[b].after);
    }
  }
}

TEST(TokenLoaderTest, TheSmallestDataHasOneWindow) {
  for (const int size : {6, 7, 9, 10, 11, 14, 15, 16}) {
    TokenLoader loader(tokens_of(size), {.batch = 3, .length = 5}, {.seed = 2});
    TokenBatch batch;
    for (int b = 0; b < 20; ++b) loader.next(batch);  // no read outside
    EXPECT_EQ(loader.windows_per_epoch(), std::max(1, size / 5 - 1));
  }
  const auto with = [](int size, TokenLoaderOptions options, DataCursor cursor = {}) {
    return [=] { TokenLoader(tokens_of(size), options, cursor); };
  };
  expect_invalid(with(5, {.batch = 1, .length = 5}), {"window of 5", "5 tokens there are"});
  expect_invalid(with(9, {.batch = 0, .length = 5}), {"batch"});
  expect_invalid(with(9, {.batch = 1, .length = 0}), {"length"});
  expect_invalid(with(100, {.batch = 1, .length = 5}, {0, 0, 3, 20}),
                 {"20 items", "this data has 19"});
  expect_invalid(with(100, {.batch = 1, .length = 5}, {0, 0, 20, 19}), {"position 20", "19 items"});
  expect_invalid(with(100, {.batch = 1, .length = 5}, {0, -1, 0, 19}), {"epoch -1"});
}

TEST(TokenEvaluationTest, TakesAllWindowsOrSpreadsThemEvenly) {
  const TokenData data = tokens_of(101);
  const TokenEvaluation all(data, 4, 10, 1000);
  EXPECT_EQ(all.windows(), 10);
  EXPECT_EQ(all.batches(), 3);
  TokenBatch batch;
  std::vector<std::int64_t> starts;
  for (std::int64_t b = 0; b < all.batches(); ++b) {
    all.fill(b, batch);
    EXPECT_EQ(batch.rows, b < 2 ? 4 : 2);
    for (std::int64_t r = 0; r < batch.rows; ++r) {
      starts.push_back(batch.inputs[static_cast<size_t>(r * 10)]);
      EXPECT_EQ(batch.targets[static_cast<size_t>(r * 10 + 9)], starts.back() + 10);
    }
  }
  EXPECT_EQ(starts, (std::vector<std::int64_t>{0, 10, 20, 30, 40, 50, 60, 70, 80, 90}));

  const TokenEvaluation some(data, 8, 10, 4);
  some.fill(0, batch);
  EXPECT_EQ(batch.rows, 4);
  EXPECT_EQ(batch.inputs[0], 0);
  EXPECT_EQ(batch.inputs[10], 20);
  EXPECT_EQ(batch.inputs[20], 50);
  EXPECT_EQ(batch.inputs[30], 70);
  expect_invalid([&] { some.fill(1, batch); }, {"batch 1 of 1"});
  expect_invalid([&] { TokenEvaluation(data, 8, 10, 0); }, {"max_windows"});
}

TEST(PrefetcherTest, DeliversTheLoadersBatchesInOrder) {
  const TokenData data = tokens_of(500);
  const TokenLoaderOptions options{.batch = 3, .length = 9};
  for (const size_t ahead : {1, 2, 5}) {
    TokenLoader loader(data, options, {.seed = 4});
    Prefetcher<TokenLoader, TokenBatch> prefetcher(TokenLoader(data, options, {.seed = 4}), ahead);
    TokenBatch expected, got;
    for (int b = 0; b < 100; ++b) {
      loader.next(expected);
      prefetcher.next(got);
      EXPECT_EQ(got.inputs, expected.inputs);
      EXPECT_EQ(got.targets, expected.targets);
      EXPECT_EQ(got.after, expected.after);
    }
  }
}

TEST(PrefetcherTest, PassesOnWhatTheLoaderThrowsAfterTheBatchesBeforeIt) {
  struct Counter {
    int count = 0;
    void next(int& batch) {
      if (++count == 4) throw std::runtime_error("[Counter] the end");
      batch = count;
    }
  };
  Prefetcher<Counter, int> prefetcher(Counter{}, 2);
  int batch = 0;
  for (int i = 1; i <= 3; ++i) {
    prefetcher.next(batch);
    EXPECT_EQ(batch, i);
  }
  for (int again = 0; again < 2; ++again) {
    expect_error<std::runtime_error>([&] { prefetcher.next(batch); }, {"[Counter] the end"});
  }
}

TEST(PrefetcherTest, StopsWithoutBeingAsked) {
  const TokenData data = tokens_of(500);
  for (int i = 0; i < 50; ++i) {
    const Prefetcher<TokenLoader, TokenBatch> unused(
        TokenLoader(data, {.batch = 3, .length = 9}, {.seed = 4}), 2);
  }
}

}  // namespace
}  // namespace normball::testing
