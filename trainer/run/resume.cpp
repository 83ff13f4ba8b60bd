#include "trainer/run/resume.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "normball/base/error.h"
#include "trainer/config/config_use.h"
#include "trainer/run/metrics.h"

namespace normball::trainer::run {
namespace fs = std::filesystem;
namespace {

// The checkpoint of another run that this one started from, if it did.
std::string origin_of(const fs::path& directory) {
  if (!fs::exists(directory / "config.toml")) return "never";
  const std::string resume = config::stored_config(directory).run.resume;
  return resume == "auto" ? "never" : resume;
}

[[noreturn]] void refuse_unreadable(const fs::path& run,
                                    const std::vector<CheckpointStore::Skipped>& skipped) {
  std::string text;
  for (const auto& [path, reason] : skipped) text += "\n  " + path.string() + ": " + reason;
  normball::throw_invalid(
      "resume", "no checkpoint of ", run.string(), " can be read:", text,
      "\nNothing was changed. Make them readable or put back a copy; --name starts another run");
}

StartingPoint newest_of(const fs::path& run) {
  auto search = CheckpointStore(run / "checkpoints").latest();
  if (!search.found && !search.skipped.empty()) refuse_unreadable(run, search.skipped);
  StartingPoint start{.checkpoint = std::move(search.found)};
  for (const auto& [path, reason] : search.skipped) {
    start.notes.push_back("skipped " + path.string() + ": " + reason);
  }
  return start;
}

// A checkpoint, or a run of which the newest one is taken.
StartingPoint named(const fs::path& path) {
  const bool run = fs::is_directory(path / "checkpoints");
  if (fs::is_directory(path) && !fs::exists(path / "state.json") && !run) {
    normball::throw_invalid("resume", path.string(), " is neither a checkpoint (such as ",
                            (path / "checkpoints" / "step-100").string(), ") nor a run directory");
  }
  if (!run) return {.checkpoint = open_checkpoint(path)};
  auto start = newest_of(path);
  if (!start.checkpoint) {
    normball::throw_invalid("resume", path.string(), " has no checkpoint to resume from yet");
  }
  return start;
}

// Steps recorded beyond the one where a checkpoint was due: there was one, and it is gone.
void require_none_was_saved(const fs::path& directory) {
  const fs::path metrics = directory / "metrics.jsonl";
  const auto lines = read_metrics(metrics).lines;
  const std::int64_t due = config::stored_config(directory).run.checkpoint_every;
  if (lines.empty() || due == 0 || lines.back().step <= due) return;
  normball::throw_invalid("resume", directory.string(), " has no checkpoint, but ",
                          metrics.string(), " goes to step ", lines.back().step,
                          " and one was due every ", due,
                          ". Nothing was changed. Put the checkpoints back where they were, or "
                          "start another run with --name");
}

StartingPoint newest_of_own(const fs::path& directory) {
  const std::string origin = origin_of(directory);
  const bool own = !CheckpointStore(directory / "checkpoints").list().empty();
  auto start = own || origin == "never" ? newest_of(directory) : named(origin);
  start.own = own;
  start.origin = origin;
  if (start.checkpoint) return start;
  const bool began = holds_run(directory);
  if (began) require_none_was_saved(directory);
  start.notes.push_back(directory.string() +
                        (began ? " has no checkpoint yet: starting again at step 0"
                               : " holds no run yet: starting a new one"));
  return start;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  const bool pattern = path.filename().string().find_first_of("*?[") != std::string::npos;
  const fs::path place = pattern ? path.parent_path() : path;
  return place.empty() || fs::exists(place, ignored);
}

std::string absolute(const std::string& path) {
  return fs::absolute(path).lexically_normal().string();
}

}  // namespace

fs::path run_of(const fs::path& checkpoint) {
  return fs::canonical(checkpoint).parent_path().parent_path();
}

bool holds_run(const fs::path& directory) {
  const fs::path metrics = directory / "metrics.jsonl";
  return !CheckpointStore(directory / "checkpoints").list().empty() ||
         (fs::is_regular_file(metrics) && fs::file_size(metrics) > 0);
}

void refuse_to_write_over(const fs::path& directory) {
  normball::throw_invalid("train", directory.string(), holds_run_already);
}

namespace {

// Of `normball sweep` or `normball experiment`: a run among their runs would make it unusable.
void refuse_directory_of_sweep(const fs::path& directory) {
  const bool swept =
      fs::exists(directory / ".sweep.lock") || fs::exists(directory / "results.jsonl");
  if (!swept || holds_run(directory)) return;
  normball::throw_invalid("train", directory.string(),
                          " is the directory of a sweep, whose runs are inside it; --name "
                          "starts a run elsewhere, `normball sweep` continues the sweep");
}

}  // namespace

StartingPoint find_starting_point(const config::Config& config, const fs::path& directory) {
  refuse_directory_of_sweep(directory);
  const std::string& resume = config.run.resume;
  if (resume == "auto") return newest_of_own(directory);
  auto start = resume == "never" ? StartingPoint{} : named(resume);
  if (start.checkpoint) {
    std::error_code ignored;
    start.own = fs::equivalent(run_of(start.checkpoint->path), directory, ignored);
    start.origin = start.own ? origin_of(directory) : absolute(start.checkpoint->path.string());
  }
  if (!start.own && holds_run(directory)) refuse_to_write_over(directory);
  return start;
}

config::Config as_recorded(config::Config config, const std::string& origin) {
  for (std::string* path : {&config.data.path, &config.data.validation, &config.data.bpe}) {
    if (!path->empty() && is_there(*path)) *path = absolute(*path);
  }
  config.run.resume = origin;
  return config;
}

config::Config configuration_of(const fs::path& directory, std::span<const std::string> settings,
                                std::string_view command, const fs::path& recorded_in) {
  config::Config config = config::stored_config(directory, settings, command);
  const fs::path then =
      recorded_in.empty() ? fs::path(config.run.dir) / config.run.name : recorded_in;
  const fs::path own_copy = directory / "tokenizer";
  const auto gone = [&](const char* key, const std::string& path) {
    return !path.empty() && !is_there(path) && !sets(settings, key);
  };
  if (gone("data.bpe", config.data.bpe) && is_there(own_copy)) {
    config.data.bpe = own_copy.string();
  }
  for (const auto& [key, path] : {std::pair{"data.path", &config.data.path},
                                  {"data.validation", &config.data.validation},
                                  {"data.bpe", &config.data.bpe}}) {
    if (!gone(key, *path)) continue;
    const fs::path relative = fs::path(*path).lexically_relative(then);
    const fs::path moved = (fs::absolute(directory) / relative).lexically_normal();
    if (!relative.empty() && is_there(moved)) *path = moved.string();
  }
  return config;
}

void require_same_model(const Checkpoint& checkpoint, const config::Config& config) {
  const auto& notes = checkpoint.state.notes;
  std::string text;
  for (const auto& [key, now] : config::model_facts(config)) {
    const auto then = notes.find(key);
    if (then == notes.end() || then->second == now) continue;
    text +=
        "\n  " + key + ": " + then->second + " in the checkpoint, " + now + " in the configuration";
  }
  if (text.empty()) return;
  throw std::runtime_error(normball::error_message(
      "open_checkpoint", checkpoint.path.string(), " belongs to another model:", text,
      "\nSet these back in ", (run_of(checkpoint.path) / "config.toml").string(),
      " (and wherever else the configuration comes from)"));
}

bool sets(std::span<const std::string> settings, std::string_view key) {
  return std::ranges::any_of(settings, [&](std::string_view setting) {
    return setting.substr(0, setting.find('=')) == key;
  });
}

}  // namespace normball::trainer::run
