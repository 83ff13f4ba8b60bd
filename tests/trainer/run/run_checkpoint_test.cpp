#include <sys/wait.h>

#include <cmath>
#include <cstring>

#include "normball/random.h"
#include "testing.h"
#include "tests/trainer/run_testing.h"
#include "trainer/run/checkpoint.h"

namespace normball::trainer::run {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using testing::FaultyFileSystem;
using testing::ScratchDirectory;

// Tensors whose contents follow from the step, so that a mixture of two would show.
struct Model {
  std::vector<float> weight;
  std::vector<float> momentum;

  explicit Model(std::int64_t step) : weight(257), momentum(64) {
    for (size_t i = 0; i < weight.size(); ++i)
      weight[i] = static_cast<float>(step) + static_cast<float>(i) / 512;
    for (size_t i = 0; i < momentum.size(); ++i)
      momentum[i] = -static_cast<float>(step * 100) - static_cast<float>(i);
  }
  std::vector<TensorView> weights() const {
    return {{"w", Dtype::F32, {257}, std::as_bytes(std::span(weight))}};
  }
  std::vector<TensorView> state() const {
    return {{"momentum.w", Dtype::F32, {64}, std::as_bytes(std::span(momentum))}};
  }
};

CheckpointState state_at(std::int64_t step) {
  return {.step = step,
          .cursor = {{"epoch", 1}, {"position", step * 7}},
          .metric = 1.0 / static_cast<double>(step + 3),
          .better = Better::Lower,
          .notes = {{"version", "0.1.0"}}};
}

fs::path save(CheckpointStore& store, std::int64_t step,
              std::optional<Better> better = Better::Lower) {
  const Model model(step);
  CheckpointState state = state_at(step);
  state.better = better;
  return store.save(std::move(state), model.weights(), model.state());
}

// Every part belongs to the same step, down to the last byte.
void expect_whole(const Checkpoint& checkpoint) {
  const std::int64_t step = checkpoint.state.step;
  const Model model(step);
  EXPECT_EQ(checkpoint.path.filename(), "step-" + std::to_string(step));
  EXPECT_EQ(checkpoint.state.cursor, state_at(step).cursor);
  EXPECT_EQ(checkpoint.state.metric, state_at(step).metric);
  EXPECT_TRUE(std::ranges::equal(checkpoint.model.at("w").data, model.weights()[0].data));
  EXPECT_TRUE(
      std::ranges::equal(checkpoint.optimizer.at("momentum.w").data, model.state()[0].data));
}

// Earlier versions wrote a digest of the configuration.
TEST(CheckpointState, MembersItDoesNotKnowAreLeftAlone) {
  std::string text = to_json(state_at(41));
  const auto at = text.find("\",\n");
  std::string rest = text.substr(at);
  rest.insert(rest.find("\"step\""), "\"config_digest\": \"0123456789abcdef\", ");
  EXPECT_EQ(parse_state(with_checksum(rest), "state.json").step, 41);
}

TEST(CheckpointState, RoundTrip) {
  CheckpointState state = state_at(41);
  state.cursor["shard"] = INT64_MIN;
  state.notes["text"] = "\"quotes\", ünicode\n";
  state.files["model.safetensors"] = {1ull << 40, 0x0000beef};
  const auto text = to_json(state);
  const auto read = parse_state(text, "state.json");
  EXPECT_EQ(read.step, 41);
  EXPECT_EQ(read.cursor, state.cursor);
  EXPECT_EQ(read.metric, state.metric);
  EXPECT_EQ(read.better, state.better);
  EXPECT_EQ(read.notes, state.notes);
  EXPECT_EQ(read.files.at("model.safetensors").bytes, 1ull << 40);
  EXPECT_EQ(read.files.at("model.safetensors").crc, 0xbeefu);
  EXPECT_EQ(to_json(read), text);
}

TEST(CheckpointState, MetricThatIsNotFiniteIsRefused) {
  CheckpointState state = state_at(1);
  state.metric = NAN;
  testing::expect_invalid([&] { to_json(state); }, {"[to_json]", "finite"});
}

TEST(Checkpoint, SaveAndLatest) {
  ScratchDirectory scratch;
  CheckpointStore store(scratch / "run/checkpoints");
  EXPECT_FALSE(store.latest().found);
  EXPECT_TRUE(store.clean().empty());
  EXPECT_EQ(save(store, 10), scratch / "run/checkpoints/step-10");
  save(store, 9);  // order is by step, not by time
  const auto search = store.latest();
  ASSERT_TRUE(search.found);
  EXPECT_EQ(search.found->state.step, 10);
  expect_whole(*search.found);
  EXPECT_TRUE(search.skipped.empty());
}

TEST(Checkpoint, KeepsTheLastAndTheBest) {
  ScratchDirectory scratch;
  CheckpointStore store(scratch.path(), {.last = 2, .best = true});
  // The metric falls with the step, so with higher better the first is best.
  for (const std::int64_t step : {1, 2, 3, 4, 5}) save(store, step, Better::Higher);
  const auto left = store.list();
  ASSERT_EQ(left.size(), 3u);
  EXPECT_EQ(left[0].filename(), "step-1");
  EXPECT_EQ(left[1].filename(), "step-4");
  EXPECT_EQ(left[2].filename(), "step-5");
  EXPECT_EQ(store.best()->filename(), "step-1");
  CheckpointStore only_last(scratch.path(), {.last = 1, .best = false});
  save(only_last, 6);
  EXPECT_EQ(only_last.list().size(), 1u);
}

// Whoever opens a store need not know what its run was judged by.
TEST(Checkpoint, TheBestIsWhatItsStateSays) {
  ScratchDirectory scratch;
  CheckpointStore accuracies(scratch / "images", {.last = 9}),
      losses(scratch / "text", {.last = 9});
  for (const std::int64_t step : {1, 2, 3}) {
    save(accuracies, step, Better::Higher);
    save(losses, step, Better::Lower);
  }
  EXPECT_EQ(CheckpointStore(scratch / "images").best()->filename(), "step-1");
  EXPECT_EQ(CheckpointStore(scratch / "text").best()->filename(), "step-3");
}

TEST(Checkpoint, OfEarlierVersionsTheModelSaysWhatIsBetter) {
  ScratchDirectory scratch;
  CheckpointStore store(scratch / "run/checkpoints", {.last = 9});
  for (const std::int64_t step : {1, 2, 3}) save(store, step, std::nullopt);
  const std::string rest = "[run]\nsteps = 3\n[optimizer]\nrho = 1.0\n";
  testing::write(scratch / "run/config.toml", rest + "[model]\nkind = \"mlp\"\n");
  EXPECT_EQ(store.best()->filename(), "step-1");
  testing::write(scratch / "run/config.toml",
                 rest + "[model]\nkind = \"gpt\"\n[data]\nkind = \"text\"\n");
  EXPECT_EQ(store.best()->filename(), "step-3");
}

TEST(Checkpoint, DamagedOnesAreSkippedAndNamed) {
  ScratchDirectory scratch;
  CheckpointStore store(scratch.path(), {.last = 5});
  for (const std::int64_t step : {1, 2, 3, 4}) save(store, step);
  auto text = testing::read(scratch / "step-4/model.safetensors");
  text.back() = static_cast<char>(text.back() ^ 1);
  testing::write(scratch / "step-4/model.safetensors", text);
  fs::remove(scratch / "step-3/state.json");
  const auto search = store.latest();
  ASSERT_TRUE(search.found);
  EXPECT_EQ(search.found->state.step, 2);
  ASSERT_EQ(search.skipped.size(), 2u);
  EXPECT_NE(search.skipped[0].reason.find("step-4/model.safetensors"), std::string::npos);
  EXPECT_NE(search.skipped[0].reason.find("damaged"), std::string::npos);
  EXPECT_NE(search.skipped[1].reason.find("step-3/state.json"), std::string::npos);
}

TEST(Checkpoint, SavingAStepAgainReplacesIt) {
  ScratchDirectory scratch;
  CheckpointStore store(scratch.path());
  save(store, 4);
  testing::write(scratch / "step-4/state.json", "damaged");
  save(store, 4);
  const auto search = store.latest();
  ASSERT_TRUE(search.found);
  expect_whole(*search.found);
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path()), {}), 1);
}

