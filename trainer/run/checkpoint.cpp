#include "trainer/run/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "normball/base/error.h"
#include "trainer/config/config.h"

namespace normball::trainer::run {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view prefix = "step-";
// Entries with these prefixes are unfinished business of this program.
constexpr std::string_view temporary_prefix = ".tmp-", removal_prefix = ".remove-";
constexpr std::string_view damaged_prefix = "damaged-";
constexpr std::uintmax_t max_state = 256 << 10;
constexpr auto model_file = "model.safetensors";
constexpr auto optimizer_file = "optimizer.safetensors";
constexpr auto state_file = "state.json";

template <class... Parts>
[[noreturn]] void damaged(const Parts&... parts) {
  throw std::runtime_error(normball::error_message("open_checkpoint", parts...));
}

std::optional<std::int64_t> step_of(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(prefix)) return {};
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto result = std::from_chars(name.data() + prefix.size(), end, step);
  if (result.ec != std::errc() || result.ptr != end || step < 0) return {};
  return step;
}

CheckpointState read_state(const fs::path& checkpoint) {
  const fs::path path = checkpoint / state_file;
  CheckpointState state = parse_state(files::read_small_file(path, max_state), path.string());
  if (const auto step = step_of(checkpoint); step && *step != state.step) {
    damaged(path.string(), " is of step ", state.step, ", which its directory is not");
  }
  return state;
}

using States = std::vector<std::pair<fs::path, CheckpointState>>;

// The states that can be read, by step. A damaged checkpoint is left alone.
States readable(const std::vector<fs::path>& list) {
  States result;
  for (const auto& path : list) {
    try {
      result.emplace_back(path, read_state(path));
    } catch (const std::runtime_error&) {
      continue;
    }
  }
  return result;
}

// For states of earlier versions, which do not say: image models were judged by accuracy.
Better earlier_direction(const fs::path& checkpoints) {
  try {
    return config::stored_config(checkpoints.parent_path()).model.kind == "gpt" ? Better::Lower
                                                                                : Better::Higher;
  } catch (const std::exception&) {  // no configuration beside it
    return Better::Lower;
  }
}

std::optional<size_t> best_of(const States& states, const fs::path& checkpoints) {
  std::optional<size_t> best;
  for (size_t i = 0; i < states.size(); ++i) {
    const auto& [path, state] = states[i];
    if (!state.metric) continue;
    const auto better = state.better ? *state.better : earlier_direction(checkpoints);
    const double sign = better == Better::Lower ? 1 : -1;
    if (!best || sign * *state.metric < sign * *states[*best].second.metric) best = i;
  }
  return best;
}

