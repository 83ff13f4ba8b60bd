#include "normball/internal/step/work.h"

#include <map>

#include "testing.h"

namespace normball::testing {
namespace {

using detail::divide_work;
using detail::LayerWork;
using detail::rules;
using detail::WorkItem;

std::vector<LayerWork> some_layers() {
  return {{.shape = {.rows = 1000, .cols = 700}, .rules = rules(Geometry::MaxAbs)},
          {.shape = {.rows = 300, .cols = 200}, .rules = rules(Geometry::Operator)},
          {.shape = {.rows = 5, .cols = 0}, .rules = rules(Geometry::RowL2)},
          {.shape = {.rows = 3, .cols = 300000}, .rules = rules(Geometry::ColL2)},
          {.shape = {.rows = 7, .cols = 1}, .rules = rules(Geometry::Frobenius)},
          {.shape = {.rows = 400, .cols = 500}, .rules = rules(Geometry::Oracle)}};
}

TEST(Work, CoversEveryRowOfEveryLayerOnceAndInOrder) {
  const auto layers = some_layers();
  const auto work = divide_work(layers, 4);
  std::map<size_t, Index> covered;
  std::map<size_t, size_t> parts;
  for (const auto& item : work.items) {
    EXPECT_EQ(item.begin, covered[item.layer]) << "layer " << item.layer;
    EXPECT_EQ(item.part, parts[item.layer]++);
    EXPECT_GT(item.end, item.begin);
    covered[item.layer] = item.end;
  }
  for (size_t l = 0; l < layers.size(); ++l) {
    EXPECT_EQ(covered[l], layers[l].shape.size() == 0 ? 0 : layers[l].shape.rows) << l;
  }
}

TEST(Work, CutsOnlyWhatIsAFunctionOfItsRowsAndColumns) {
  std::map<size_t, size_t> parts;
  for (const auto& item : divide_work(some_layers(), 2).items) ++parts[item.layer];
  // 131072 elements a part: 187 rows of 700, or a single row that is longer than that.
  EXPECT_EQ(parts[0], 6u);
  EXPECT_EQ(parts[1], 1u);
  EXPECT_EQ(parts[3], 3u);
  EXPECT_EQ(parts[5], 1u);
}

TEST(Work, IsTheSameForAnyNumberOfThreads) {
  const auto one = divide_work(some_layers(), 1), many = divide_work(some_layers(), 64);
  ASSERT_EQ(one.items.size(), many.items.size());
  for (size_t i = 0; i < one.items.size(); ++i) {
    EXPECT_EQ(one.items[i].layer, many.items[i].layer);
    EXPECT_EQ(one.items[i].begin, many.items[i].begin);
    EXPECT_EQ(one.items[i].end, many.items[i].end);
  }
}

TEST(Work, BeginsWithWhatTakesLongest) {
  const auto work = divide_work(some_layers(), 2);
  EXPECT_EQ(work.items.front().layer, 1u);  // 60000 elements, but through a polar factor
  EXPECT_EQ(work.items.back().layer, 4u);
}

TEST(Work, TakesOneThreadForATinyModelAndAsManyAsOfferedElse) {
  const std::vector<LayerWork> tiny = {
      {.shape = {.rows = 100, .cols = 100}, .rules = rules(Geometry::MaxAbs)}};
  EXPECT_EQ(divide_work(tiny, 8).threads, 1);
  EXPECT_EQ(divide_work(some_layers(), 8).threads, 8);
  EXPECT_EQ(divide_work({}, 8).threads, 1);
}

TEST(Work, GivesAMatrixToAllThreadsWhereTheOthersWouldWaitForIt) {
  const LayerWork large = {.shape = {.rows = 300, .cols = 300}, .rules = rules(Geometry::Operator)};
  const auto teams = [&](size_t matrices, int threads) {
    const std::vector<LayerWork> layers(matrices, large);
    const auto work = divide_work(layers, threads);
    return std::ranges::count_if(work.items, &WorkItem::team);
  };
  EXPECT_EQ(teams(1, 2), 1);
  EXPECT_EQ(teams(1, 1), 0);
  EXPECT_EQ(teams(2, 2), 0);  // one for each thread
  EXPECT_EQ(teams(3, 4), 3);
  // Rows of another geometry are cut instead.
  const std::vector<LayerWork> sign = {
      {.shape = {.rows = 9000, .cols = 9000}, .rules = rules(Geometry::MaxAbs)}};
  EXPECT_FALSE(std::ranges::any_of(divide_work(sign, 2).items, &WorkItem::team));
}

}  // namespace
}  // namespace normball::testing