TEST(Checkpoint, SavingAStepAgainWhereDirectoriesCannotBeExchanged) {
  struct NoExchange : files::FileSystem {
    int exchange(const char*, const char*) override {
      errno = EINVAL;
      return -1;
    }
  } files;
  ScratchDirectory scratch;
  CheckpointStore store(scratch.path(), {}, files);
  save(store, 4);
  testing::write(scratch / "step-4/state.json", "damaged");
  save(store, 4);
  ASSERT_TRUE(store.latest().found);
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path()), {}), 1);
}

TEST(Checkpoint, DiscardAfterRemovesTheLaterOnes) {
  ScratchDirectory scratch;
  CheckpointStore store(scratch.path(), {.last = 9});
  for (const std::int64_t step : {1, 2, 3, 10}) save(store, step);
  const auto discarded = store.discard_after(2);
  EXPECT_EQ(discarded.removed.size(), 2u);
  EXPECT_TRUE(discarded.set_aside.empty());
  EXPECT_EQ(store.latest().found->state.step, 2);
  EXPECT_EQ(store.list().size(), 2u);
}

// What cannot be read may be all that is left of a run: it is renamed, and never counts as one of
// those that are kept.
TEST(Checkpoint, GoingOnSetsDamagedOnesAside) {
  ScratchDirectory scratch;
  CheckpointStore store(scratch.path(), {.last = 2, .best = false});
  save(store, 1);
  CheckpointStore hoarding(scratch.path(), {.last = 100});
  for (const std::int64_t step : {8, 9}) save(hoarding, step);
  const std::string good = testing::read(scratch / "step-9/model.safetensors");
  testing::write(scratch / "step-9/model.safetensors", good.substr(1));
  fs::remove(scratch / "step-8/state.json");
  fs::create_directory(scratch / "step-8/state.json");
  testing::write(scratch / "step-7", "a file");
  testing::write(scratch / "damaged-step-7", "of an earlier time");
  const auto discarded = store.discard_after(1);
  EXPECT_TRUE(discarded.removed.empty());
  EXPECT_EQ(discarded.set_aside,
            (std::vector<fs::path>{scratch / "damaged-step-7-2", scratch / "damaged-step-8",
                                   scratch / "damaged-step-9"}));
  EXPECT_EQ(testing::read(scratch / "damaged-step-7"), "of an earlier time");
  EXPECT_EQ(testing::read(scratch / "damaged-step-9/model.safetensors"), good.substr(1));
  for (const std::int64_t step : {2, 3}) save(store, step);
  store.clean();
  EXPECT_EQ(store.list(), (std::vector<fs::path>{scratch / "step-2", scratch / "step-3"}));
  EXPECT_TRUE(fs::exists(scratch / "damaged-step-8/model.safetensors"));
}

