// Where a run goes on, and that looking for it never puts one at risk.
#include "testing.h"
#include "tests/trainer/run_testing.h"
#include "trainer/run/resume.h"

namespace normball::trainer::run {
namespace {

namespace fs = std::filesystem;
using testing::expect_invalid;
using testing::ScratchDirectory;

void save(const fs::path& run, std::int64_t step) {
  const std::vector<float> weight(8, static_cast<float>(step));
  const std::vector<TensorView> tensors = {
      {"w", Dtype::F32, {8}, std::as_bytes(std::span(weight))}};
  CheckpointStore(run / "checkpoints", {.last = 100}).save({.step = step}, tensors, {});
}

config::Config config_with(const std::string& resume) {
  config::Config config;
  config.run.steps = 10;
  config.optimizer.rho = 1;
  config.run.resume = resume;
  return config;
}

void write_config(const fs::path& run, const config::Config& config) {
  fs::create_directories(run);
  testing::write(run / "config.toml", config::to_toml(config));
}

void damage(const fs::path& file) {
  std::string text = testing::read(file);
  text.back() = static_cast<char>(text.back() ^ 1);
  testing::write(file, text);
}

// Every file below a directory with its contents.
std::map<std::string, std::string> contents(const fs::path& directory) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    all[entry.path().string()] = entry.is_regular_file() ? testing::read(entry.path()) : "";
  }
  return all;
}

TEST(Resume, NoCheckpointThatCanBeReadIsRefusedAndNothingTouched) {
  ScratchDirectory scratch;
  const fs::path run = scratch / "a";
  write_config(run, config_with("never"));
  testing::write(run / "metrics.jsonl", "{\"step\": 1, \"loss\": 2.5}\n");
  save(run, 4);
  save(run, 8);
  damage(run / "checkpoints/step-4/model.safetensors");
  fs::remove(run / "checkpoints/step-8/state.json");
  const auto before = contents(run);
  expect_invalid([&] { find_starting_point(config_with("auto"), run); },
                 {"no checkpoint", "step-4/model.safetensors", "step-8/state.json", "Nothing was",
                  "put back a copy", "--name"});
  expect_invalid([&] { find_starting_point(config_with(run.string()), scratch / "b"); },
                 {"no checkpoint", "step-8/state.json"});
  EXPECT_EQ(contents(run), before);
}

TEST(Resume, AnOlderCheckpointIsTakenWhereTheNewestIsDamaged) {
  ScratchDirectory scratch;
  const fs::path run = scratch / "a";
  write_config(run, config_with("never"));
  save(run, 4);
  save(run, 8);
  damage(run / "checkpoints/step-8/optimizer.safetensors");
  const auto start = find_starting_point(config_with("auto"), run);
  ASSERT_TRUE(start.checkpoint);
  EXPECT_EQ(start.checkpoint->state.step, 4);
  EXPECT_TRUE(start.own);
  ASSERT_EQ(start.notes.size(), 1u);
  EXPECT_NE(start.notes[0].find("skipped"), std::string::npos);
  EXPECT_NE(start.notes[0].find("step-8/optimizer.safetensors"), std::string::npos);
}

TEST(Resume, ADirectoryThatHoldsARunIsNeverWrittenOver) {
  ScratchDirectory scratch;
  const fs::path run = scratch / "a", other = scratch / "b", logged = scratch / "c";
  for (const auto& path : {run, other, logged}) write_config(path, config_with("never"));
  save(run, 4);
  save(other, 8);
  testing::write(logged / "metrics.jsonl", "{\"step\": 1, \"loss\": 2.5}\n");
  for (const auto& path : {run, logged}) {
    EXPECT_TRUE(holds_run(path));
    expect_invalid([&] { find_starting_point(config_with("never"), path); },
                   {path.string(), "already holds a run", "--resume", "--name"});
  }
  // Another run's checkpoint would end the one that is there.
  expect_invalid([&] { find_starting_point(config_with(run / "checkpoints/step-4"), other); },
                 {other.string(), "already holds a run"});
  testing::write(scratch / "d/metrics.jsonl", "");
  EXPECT_FALSE(holds_run(scratch / "d"));
  EXPECT_FALSE(find_starting_point(config_with("never"), scratch / "d").checkpoint);
}

TEST(Resume, ARunRemembersWhichItStartedFrom) {
  ScratchDirectory scratch;
  const fs::path run = scratch / "a", next = scratch / "b";
  write_config(run, config_with("never"));
  save(run, 4);
  for (const fs::path& named : {run, run / "checkpoints/step-4", run / "checkpoints/step-4/"}) {
    const auto start = find_starting_point(config_with(named), next);
    EXPECT_EQ(start.checkpoint->state.step, 4);
    EXPECT_FALSE(start.own);
    EXPECT_TRUE(fs::equivalent(start.origin, run / "checkpoints/step-4"));
  }
  const auto start = find_starting_point(config_with(run), next);
  const config::Config recorded = as_recorded(config_with("auto"), start.origin);
  EXPECT_TRUE(fs::path(recorded.run.resume).is_absolute());
  write_config(next, recorded);
  // Killed before its first checkpoint it starts there again.
  const auto again = find_starting_point(config_with("auto"), next);
  ASSERT_TRUE(again.checkpoint);
  EXPECT_EQ(again.checkpoint->state.step, 4);
  EXPECT_FALSE(again.own);
  EXPECT_EQ(again.origin, start.origin);
  save(next, 6);
  const auto own = find_starting_point(config_with("auto"), next);
  EXPECT_EQ(own.checkpoint->state.step, 6);
  EXPECT_TRUE(own.own);
  EXPECT_EQ(own.origin, start.origin);
}

