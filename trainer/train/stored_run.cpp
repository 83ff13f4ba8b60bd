#include "trainer/train/stored_run.h"

#include <ATen/Parallel.h>
#include <sched.h>

#include <cstdlib>

#include "normball/error.h"
#include "trainer/run/checkpoint.h"
#include "trainer/train/model_builder.h"
#include "trainer/train/model_state.h"

namespace normball::trainer {
namespace {

namespace fs = std::filesystem;

bool is_checkpoint(const fs::path& path) { return fs::exists(path / "state.json"); }

fs::path find_checkpoint(const fs::path& run) {
  const run::CheckpointStore store(run / "checkpoints");
  if (const auto best = store.best()) return *best;
  const auto all = store.list();
  if (all.empty()) {
    throw std::runtime_error(
        normball::detail::message("open_run", run.string(), " has no checkpoint yet"));
  }
  return all.back();
}

}  // namespace

StoredRun open_run(const fs::path& path, std::span<const std::string> settings,
                   std::string_view command) {
  const fs::path run = is_checkpoint(path) ? path / ".." / ".." : path;
  if (!fs::exists(run / "config.toml")) {
    throw std::runtime_error(normball::detail::message(
        "open_run", path.string(), " is not a run directory (it has no config.toml)"));
  }
  StoredRun stored;
  stored.config = run::stored_config(run, settings, command);
  const auto checkpoint = run::open_checkpoint(is_checkpoint(path) ? path : find_checkpoint(path));
  use_threads(stored.config.run.threads);
  stored.data = open_data(stored.config);
  stored.model = build_model(stored.config, stored.data->facts());
  load_tensors(checkpoint.model, model_state(*stored.model), "the model");
  stored.checkpoint = checkpoint.path;
  stored.step = checkpoint.state.step;
  return stored;
}

int use_threads(std::int64_t threads) {
  if (threads <= 0 && std::getenv("OMP_NUM_THREADS") != nullptr) {
    threads = std::atol(std::getenv("OMP_NUM_THREADS"));
  }
  if (threads <= 0) {
    cpu_set_t cores;
    threads = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  }
  at::set_num_threads(static_cast<int>(threads));
  return static_cast<int>(threads);
}

}  // namespace normball::trainer