// Killed after each rename and before the older ones are removed, a run would keep them all.
TEST(Checkpoint, GoingOnRemovesWhatACrashLeftToRemove) {
  ScratchDirectory scratch;
  CheckpointStore hoarding(scratch.path(), {.last = 100});
  for (std::int64_t step = 1; step <= 6; ++step) save(hoarding, step);
  CheckpointStore store(scratch.path(), {.last = 2, .best = false});
  EXPECT_TRUE(store.discard_after(6).removed.empty());
  ASSERT_EQ(store.list().size(), 2u);
  EXPECT_EQ(store.list()[0].filename(), "step-5");
}

TEST(Checkpoint, OneFlippedBitAnywhereIsDetected) {
  ScratchDirectory scratch;
  CheckpointStore store(scratch.path());
  const fs::path path = save(store, 8);
  std::vector<std::pair<fs::path, std::string>> files;
  size_t bits = 0;
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    files.emplace_back(path / name, testing::read(path / name));
    bits += files.back().second.size() * 8;
  }
  Random random(3);
  const int positions = testing::mutations(2000);
  for (int i = 0; i < positions; ++i) {
    auto at = random.below(bits);
    size_t file = 0;
    while (at >= files[file].second.size() * 8) at -= files[file++].second.size() * 8;
    const auto& [name, good] = files[file];
    std::string bad = good;
    bad[at / 8] = static_cast<char>(bad[at / 8] ^ (1 << (at % 8)));
    testing::write(name, bad);
    EXPECT_THROW(open_checkpoint(path), std::runtime_error) << name << " bit " << at;
    testing::write(name, good);
  }
  expect_whole(open_checkpoint(path));
}

