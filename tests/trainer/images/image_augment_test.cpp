// The random parts of augmentation: what they may be, and how often they are it.
#include <array>
#include <cmath>
#include <map>

#include "testing.h"
#include "tests/trainer/data/image_samples.h"
#include "trainer/images/augment.h"

namespace normball::testing {
namespace {

using namespace trainer::images;

// Of n tosses with probability p: within five standard deviations.
void expect_share(double found, double p, int n) {
  EXPECT_NEAR(found / n, p, 5 * std::sqrt(p * (1 - p) / n));
}

// A statistic of equally likely cells; for 100 of them it exceeds 161 once in 10,000.
double chi_squared(const std::vector<int>& counts) {
  double all = 0, sum = 0;
  for (const int count : counts) all += count;
  const double mean = all / static_cast<double>(counts.size());
  for (const int count : counts) sum += (count - mean) * (count - mean) / mean;
  return sum;
}

TEST(RandomPartTest, AreasAndRatiosAreUniformWhereTheyFit) {
  constexpr int n = 20000;
  // In a large square all ratios fit up to an area of 3/4.
  const AugmentOptions options{.area_max = 0.7};
  Random random(1);
  std::vector<int> areas(100), ratios(100), lefts(10);
  for (int i = 0; i < n; ++i) {
    const Region part = random_part(options, 4000, 4000, random);
    const double area = static_cast<double>(part.width) * part.height / (4000.0 * 4000);
    const double ratio = std::log(static_cast<double>(part.width) / part.height);
    const double reach = std::log(4.0 / 3);
    const auto cell = [](double share) {
      return static_cast<size_t>(std::clamp(100 * share, 0.0, 99.0));
    };
    ++areas[cell((area - 0.08) / (0.7 - 0.08))];
    ++ratios[cell((ratio + reach) / (2 * reach))];
    ++lefts[static_cast<size_t>(10.0 * part.left / (4000 - part.width + 1))];
  }
  EXPECT_LT(chi_squared(areas), 161);
  EXPECT_LT(chi_squared(ratios), 161);
  EXPECT_LT(chi_squared(lefts), 33.7);
}

TEST(RandomPartTest, IsInsideOfEveryPicture) {
  Random random(2);
  for (const auto& [width, height] : {std::pair{500, 375}, {1, 1}, {1, 900}, {3000, 2}, {7, 5}}) {
    for (int i = 0; i < 300; ++i) {
      const Region part = random_part({}, width, height, random);
      EXPECT_GE(part.width, 1);
      EXPECT_GE(part.height, 1);
      EXPECT_GE(part.left, 0);
      EXPECT_GE(part.top, 0);
      EXPECT_LE(part.left + part.width, width);
      EXPECT_LE(part.top + part.height, height);
    }
  }
  // Where nothing fits, the middle.
  EXPECT_EQ(random_part({.area_min = 1}, 900, 300, random), (Region{250, 0, 400, 300}));
}

TEST(RandomOperationTest, AllAreEquallyLikelyAndDoneHalfOfTheTime) {
  constexpr int n = 30000;
  const AugmentOptions options{.operations = 2};
  Random random(3);
  std::vector<int> drawn(operation_count);
  std::map<Operation, std::vector<double>> amounts;
  int done = 0;
  for (int i = 0; i < n; ++i) {
    Step step{};
    const bool now = random_operation(options, random, step);
    ++drawn[static_cast<size_t>(step.operation)];
    if (!now) continue;
    ++done;
    amounts[step.operation].push_back(step.amount);
  }
  EXPECT_LT(chi_squared(drawn), 44) << "14 degrees of freedom, once in 10,000";
  expect_share(done, 0.5, n);
  // Levels are normal around 9 with deviation 0.5, cut at 10; directions are equally likely.
  const auto& angles = amounts[Operation::Rotate];
  double sum = 0;
  int positive = 0, strongest = 0;
  for (const double angle : angles) {
    sum += std::abs(angle) / 3;
    positive += angle > 0 ? 1 : 0;
    strongest += std::abs(angle) == 30 ? 1 : 0;
  }
  const auto count = static_cast<int>(angles.size());
  EXPECT_NEAR(sum / count, 9 - 0.5 * 0.0085, 5 * 0.5 / std::sqrt(count));
  expect_share(positive, 0.5, count);
  expect_share(strongest, 0.02275, count);
  // One bit from level 7.5 on, none at 10.
  int one = 0, none = 0;
  for (const double bits : amounts[Operation::Posterize]) {
    one += bits == 1 ? 1 : 0;
    none += bits == 0 ? 1 : 0;
  }
  const auto posterized = static_cast<int>(amounts[Operation::Posterize].size());
  expect_share(none, 0.02275, posterized);
  expect_share(one, 1 - 0.02275 - 0.00135, posterized);
}

TEST(AmountTest, IsTimmsAtEveryLevel) {
  const auto at = [](Operation operation, double level, bool negative = false) {
    return amount_at(operation, level, negative, 224);
  };
  EXPECT_DOUBLE_EQ(at(Operation::Rotate, 9), 27);
  EXPECT_DOUBLE_EQ(at(Operation::Rotate, 10, true), -30);
  EXPECT_EQ(at(Operation::Posterize, 0), 4);
  EXPECT_EQ(at(Operation::Posterize, 9), 1);
  EXPECT_EQ(at(Operation::Posterize, 10), 0);
  EXPECT_EQ(at(Operation::Solarize, 0), 256);
  EXPECT_EQ(at(Operation::Solarize, 9), 26);
  EXPECT_EQ(at(Operation::Solarize, 10), 0);
  EXPECT_EQ(at(Operation::SolarizeAdd, 9), 99);
  EXPECT_EQ(at(Operation::SolarizeAdd, 10), 110);
  EXPECT_DOUBLE_EQ(at(Operation::Color, 9), 1.81);
  EXPECT_DOUBLE_EQ(at(Operation::Contrast, 9, true), 0.19);
  EXPECT_DOUBLE_EQ(at(Operation::Sharpness, 10, true), 0.1);
  EXPECT_DOUBLE_EQ(at(Operation::ShearX, 9, true), -0.27);
  EXPECT_DOUBLE_EQ(at(Operation::TranslateY, 10), 0.45 * 224);
}

TEST(RandomRectangleTest, HasItsShareAreaAndRatio) {
  constexpr int n = 40000;
  const AugmentOptions options{.erase = 0.25};
  Random random(4);
  int erased = 0;
  double area = 0, ratio = 0;
  for (int i = 0; i < n; ++i) {
    Region hole;
    if (!random_rectangle(options, random, hole)) continue;
    ++erased;
    EXPECT_LT(hole.width, 224);
    EXPECT_LE(hole.left + hole.width, 224);
    EXPECT_LE(hole.top + hole.height, 224);
    const double share = hole.width * hole.height / (224.0 * 224);
    EXPECT_GT(share, 0.018);
    EXPECT_LT(share, 0.345);
    area += share;
    ratio += std::log(static_cast<double>(hole.height) / hole.width);
  }
  expect_share(erased, 0.25, n);
  // Uniform in [0.02, 1/3], but large and narrow ones do not fit and are drawn again.
  EXPECT_GT(area / erased, 0.165);
  EXPECT_LT(area / erased, 0.5 * (0.02 + 1.0 / 3));
  EXPECT_NEAR(ratio / erased, 0, 5 * 0.7 / std::sqrt(erased));
}

class AugmenterTest : public ::testing::Test {
 protected:
  std::vector<std::uint8_t> file_ = encode_png(sample_picture(300, 200, 9));
  std::vector<float> out_ = std::vector<float>(3 * 64 * 64);
};

TEST_F(AugmenterTest, ErasedPixelsAreNormalNoise) {
  // Of one colour, so that what differs has been erased.
  Image plain;
  plain.reshape(64, 64);
  const auto file = encode_png(plain);
  Augmenter augmenter({.size = 64, .erase = 1});
  double sum = 0, squares = 0;
  int count = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    augmenter.training(file, "x", Random(seed), out_.data());
    for (size_t i = 0; i < out_.size(); ++i) {
      const size_t c = i / (64 * 64);
      if (std::abs(out_[i] + image_mean[c] / image_std[c]) < 1e-6) continue;
      sum += out_[i];
      squares += out_[i] * out_[i];
      ++count;
    }
  }
  EXPECT_GT(count, 50000);
  EXPECT_NEAR(sum / count, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1, 5 * std::sqrt(2.0 / count));
}

TEST_F(AugmenterTest, TheSameRandomnessGivesTheSamePixelsWhateverCameBefore) {
  const AugmentOptions options{.size = 64, .operations = 3, .erase = 0.5};
  Augmenter used(options);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    std::vector<float> fresh(out_.size());
    used.training(file_, "x", Random(seed), out_.data());
    Augmenter(options).training(file_, "x", Random(seed), fresh.data());
    EXPECT_EQ(out_, fresh) << seed;
  }
}