TEST(Resume, ItsOwnCheckpointMayBeNamed) {
  ScratchDirectory scratch;
  const fs::path run = scratch / "a";
  write_config(run, config_with("never"));
  save(run, 4);
  save(run, 8);
  const auto start = find_starting_point(config_with(run / "checkpoints/step-4"), run);
  EXPECT_EQ(start.checkpoint->state.step, 4);
  EXPECT_TRUE(start.own);
  EXPECT_EQ(start.origin, "never");
}

// An unmounted disk, a folder moved away: steps that were saved are not taken again.
TEST(Resume, CheckpointsThatAreGoneAreMissed) {
  ScratchDirectory scratch;
  const fs::path run = scratch / "a";
  config::Config config = config_with("never");
  config.run.checkpoint_every = 2;
  write_config(run, config);
  testing::write(run / "metrics.jsonl", "{\"step\": 2, \"loss\": 2.5}\n");
  const auto start = find_starting_point(config_with("auto"), run);  // the first one failed
  EXPECT_FALSE(start.checkpoint);
  ASSERT_EQ(start.notes.size(), 1u);
  EXPECT_NE(start.notes[0].find("no checkpoint yet"), std::string::npos);
  testing::write(run / "metrics.jsonl",
                 "{\"step\": 2, \"loss\": 2.5}\n{\"step\": 3, \"loss\": 2.5}\n");
  expect_invalid([&] { find_starting_point(config_with("auto"), run); },
                 {"has no checkpoint", "goes to step 3", "every 2", "Nothing was changed"});
  fs::create_symlink(scratch / "unmounted", run / "checkpoints");
  testing::expect_error<files::FileError>([&] { find_starting_point(config_with("auto"), run); },
                                          {"a/checkpoints"});
}

TEST(Resume, MistakesAreNamed) {
  ScratchDirectory scratch;
  fs::create_directories(scratch / "a/checkpoints");
  testing::write(scratch / "b", "a file");
  testing::expect_error<std::runtime_error>(
      [&] { find_starting_point(config_with(scratch / "none"), scratch / "c"); }, {"none"});
  expect_invalid([&] { find_starting_point(config_with(scratch / "a"), scratch / "c"); },
                 {"no checkpoint to resume from"});
  expect_invalid([&] { find_starting_point(config_with(scratch.path()), scratch / "c"); },
                 {"neither a checkpoint", "nor a run directory"});
  testing::expect_error<std::runtime_error>(
      [&] { find_starting_point(config_with(scratch / "b"), scratch / "c"); }, {"not a directory"});
  fs::create_directories(scratch / "d");
  testing::write(scratch / "d/checkpoints", "a file");
  testing::expect_error<files::FileError>(
      [&] { find_starting_point(config_with("auto"), scratch / "d"); }, {"d/checkpoints"});
}

TEST(RecordedPaths, HoldInEveryFolder) {
  ScratchDirectory scratch;
  testing::write(scratch / "text.txt", "text");
  const fs::path here = fs::current_path();
  fs::current_path(scratch.path());
  config::Config config = config_with("auto");
  config.data.path = "./text.txt";
  config.data.validation = "shards_*.bin";
  config.data.bpe = "not/there";
  const config::Config recorded = as_recorded(config, "never");
  const fs::path folder = fs::current_path();
  fs::current_path(here);
  EXPECT_EQ(recorded.data.path, (folder / "text.txt").string());
  EXPECT_EQ(recorded.data.validation, (folder / "shards_*.bin").string());
  EXPECT_EQ(recorded.data.bpe, "not/there");
  EXPECT_EQ(recorded.run.resume, "never");
}

TEST(RecordedPaths, DataMovedWithItsRunIsFound) {
  ScratchDirectory scratch;
  config::Config config = config_with("never");
  config.run.name = "a";
  config.model.kind = "gpt";
  config.data.kind = "text";
  config.data.path = scratch / "before/data/text.txt";
  config.data.validation = scratch / "before/data/val_*.bin";
  write_config(scratch / "after/runs/a", config);
  fs::create_directories(scratch / "after/data");
  testing::write(scratch / "after/data/text.txt", "text");
  const fs::path recorded_in = scratch / "before/runs/a";
  const auto found = configuration_of(scratch / "after/runs/a", {}, "eval", recorded_in);
  EXPECT_EQ(found.data.path, (scratch / "after/data/text.txt").string());
  EXPECT_EQ(found.data.validation, (scratch / "after/data/val_*.bin").string());
  // The run has a copy of its tokenizer.
  config.data.bpe = scratch / "before/bpe";
  write_config(scratch / "after/runs/a", config);
  fs::create_directories(scratch / "after/runs/a/tokenizer");
  EXPECT_EQ(configuration_of(scratch / "after/runs/a", {}, "eval", recorded_in).data.bpe,
            (scratch / "after/runs/a/tokenizer").string());
  // What is still in its place is not looked for elsewhere, nor what the user names.
  const std::vector<std::string> settings = {"data.path=elsewhere.txt"};
  EXPECT_EQ(configuration_of(scratch / "after/runs/a", settings, "eval", recorded_in).data.path,
            "elsewhere.txt");
  fs::create_directories(scratch / "before/data");
  testing::write(scratch / "before/data/text.txt", "text");
  EXPECT_EQ(configuration_of(scratch / "after/runs/a", {}, "eval", recorded_in).data.path,
            (scratch / "before/data/text.txt").string());
}

}  // namespace
}  // namespace normball::trainer::run