// The number of file operations of a save with all that belongs to it.
int operations_of_a_save(int keep) {
  ScratchDirectory scratch;
  FaultyFileSystem files(-1, 0);
  CheckpointStore store(scratch / "a/checkpoints", {.last = keep, .best = false}, files);
  save(store, 1);
  const int before = files.operations();
  save(store, 2);
  return files.operations() - before;
}

// What must hold after a save that failed or crashed anywhere.
void expect_recovered(const fs::path& directory, const std::string& what) {
  SCOPED_TRACE(what);
  CheckpointStore after(directory, {.last = 1, .best = false});
  const auto search = after.latest();
  ASSERT_TRUE(search.found);
  EXPECT_TRUE(search.skipped.empty());
  EXPECT_TRUE(search.found->state.step == 1 || search.found->state.step == 2);
  expect_whole(*search.found);
  after.clean();
  for (const auto& entry : fs::directory_iterator(directory)) {
    EXPECT_EQ(entry.path().filename().string().substr(0, 5), "step-");
  }
  save(after, 3);
  EXPECT_EQ(after.latest().found->state.step, 3);
  EXPECT_EQ(after.list().size(), 1u);
}

class EveryOperation : public ::testing::TestWithParam<int> {};

TEST_P(EveryOperation, FailsOnceAndTheLastGoodCheckpointIsIntact) {
  const int operations = operations_of_a_save(1);
  EXPECT_GT(operations, 15);
  for (int k = 0; k < operations; ++k) {
    ScratchDirectory scratch;
    const fs::path directory = scratch / "a/checkpoints";
    CheckpointStore before(directory, {.last = 1, .best = false});
    save(before, 1);
    FaultyFileSystem files(k, GetParam());
    CheckpointStore store(directory, {.last = 1, .best = false}, files);
    try {
      save(store, 2);
    } catch (const files::FileError& error) {
      const std::string text = error.what();
      EXPECT_EQ(error.error_number(), GetParam());
      EXPECT_NE(text.find(scratch.path().string()), std::string::npos) << text;
      EXPECT_TRUE(text.find("the last good checkpoint is") != std::string::npos ||
                  text.find("itself has been saved") != std::string::npos)
          << text;
      if (GetParam() == ENOSPC) {
        EXPECT_NE(text.find("disk full while"), std::string::npos) << text;
        EXPECT_NE(text.find("free space"), std::string::npos) << text;
      }
    }
    EXPECT_TRUE(files.reached());
    expect_recovered(directory, "operation " + std::to_string(k));
  }
}
INSTANTIATE_TEST_SUITE_P(Errors, EveryOperation, ::testing::Values(ENOSPC, EIO, EACCES));

// A crash of the process cannot show a missing sync; the order of the operations can.
TEST(Checkpoint, EverythingIsSyncedBeforeAndAfterTheRename) {
  struct Recorder : files::FileSystem {
    std::map<int, fs::path> names;
    std::vector<std::string> events;
    int open(const char* path, int flags, mode_t mode) override {
      const int file = files::FileSystem::open(path, flags, mode);
      names[file] = path;
      return file;
    }
    ssize_t write(int file, const void* data, size_t bytes) override {
      events.push_back("write " + names[file].filename().string());
      return files::FileSystem::write(file, data, bytes);
    }
    int sync(int file) override {
      events.push_back("sync " + names[file].filename().string());
      return files::FileSystem::sync(file);
    }
    int rename(const char* from, const char* to) override {
      events.push_back("rename " + fs::path(to).filename().string());
      return files::FileSystem::rename(from, to);
    }
  } files;
  ScratchDirectory scratch;
  fs::create_directory(scratch / "checkpoints");
  CheckpointStore store(scratch / "checkpoints", {}, files);
  save(store, 5);
  std::erase_if(files.events, [](const std::string& e) { return e.starts_with("write"); });
  EXPECT_EQ(files.events,
            (std::vector<std::string>{"sync model.safetensors", "sync optimizer.safetensors",
                                      "sync state.json", "sync .tmp-step-5", "rename step-5",
                                      "sync checkpoints"}));
}