TEST_F(AugmenterTest, HalfAreMirroredAndNothingElseIsWithoutOperations) {
  const AugmentOptions options{.size = 64, .area_min = 1, .ratio_min = 1.5, .ratio_max = 1.5};
  Augmenter augmenter(options);
  augmenter.training(file_, "x", Random(0), out_.data());
  const auto first = out_;
  auto mirrored = first;
  for (size_t row = 0; row < 3 * 64; ++row)
    std::reverse(mirrored.begin() + static_cast<int>(row) * 64,
                 mirrored.begin() + static_cast<int>(row + 1) * 64);
  int same = 0;
  constexpr int n = 400;
  for (std::uint64_t seed = 0; seed < n; ++seed) {
    augmenter.training(file_, "x", Random(seed), out_.data());
    EXPECT_TRUE(out_ == first || out_ == mirrored);
    same += out_ == first ? 1 : 0;
  }
  expect_share(same, 0.5, n);
}

TEST_F(AugmenterTest, EvaluationIsNormalizedAndNeverRandom) {
  Augmenter augmenter({.size = 64, .operations = 2, .erase = 1, .middle = 1});
  Image image;
  image.reshape(64, 64);
  for (size_t i = 0; i < image.pixels.size(); i += 4) {
    image.pixels[i] = static_cast<std::uint8_t>(i / 4 % 256);
    image.pixels[i + 1] = 116;
    image.pixels[i + 2] = 0;
  }
  augmenter.evaluation(encode_png(image), "x", out_.data());
  for (size_t i = 0; i < 64 * 64; ++i) {
    EXPECT_NEAR(out_[i], (static_cast<double>(i % 256) / 255 - 0.485) / 0.229, 1e-5);
    EXPECT_NEAR(out_[64 * 64 + i], (116.0 / 255 - 0.456) / 0.224, 1e-5);
    EXPECT_NEAR(out_[2 * 64 * 64 + i], -0.406 / 0.225, 1e-5);
  }
}

}  // namespace
}  // namespace normball::testing
