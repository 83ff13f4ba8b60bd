// Training on image folders: resuming, loader threads, bad images, mixed targets, top-5.
#include <ATen/Parallel.h>

#include <filesystem>
#include <sstream>

#include "testing.h"
#include "tests/trainer/data/image_samples.h"
#include "tests/trainer/run_testing.h"
#include "trainer/data/pack_images.h"
#include "trainer/train/trainer.h"

namespace normball::trainer::train {
namespace {

namespace fs = std::filesystem;

class FolderTraining : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { at::set_num_threads(1); }
  FolderTraining() { testing::make_image_folders(at("set"), 8, 4); }

  std::string at(const std::string& name) const { return (scratch_ / name).string(); }

  // All that is random is on.
  config::Config config(const std::string& name, const std::vector<std::string>& more = {}) const {
    config::Config result;
    std::vector<std::string> settings = {
        "run.dir=" + at("runs"), "run.name=" + name,          "run.steps=9",
        "run.log_every=1",       "run.eval_every=3",          "run.checkpoint_every=3",
        "run.keep_last=9",       "data.kind=folder",          "data.path=" + at("set"),
        "data.size=12",          "augment.operations=2",      "augment.erase=0.5",
        "augment.mixup=0.8",     "augment.cutmix=1",          "augment.repeats=3",
        "model.kind=mlp",        "model.hidden=[8]",          "train.batch=8",
        "train.micro_batch=4",   "train.label_smoothing=0.1", "optimizer.method=adam"};
    settings.insert(settings.end(), more.begin(), more.end());
    for (const auto& setting : settings) config::apply_setting(result, setting);
    return result;
  }

  std::string run(const config::Config& chosen, std::int64_t stop_after = 0) const {
    std::ostringstream screen;
    runtime::Progress progress(screen, false);
    Trainer(chosen, {.stop_after = stop_after}).run(progress);
    return screen.str();
  }
  std::string weights(const std::string& name, int step = 9) const {
    return testing::read(
        at("runs/" + name + "/checkpoints/step-" + std::to_string(step) + "/model.safetensors"));
  }
  std::string metrics(const std::string& name) const {
    return testing::read(at("runs/" + name + "/metrics.jsonl"));
  }

  testing::ScratchDirectory scratch_;
};

TEST_F(FolderTraining, AResumedRunHasTheWeightsOfOneThatNeverStopped) {
  run(config("whole"));
  ASSERT_FALSE(weights("whole").empty());
  for (const int stop : {1, 3, 5}) {
    const std::string name = "stopped-" + std::to_string(stop);
    run(config(name), stop);
    EXPECT_FALSE(fs::exists(at("runs/" + name + "/checkpoints/step-9")));
    run(config(name, {"run.resume=auto", "data.threads=3"}));
    EXPECT_EQ(weights(name), weights("whole"));
  }
}

TEST_F(FolderTraining, ThreadsAndPackingChangeNothing) {
  run(config("whole", {"data.threads=1"}));
  run(config("threads", {"data.threads=5"}));
  EXPECT_EQ(weights("threads"), weights("whole"));
  data::pack_images({.from = at("set"), .out = at("packed")});
  run(config("packed", {"data.path=" + at("packed")}));
  EXPECT_EQ(weights("packed"), weights("whole"));
}

TEST_F(FolderTraining, OtherFilesAreNotResumedOn) {
  run(config("whole"), 3);
  fs::remove(at("set/train/bee/3.JPEG"));
  testing::expect_invalid([&] { run(config("whole", {"run.resume=auto"})); },
                          {"was trained on other data"});
}

TEST_F(FolderTraining, BadImagesStopTheRunOrAreCounted) {
  fs::resize_file(at("set/train/cow/0.JPEG"), 60);
  fs::resize_file(at("set/val/ant/1.JPEG"), 60);
  EXPECT_THROW(run(config("stop")), std::runtime_error);
  const std::string shown = run(config("skip", {"data.bad_images=skip", "augment.repeats=1"}));
  EXPECT_NE(shown.find("passed over: 2; the first: [decode_image] "), std::string::npos) << shown;
  EXPECT_FALSE(weights("skip").empty());
}

TEST_F(FolderTraining, TheWaitIsLoggedAndTopFiveOnlyWithManyClasses) {
  run(config("few"));
  EXPECT_NE(metrics("few").find("\"waited_per_second\": "), std::string::npos);
  EXPECT_NE(metrics("few").find("\"val_accuracy\": "), std::string::npos);
  EXPECT_EQ(metrics("few").find("val_top5"), std::string::npos);
  for (const char* part : {"train", "val"}) {
    for (int i = 0; i < 9; ++i) {
      fs::copy(at(std::string("set/") + part + "/ant"),
               at(std::string("set/") + part + "/class" + std::to_string(i)));
    }
  }
  run(config("many"));
  EXPECT_NE(metrics("many").find("\"val_top5\": "), std::string::npos);
}

TEST(ClassifyTest, SharesAreSoftTargetsWithSmoothing) {
  torch::manual_seed(1);
  const auto logits = torch::randn({6, 12}, torch::kFloat64);
  const auto shares = torch::softmax(torch::randn({6, 12}), 1);
  const auto outcome = models::classify(logits, shares, 0.1);
  // (1 - s) target + s / classes, as timm has it in its targets.
  const auto targets = 0.9 * shares.to(torch::kFloat64) + 0.1 / 12;
  const auto expected = -(targets * torch::log_softmax(logits, 1)).sum(1).mean();
  EXPECT_NEAR(outcome.loss.item<double>(), expected.item<double>(), 1e-12);
  EXPECT_EQ(outcome.count, 6);
  std::int64_t top = 0, top5 = 0;
  for (int i = 0; i < 6; ++i) {
    const auto label = shares[i].argmax().item<std::int64_t>();
    const auto better = logits[i].gt(logits[i][label]).sum().item<std::int64_t>();
    top += better == 0 ? 1 : 0;
    top5 += better < 5 ? 1 : 0;
  }
  EXPECT_EQ(outcome.correct, top);
  EXPECT_EQ(outcome.in_top5, top5);
}

}  // namespace
}  // namespace normball::trainer::train