TEST(Checkpoint, CrashAtEveryOperationLeavesThePreviousOrTheNewOne) {
  const int operations = operations_of_a_save(1);
  int new_ones = 0;
  for (int k = 0; k < operations; ++k) {
    ScratchDirectory scratch;
    const fs::path directory = scratch / "a/checkpoints";
    CheckpointStore before(directory, {.last = 1, .best = false});
    save(before, 1);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      FaultyFileSystem files(k, FaultyFileSystem::crash);
      CheckpointStore store(directory, {.last = 1, .best = false}, files);
      save(store, 2);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_EQ(WEXITSTATUS(status), 77) << "operation " << k << " was not reached";
    new_ones += before.latest().found->state.step == 2 ? 1 : 0;
    expect_recovered(directory, "crash at operation " + std::to_string(k));
  }
  EXPECT_GT(new_ones, 0);  // the crashes after the rename
  EXPECT_LT(new_ones, operations);
}

TEST(Checkpoint, CrashWhileAStepIsSavedAgainLeavesOneOfBoth) {
  for (int k = 0;; ++k) {
    ScratchDirectory scratch;
    CheckpointStore before(scratch.path(), {.last = 1, .best = false});
    save(before, 2);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      FaultyFileSystem files(k, FaultyFileSystem::crash);
      CheckpointStore store(scratch.path(), {.last = 1, .best = false}, files);
      save(store, 2);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    expect_recovered(scratch.path(), "operation " + std::to_string(k));
    if (WEXITSTATUS(status) == 0) break;
    ASSERT_LT(k, 1000);
  }
}

// From some write on there is no space, and removing does not help either: the worst disk.
TEST(Checkpoint, DiskThatStaysFullLeavesTheLastGoodOne) {
  const int operations = operations_of_a_save(1);
  for (int k = 0; k < operations; ++k) {
    ScratchDirectory scratch;
    const fs::path directory = scratch / "a/checkpoints";
    CheckpointStore before(directory, {.last = 1, .best = false});
    save(before, 1);
    FaultyFileSystem files(k, ENOSPC);
    files.persistent = true;
    CheckpointStore store(directory, {.last = 1, .best = false}, files);
    EXPECT_THROW(save(store, 2), files::FileError) << k;
    expect_recovered(directory, "full from operation " + std::to_string(k));
  }
}

TEST(Checkpoint, FirstSaveThatFailsSaysThatThereIsNone) {
  ScratchDirectory scratch;
  FaultyFileSystem files(8, ENOSPC);
  CheckpointStore store(scratch / "checkpoints", {}, files);
  expect_error<files::FileError>([&] { save(store, 1); },
                                 {"disk full while", "checkpoints", "there is no checkpoint yet"});
  EXPECT_FALSE(store.latest().found);
}

TEST(Checkpoint, DirectoryThatIsAFileIsNamed) {
  ScratchDirectory scratch;
  testing::write(scratch / "checkpoints", "a file");
  CheckpointStore store(scratch / "checkpoints");
  expect_error<files::FileError>([&] { save(store, 1); }, {(scratch / "checkpoints").string()});
}

TEST(AtomicFile, HasTheOldOrTheNewContentsAfterAnyFault) {
  for (const int error : {ENOSPC, EIO}) {
    for (int k = 0;; ++k) {
      ScratchDirectory scratch;
      testing::write(scratch / "file", "old contents");
      FaultyFileSystem files(k, error);
      try {
        files::write_file_atomically(files, scratch / "file", "new contents, longer than before");
      } catch (const files::FileError&) {
      }
      const auto text = testing::read(scratch / "file");
      EXPECT_TRUE(text == "old contents" || text == "new contents, longer than before") << text;
      if (!files.reached()) {
        EXPECT_EQ(text, "new contents, longer than before");
        break;
      }
    }
  }
}

}  // namespace
}  // namespace normball::trainer::run