bool is_whole(const fs::path& path) {
  try {
    open_checkpoint(path);
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

void verify(const fs::path& path, const CheckpointState& state) {
  const auto expected = state.files.find(path.filename().string());
  if (expected == state.files.end()) damaged(path.string(), " is not listed in ", state_file);
  const files::FileChecksum got = files::file_checksum(path);
  if (got.bytes != expected->second.bytes) {
    damaged(path.string(), " has ", got.bytes, " bytes where ", expected->second.bytes,
            " were written: it is damaged");
  }
  if (got.crc != expected->second.crc) {
    damaged(path.string(), " has checksum ", files::checksum_text(got.crc), " where ",
            files::checksum_text(expected->second.crc), " was written: it is damaged");
  }
}

}  // namespace

Checkpoint open_checkpoint(const fs::path& path) {
  if (!fs::is_directory(path)) damaged(path.string(), " is not a directory; check the path");
  CheckpointState state = read_state(path);
  verify(path / model_file, state);
  verify(path / optimizer_file, state);
  return {path, std::move(state), SafetensorsFile(path / model_file),
          SafetensorsFile(path / optimizer_file)};
}

CheckpointStore::CheckpointStore(fs::path directory, Retention retention, files::FileSystem& files)
    : directory_(std::move(directory)), retention_(retention), files_(files) {
  if (retention_.last < 1) {
    normball::throw_invalid("CheckpointStore", "at least the last checkpoint is kept, got ",
                            retention_.last);
  }
}

std::vector<fs::path> CheckpointStore::list() const {
  std::vector<fs::path> result;
  std::error_code error;
  if (fs::symlink_status(directory_, error).type() == fs::file_type::not_found) return result;
  // A file, a link to a disk that is not there, or a directory that may not be read: not the same
  // as having none.
  const fs::directory_iterator entries(directory_, error);
  if (error) throw files::FileError("CheckpointStore", "listing", directory_, error.value());
  for (const auto& entry : entries) {
    if (step_of(entry.path())) result.push_back(entry.path());
  }
  std::ranges::sort(result, {}, [](const fs::path& path) { return *step_of(path); });
  return result;
}

CheckpointStore::Search CheckpointStore::latest() const {
  Search search;
  auto paths = list();
  for (auto path = paths.rbegin(); path != paths.rend(); ++path) {
    try {
      search.found.emplace(open_checkpoint(*path));
      return search;
    } catch (const std::runtime_error& error) {
      search.skipped.push_back({*path, error.what()});
    }
  }
  return search;
}

std::optional<fs::path> CheckpointStore::best() const {
  const auto states = readable(list());
  const auto best = best_of(states, directory_);
  if (!best) return {};
  return states[*best].first;
}

fs::path CheckpointStore::save(CheckpointState state, std::span<const TensorView> model,
                               std::span<const TensorView> optimizer) {
  if (state.step < 0) normball::throw_invalid("save", "step ", state.step, " is negative");
  const std::string name = std::string(prefix) + std::to_string(state.step);
  const fs::path temporary = directory_ / (std::string(temporary_prefix) + name);
  const fs::path path = directory_ / name;
  try {
    // Later not those above it: where the run was renamed, they must not come into being again.
    if (!saved_before_) files::make_directories(files_, directory_);
    if (!fs::is_directory(directory_) && files_.make_directory(directory_.c_str()) < 0) {
      throw files::FileError("save_checkpoint", "creating the directory", directory_, errno);
    }
    saved_before_ = true;
    files::remove_all(files_, temporary);
    if (files_.make_directory(temporary.c_str()) < 0) {
      throw files::FileError("save_checkpoint", "creating the directory", temporary, errno);
    }
    write_files(temporary, state, model, optimizer);
    files::sync_directory(files_, temporary);
    give_name(temporary, path);
    files::sync_directory(files_, directory_);
  } catch (const files::FileError& error) {
    try {  // gives back the space; where even that fails, clean() does it later
      files::remove_all(files_, temporary);
    } catch (const std::exception&) {
    }
    const auto left = latest().found;
    throw files::FileError(error, left ? "; the last good checkpoint is " + left->path.string()
                                       : std::string("; there is no checkpoint yet"));
  }
  try {
    prune();
  } catch (const files::FileError& error) {
    throw files::FileError(error, "; " + path.string() + " itself has been saved");
  }
  return path;
}

void CheckpointStore::write_files(const fs::path& into, CheckpointState& state,
                                  std::span<const TensorView> model,
                                  std::span<const TensorView> optimizer) {
  const auto write = [&](const char* name, std::span<const TensorView> tensors) {
    files::OutputFile out(files_, into / name);
    write_safetensors(out, tensors, {{"format", "pt"}, {"step", std::to_string(state.step)}});
    out.finish();
    state.files[name] = {out.bytes(), out.crc()};
  };
  write(model_file, model);
  write(optimizer_file, optimizer);
  files::OutputFile out(files_, into / state_file);
  out.write(to_json(state));
  out.finish();
}

void CheckpointStore::give_name(const fs::path& temporary, const fs::path& path) {
  const auto rename = [&](const fs::path& from, const fs::path& to) {
    if (files_.rename(from.c_str(), to.c_str()) < 0) {
      throw files::FileError("save_checkpoint", "renaming " + from.string() + " to", to, errno);
    }
  };
  if (!fs::exists(path)) return rename(temporary, path);
  // The same step again, after a resume from an earlier or damaged one: swap, then drop the old.
  if (files_.exchange(temporary.c_str(), path.c_str()) == 0)
    return files::remove_all(files_, temporary);
  if (errno != EINVAL && errno != ENOSYS) {
    throw files::FileError("save_checkpoint", "exchanging " + temporary.string() + " and", path,
                           errno);
  }
  // A file system that cannot swap. Between the two renames the step has no name; what the run was
  // resumed from still has.
  const fs::path aside = directory_ / (std::string(removal_prefix) + path.filename().string());
  files::remove_all(files_, aside);
  rename(path, aside);
  try {
    rename(temporary, path);
  } catch (const files::FileError&) {
    rename(aside, path);
    throw;
  }
  files::remove_all(files_, aside);
}

void CheckpointStore::prune() {
  const auto states = readable(list());
  const auto best = retention_.best ? best_of(states, directory_) : std::nullopt;
  const size_t last = static_cast<size_t>(retention_.last);
  for (size_t i = 0; i + last < states.size(); ++i) {
    if (i != best) remove(states[i].first);
  }
}

// Renamed first: what has the name of a checkpoint is one.
void CheckpointStore::remove(const fs::path& checkpoint) {
  const fs::path aside =
      directory_ / (std::string(removal_prefix) + checkpoint.filename().string());
  files::remove_all(files_, aside);
  if (files_.rename(checkpoint.c_str(), aside.c_str()) < 0) {
    throw files::FileError("remove_checkpoint", "renaming " + checkpoint.string() + " to", aside,
                           errno);
  }
  files::remove_all(files_, aside);
}

std::vector<fs::path> CheckpointStore::clean() {
  std::vector<fs::path> stale;
  if (!fs::is_directory(directory_)) return stale;
  for (const auto& entry : fs::directory_iterator(directory_)) {
    const std::string name = entry.path().filename().string();
    for (const auto& mark : {temporary_prefix, removal_prefix}) {
      if (name.starts_with(std::string(mark) + std::string(prefix))) stale.push_back(entry.path());
    }
  }
  for (const auto& path : stale) files::remove_all(files_, path);
  return stale;
}

fs::path CheckpointStore::set_aside(const fs::path& checkpoint) {
  const fs::path first =
      directory_ / (std::string(damaged_prefix) + checkpoint.filename().string());
  fs::path aside = first;
  for (int copy = 2; fs::exists(fs::symlink_status(aside)); ++copy) {
    aside = first.string().append("-").append(std::to_string(copy));
  }
  if (files_.rename(checkpoint.c_str(), aside.c_str()) < 0) {
    throw files::FileError("set_aside", "renaming " + checkpoint.string() + " to", aside, errno);
  }
  return aside;
}

CheckpointStore::Discarded CheckpointStore::discard_after(std::int64_t step) {
  Discarded discarded;
  for (const auto& path : list()) {
    if (*step_of(path) <= step) continue;
    if (is_whole(path)) {
      remove(path);
      discarded.removed.push_back(path);
    } else {
      discarded.set_aside.push_back(set_aside(path));
    }
  }
  prune();  // what a crash kept the last save from
  return discarded;
}

}  // namespace normball::trainer::run
