// How a batch is cut into micro-batches is a matter of memory: evaluations cover the same data, and
// train.overfit_batch repeats the whole batch. Runs of earlier versions, where it was otherwise,
// are continued only where that makes no difference, or with a note.
#include <ATen/Parallel.h>

#include <sstream>

#include "testing.h"
#include "tests/trainer/run_testing.h"
#include "trainer/files/atomic_file.h"
#include "trainer/run/metrics.h"
#include "trainer/train/trainer.h"

namespace normball::trainer::train {
namespace {

namespace fs = std::filesystem;

class MicroBatch : public ::testing::Test {
 protected:
  MicroBatch() {
    at::set_num_threads(1);
    std::string text;
    for (int i = 0; i < 200; ++i) text += "the hello " + std::to_string(i * 7919) + "\n";
    files::write_file_atomically(files::FileSystem::real(), scratch_ / "text.txt", text);
  }

  config::Config config(const std::string& name, std::int64_t micro) const {
    config::Config config;
    config.run = {.name = name,
                  .dir = scratch_.path().string(),
                  .threads = 1,
                  .steps = 4,
                  .log_every = 1,
                  .eval_every = 2,
                  .checkpoint_every = 2};
    config.model.kind = "gpt";
    config.model.layers = 1;
    config.model.width = 16;
    config.model.heads = 2;
    config.model.context = 8;
    config.model.vocab = 256;
    config.data.kind = "text";
    config.data.path = (scratch_ / "text.txt").string();
    config.train.batch = 4;
    config.train.micro_batch = micro;
    config.eval.batches = 3;
    config.optimizer.rho = 10;
    return config;
  }

  // What was printed.
  std::string train(const config::Config& config, std::int64_t stop_after = 0) {
    std::ostringstream screen;
    runtime::Progress progress(screen, false);
    Trainer(config, {.stop_after = stop_after}).run(progress);
    return screen.str();
  }

  std::vector<double> curve(const std::string& run, std::string_view name) const {
    std::vector<double> values;
    for (const auto& line : run::read_metrics(scratch_ / run / "metrics.jsonl").lines) {
      if (const auto value = line.number(name)) values.push_back(*value);
    }
    return values;
  }

  // As an earlier version would have left the checkpoint.
  void forget(const std::string& run, std::int64_t step, const std::string& note) const {
    const fs::path path = scratch_ / run / "checkpoints";
    const auto stored = run::open_checkpoint(path / ("step-" + std::to_string(step)));
    auto state = stored.state;
    ASSERT_EQ(state.notes.erase(note), 1u);
    std::vector<run::TensorView> model, optimizer;
    for (const auto& tensor : stored.model.tensors()) model.push_back(tensor);
    for (const auto& tensor : stored.optimizer.tensors()) optimizer.push_back(tensor);
    run::CheckpointStore(path).save(state, model, optimizer);
  }

  testing::ScratchDirectory scratch_;
};

void expect_close(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-5) << i;
}

TEST_F(MicroBatch, EvaluationsCoverTheSameWindows) {
  for (const std::int64_t micro : {0, 1, 2}) {
    const auto name = "cut" + std::to_string(micro);
    EXPECT_EQ(open_data(config(name, micro))->evaluation_items(), 12);
    train(config(name, micro));
    EXPECT_EQ(curve(name, "val_loss").size(), 2u);
    expect_close(curve(name, "val_loss"), curve("cut0", "val_loss"));
  }
  // Other windows have another loss: the comparison above can fail.
  auto other = config("other", 0);
  other.eval.batches = 1;
  train(other);
  EXPECT_GT(std::abs(curve("other", "val_loss")[0] - curve("cut0", "val_loss")[0]), 1e-4);
}

TEST_F(MicroBatch, EvaluationBatchesLimitAndBatchesOfTheirOwn) {
  auto limited = config("any", 1);
  limited.eval.batch = 5;
  EXPECT_EQ(open_data(limited)->evaluation_items(), 15);
  EXPECT_EQ(open_data(limited)->evaluation_batches(), 3);
  const auto all = open_data([&] {
    limited.eval.batches = 0;
    return limited;
  }());
  limited.eval.batches = 1'000'000'000'000;
  EXPECT_EQ(open_data(limited)->evaluation_items(), all->evaluation_items());
  EXPECT_EQ(all->evaluation_batches(), (all->evaluation_items() + 4) / 5);
}

TEST_F(MicroBatch, OverfitBatchIsTheWholeBatch) {
  for (const std::int64_t micro : {0, 1, 2}) {
    auto same = config("fit" + std::to_string(micro), micro);
    same.train.overfit_batch = true;
    train(same);
    expect_close(curve(same.run.name, "loss"), curve("fit0", "loss"));
  }
  auto single = config("single", 0);
  single.train.batch = 1;
  single.train.overfit_batch = true;
  train(single);
  EXPECT_GT(std::abs(curve("single", "loss")[0] - curve("fit0", "loss")[0]), 1e-4);
}

TEST_F(MicroBatch, OverfitRunsOfTheFirstMicroBatchAreNotContinued) {
  auto cut = config("cut", 2);
  cut.train.overfit_batch = true;
  train(cut, 2);
  forget("cut", 2, "overfit_batch");
  cut.run.resume = "auto";
  try {
    train(cut);
    FAIL() << "went on";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("first micro-batch"), std::string::npos)
        << error.what();
  }
  // Without micro-batches nothing has changed.
  auto whole = config("whole", 0);
  whole.train.overfit_batch = true;
  train(whole, 2);
  forget("whole", 2, "overfit_batch");
  whole.run.resume = "auto";
  train(whole);
  EXPECT_EQ(curve("whole", "loss").size(), 4u);
}

TEST_F(MicroBatch, EarlierEvaluationsAreSaidNotToCompare) {
  auto cut = config("cut", 2);
  train(cut, 2);
  cut.run.resume = "auto";
  EXPECT_EQ(train(cut, 1).find("cannot be compared"), std::string::npos);
  cut.run.checkpoint_every = 1;
  forget("cut", 3, "evaluated");
  EXPECT_NE(train(cut, 1).find("cannot be compared"), std::string::npos);

  auto wider = config("wider", 0);
  train(wider, 2);
  wider.run.resume = "auto";
  wider.eval.batches = 4;
  EXPECT_NE(train(wider).find("cover 16 windows now"), std::string::npos);
}

using EarlierRoutes = MicroBatch;

TEST_F(EarlierRoutes, AreContinuedOnlyWhereTheLastMatchGivesWhatTheFirstGave) {
  using Routes = std::vector<config::Route>;
  const Routes overlapping = {{"blocks.*", "row", {}}, {"*.up", "rms", {}}};
  const Routes apart = {{"*.down", "row", {}}, {"*.up", "rms", {}}};
  for (const Routes& routes : {overlapping, apart}) {
    auto routed = config(routes == apart ? "apart" : "overlapping", 0);
    routed.norm.route = routes;
    train(routed, 2);
    routed.run.resume = "auto";
    train(routed, 1);  // a run of this version
    forget(routed.run.name, 3, "norm.route");
    if (routes == apart) {
      train(routed);
      EXPECT_EQ(curve("apart", "loss").size(), 4u);
      continue;
    }
    testing::expect_invalid([&] { train(routed); },
                            {"earlier version", "first", "blocks.0.up", "norm.route", "config.toml",
                             "matches two entries"});
    EXPECT_EQ(curve("overlapping", "loss").size(), 3u);
  }
}

}  // namespace
}  // namespace normball::trainer::train
