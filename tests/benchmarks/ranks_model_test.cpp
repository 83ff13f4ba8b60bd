// The forecast of steps on many ranks, where a formula gives it as well.
#include "benchmarks/ranks_model.h"

#include <cmath>

#include "benchmarks/lmo_times.h"
#include "benchmarks/parameter_sets.h"
#include "testing.h"

namespace normball::benchmarks {
namespace {

constexpr double bytes = 64 * 64 * sizeof(float);
const Link link{.bytes_per_second = 1e6, .latency = 1e-3};
constexpr double transfer = bytes / 1e6;  // 16.4 ms

RanksWork matrices(size_t count, double lmo) {
  RanksWork work;
  for (size_t l = 0; l < count; ++l) {
    work.layers.push_back(
        {.name = std::to_string(l), .shape = {.rows = 64, .cols = 64}, .norm = Spectral{}});
  }
  work.lmo_seconds.assign(count, lmo);
  return work;
}

TEST(RanksModel, OneRankSendsNothingAndDoesAll) {
  auto work = matrices(5, 0.25);
  work.passes_seconds = 3;
  work.copy_bytes = 1e6;
  work.layers.push_back({.name = "sign", .shape = {.rows = 64, .cols = 64}, .norm = Sign{}});
  work.lmo_seconds.push_back(100);  // has no owner: its time does not count
  const auto result = forecast(work, link, 1);
  EXPECT_DOUBLE_EQ(result.memory, 6 * 7 * transfer);
  EXPECT_DOUBLE_EQ(result.seconds, 3 + 5 * 0.25 + result.memory);
  EXPECT_EQ(result.exposed(), 0);
  EXPECT_EQ(result.sent_bytes, 0);
}

TEST(RanksModel, OneMatrixGoesDownTheTree) {
  for (const auto& [ranks, rounds] : {std::pair{2, 1}, {4, 2}, {8, 3}, {1024, 10}}) {
    const auto result = forecast(matrices(1, 0.5), link, ranks);
    EXPECT_NEAR(result.exposed_directions, rounds * (transfer + link.latency), 1e-12) << ranks;
    const double direct = (ranks - 1) * transfer + link.latency;  // to the owner, one by one
    const double around = 2 * (ranks - 1) * (link.latency + transfer / ranks);
    EXPECT_NEAR(result.exposed_gradients, ranks <= most_direct_processes ? direct : around, 1e-12);
    EXPECT_NEAR(result.messages, 5 * (ranks - 1) * link.latency, 1e-12);
    EXPECT_DOUBLE_EQ(result.longest_lmos, 0.5);
    EXPECT_DOUBLE_EQ(result.balance(), 1.0 / ranks);
    EXPECT_NEAR(result.seconds, 0.5 + result.exposed(), 1e-12);
  }
}

TEST(RanksModel, DirectionsAreHiddenBehindLongerLmos) {
  const auto result = forecast(matrices(12, 10 * transfer), link, 2);
  EXPECT_DOUBLE_EQ(result.longest_lmos, 6 * 10 * transfer);
  EXPECT_NEAR(result.exposed_directions, transfer + link.latency, 1e-12);  // of the last pair
}

TEST(RanksModel, ALinkThatIsTooSlowDecides) {
  // Each of two sends its six, one after another; the LMOs take no time.
  const auto result = forecast(matrices(12, 0), link, 2);
  EXPECT_NEAR(result.exposed_directions, 6 * transfer + link.latency, 1e-12);
}

TEST(RanksModel, SumsAreHiddenBehindTheBackwardPass) {
  auto work = matrices(10, 0);
  work.passes_seconds = 1000;
  const double own = link.latency + transfer;
  EXPECT_NEAR(forecast(work, link, 2).exposed_gradients, own, 1e-9);  // of the last found
  work.passes_seconds = 0;                                            // five each way, at once
  EXPECT_NEAR(forecast(work, link, 2).exposed_gradients, 5 * transfer + link.latency, 1e-9);
  for (auto& layer : work.layers) layer.norm = Rms{};  // that all need
  const double twice = 2 * link.latency + transfer;
  EXPECT_NEAR(forecast(work, link, 2).exposed_gradients, 10 * twice, 1e-9);
}

TEST(RanksModel, DividedRowsGoAroundOnceAndTheirSignsAfterAll) {
  RanksWork work;
  work.layers = {{.name = "sign", .shape = {.rows = 4000, .cols = 64}, .norm = Sign{}}};
  work.lmo_seconds = {0};
  const double whole = 4000 * 64 * sizeof(float) / link.bytes_per_second;
  for (const int ranks : {2, 64}) {
    const auto result = forecast(work, link, ranks);
    const double share = (ranks - 1.0) / ranks;
    EXPECT_NEAR(result.exposed_gradients, share * whole + (ranks - 1) * link.latency, 1e-9);
    EXPECT_NEAR(result.exposed_directions, share * whole / 16, 1e-9);
  }
}

TEST(RanksModel, BytesAreThoseOfTheTable) {
  for (const auto& set : shape_sets()) {
    double matrix = 0, other = 0;
    for (const auto& layer : set.layers) {
      const auto size = static_cast<double>(layer.shape.size()) * sizeof(float);
      (std::holds_alternative<Spectral>(layer.norm) ? matrix : other) += size;
    }
    RanksWork work{.layers = set.layers};
    work.lmo_seconds.resize(set.layers.size());
    for (const int ranks : {2, 3, 12, 64}) {
      const double share = (ranks - 1.0) / ranks;
      const double more =
          ranks > most_direct_processes ? matrix / ranks : 0;  // a ring's sum to its owner
      const double table = share * (2 * matrix + more + (1 + 1.0 / 16) * other);
      EXPECT_NEAR(forecast(work, link, ranks).sent_bytes / table, 1, 1e-12) << set.name;
      // No more than 5 % beyond what DDP alone sends.
      EXPECT_LT(table, 1.05 * share * 2 * (matrix + other));
    }
  }
}

TEST(RanksModel, MomentaOfGptAreDividedEvenly) {
  const auto& layers = parameter_set("gpt2-124m").layers;
  for (const int ranks : {1, 2, 3, 4, 8}) {
    const auto owners = share_layers(layers, ranks);
    double all = 0;
    std::vector<double> momenta(static_cast<size_t>(ranks));
    for (size_t l = 0; l < layers.size(); ++l) {
      const Shape& shape = layers[l].shape;
      all += static_cast<double>(shape.size());
      const auto parts = gradient_parts(shape, owners[l], ranks);  // where they are read
      ASSERT_EQ(parts.size(), momenta.size());
      for (size_t r = 0; r < parts.size(); ++r) momenta[r] += static_cast<double>(parts[r]);
    }
    EXPECT_LE(*std::ranges::max_element(momenta) * ranks, 1.1 * all) << ranks;
  }
}

TEST(RanksModel, TheLargestMatrixIsTheLimit) {
  const auto& set = shape_sets()[0];
  RanksWork work{.layers = set.layers};
  for (const auto& layer : set.layers) {
    work.lmo_seconds.push_back(layer.shape.size() > 768 * 768 ? 4 : 1);
  }
  // 48 of 1 s and 24 of 4 s: 144 s, divided evenly over 24; with more ranks 4 s remain.
  EXPECT_DOUBLE_EQ(forecast(work, link, 24).mean_lmos, 6);
  EXPECT_DOUBLE_EQ(forecast(work, link, 72).longest_lmos, 4);
  EXPECT_DOUBLE_EQ(forecast(work, link, 1024).longest_lmos, 4);
}

TEST(RanksModel, SplittingAnLmo) {
  const Shape shape{.rows = 3072, .cols = 768};
  const Link fast{.bytes_per_second = 1e300, .latency = 0};
  EXPECT_DOUBLE_EQ(split_seconds(8, shape, fast, 4), 2);
  EXPECT_EQ(best_split(8, shape, fast, 64).ranks, 64);
  EXPECT_EQ(best_split(8, shape, {.bytes_per_second = 1, .latency = 1}, 64).ranks, 1);
  // t/k + 15 (k-1) latency is least at sqrt(t / (15 latency)).
  EXPECT_EQ(best_split(8, shape, {.bytes_per_second = 1e300, .latency = 8.0 / 15 / 400}, 64).ranks,
            20);
  // 15 products of 768 x 768 floats, of which each of two sends half.
  EXPECT_DOUBLE_EQ(split_seconds(8, shape, {.bytes_per_second = 768 * 768 * 4, .latency = 0}, 2),
                   4 + 15 * 0.5);
  auto work = matrices(1, 8);
  EXPECT_DOUBLE_EQ(split_lmos(work, fast, 16), 0.5);
}

TEST(LmoTimes, AreKnownOrInProportion) {
  LmoTimes times;
  testing::expect_invalid([&] { times.seconds(Shape{.rows = 8, .cols = 8}); }, {"no time"});
  times.add({.rows = 100, .cols = 200}, 3);
  times.add({.rows = 1000, .cols = 1000}, 500);
  EXPECT_EQ(times.seconds(Shape{.rows = 200, .cols = 100}), 3);
  EXPECT_DOUBLE_EQ(times.seconds(Shape{.rows = 200, .cols = 200}), 3 * 4);
  EXPECT_DOUBLE_EQ(times.seconds(Shape{.rows = 2000, .cols = 8000}), 500 * 32);
  testing::expect_invalid([&] { times.add({.rows = 8, .cols = 8}, 0); }, {"8x8"});
}

TEST(LmoTimes, ShapesToMeasure) {
  const auto& sets = shape_sets();
  EXPECT_EQ(shapes_to_measure(sets[0].layers, 1024).size(), 2u);  // 768x768, 3072x768
  EXPECT_EQ(shapes_to_measure(sets[2].layers, 1024).size(), 1u);  // 4096x4096, for want of others
}

}  // namespace
}  // namespace normball::benchmarks
