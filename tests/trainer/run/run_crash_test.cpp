// A small training loop with everything a run directory has, killed at random moments and resumed:
// it ends as one that was never interrupted.
#include <signal.h>
#include <sys/wait.h>

#include <cstring>
#include <random>

#include "normball/random.h"
#include "tests/trainer/run_testing.h"
#include "trainer/run/checkpoint.h"
#include "trainer/run/metrics.h"
#include "trainer/run/run_lock.h"
#include "trainer/run/tensorboard.h"

namespace normball::trainer::run {
namespace {

namespace fs = std::filesystem;

#ifdef NORMBALL_SANITIZED
constexpr std::int64_t total_steps = 60;
#else
constexpr std::int64_t total_steps = 400;
#endif

// Each step draws noise and adds it to every weight, so that a lost or repeated step would show.
void train(const fs::path& directory) {
  files::make_directories(files::FileSystem::real(), directory);
  const RunLock lock(directory);
  CheckpointStore store(directory / "checkpoints", {.last = 2, .best = false});
  store.clean();
  const auto search = store.latest();
  std::vector<float> weight(1000);
  std::int64_t step = 0;
  Random random(42);
  if (search.found) {
    step = search.found->state.step;
    random = Random(static_cast<std::uint64_t>(search.found->state.cursor.at("noise")));
    const std::vector<std::int64_t> shape = {1000};
    const auto& saved = search.found->model.at("w", Dtype::F32, shape);
    std::memcpy(weight.data(), saved.data.data(), saved.data.size());
  }
  if (!search.skipped.empty()) ::_exit(3);  // a kill must not damage what has a name
  store.discard_after(step);
  MetricsWriter metrics(directory / "metrics.jsonl", step);
  EventWriter events(directory, step + 1);
  while (step < total_steps) {
    ++step;
    for (float& w : weight) w += static_cast<float>(random.normal());
    metrics.write({.step = step, .values = {{"loss", static_cast<double>(weight[7])}}});
    metrics.sync();
    const EventWriter::Scalar scalar[] = {{"loss", weight[7]}};
    events.scalars(step, scalar);
    const std::vector<TensorView> tensors = {
        {"w", Dtype::F32, {1000}, std::as_bytes(std::span(weight))}};
    const auto noise = static_cast<std::int64_t>(random.state());
    store.save({.step = step, .cursor = {{"noise", noise}}}, tensors, {});
  }
}

TEST(Crash, KilledAtRandomMomentsAndResumedItEndsTheSame) {
  testing::ScratchDirectory scratch;
  train(scratch / "whole");
  Random random(std::random_device{}());
  std::printf("seed %llu\n", static_cast<unsigned long long>(random.state()));
  int kills = 0;
  for (int start = 0;; ++start) {
    ASSERT_LT(start, 20000);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        train(scratch / "killed");
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        ::_exit(2);
      }
      ::_exit(0);
    }
    // Ever longer, so that a busy machine or a sanitizer gets to the end as well.
    ::usleep(static_cast<useconds_t>(random.below(12000 + 400 * static_cast<unsigned>(start))));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) {
      ASSERT_EQ(WEXITSTATUS(status), 0);
      break;
    }
    ++kills;
  }
  std::printf("%d kills\n", kills);
  EXPECT_GT(kills, 3);
  const std::string last = "checkpoints/step-" + std::to_string(total_steps);
  for (const auto& file :
       {std::string("metrics.jsonl"), last + "/model.safetensors", last + "/state.json"}) {
    const auto expected = testing::read(scratch / ("whole/" + file));
    EXPECT_FALSE(expected.empty());
    EXPECT_TRUE(testing::read(scratch / ("killed/" + file)) == expected) << file;
  }
  EXPECT_EQ(CheckpointStore(scratch / "killed/checkpoints").list().size(), 2u);
}

TEST(RunLock, SecondProcessIsRefusedUntilTheFirstEnds) {
  testing::ScratchDirectory scratch;
  {
    const RunLock lock(scratch.path());
    try {
      const RunLock second(scratch.path());
      ADD_FAILURE();
    } catch (const std::runtime_error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("in use by process " + std::to_string(::getpid())), std::string::npos)
          << text;
    }
  }
  const RunLock again(scratch.path());
}

TEST(RunLock, KnowsWhereItsDirectoryIs) {
  testing::ScratchDirectory scratch;
  const auto first = scratch / "first", second = scratch / "second";
  std::filesystem::create_directory(first);
  const RunLock lock(first);
  EXPECT_EQ(lock.place(first), first);
  std::filesystem::rename(first, second);
  EXPECT_EQ(lock.place(first), std::filesystem::canonical(second));
  std::filesystem::create_directory(first);  // another one of the same name
  EXPECT_EQ(lock.place(first), std::filesystem::canonical(second));
  std::filesystem::remove_all(second);
  EXPECT_THROW(lock.place(first), std::runtime_error);
}

}  // namespace
}  // namespace normball::trainer::run
