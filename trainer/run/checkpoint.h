// Checkpoints: directories checkpoints/step-<n>/ with model.safetensors, optimizer.safetensors and
// state.json. Each is written beside, synced and renamed: a crash at any instant leaves the
// previous one or the new one.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/run/checkpoint_state.h"
#include "trainer/run/safetensors.h"

namespace normball::trainer::run {

// An opened checkpoint, all checksums verified.
struct Checkpoint {
  std::filesystem::path path;
  CheckpointState state;
  SafetensorsFile model;
  SafetensorsFile optimizer;
};

// Reads every byte once. Throws std::runtime_error naming the file at fault.
Checkpoint open_checkpoint(const std::filesystem::path& path);

struct Retention {
  int last = 2;      // at least 1
  bool best = true;  // also the one with the best metric
};

class CheckpointStore {
 public:
  // The directory `checkpoints` of a run; it is created by the first save.
  explicit CheckpointStore(std::filesystem::path directory, Retention retention = {},
                           files::FileSystem& files = files::FileSystem::real());

  // The run's directory was renamed.
  void follow(std::filesystem::path directory) { directory_ = std::move(directory); }

  // Makes the checkpoint durable, then removes those that retention gives up. Throws FileError
  // naming the path and the last good checkpoint, which is then still there.
  std::filesystem::path save(CheckpointState state, std::span<const TensorView> model,
                             std::span<const TensorView> optimizer);

  struct Skipped {
    std::filesystem::path path;
    std::string reason;
  };
  struct Search {
    std::optional<Checkpoint> found;
    std::vector<Skipped> skipped;  // newer than the one found, but they cannot be read
  };
  Search latest() const;
  // The best by metric among the readable states.
  std::optional<std::filesystem::path> best() const;
  // Whatever has the name of a checkpoint, by step, the oldest first.
  std::vector<std::filesystem::path> list() const;

  // What an interrupted save or removal left behind; returns what was removed. Not while another
  // process saves.
  std::vector<std::filesystem::path> clean();
  struct Discarded {
    std::vector<std::filesystem::path> removed;
    std::vector<std::filesystem::path> set_aside;  // under their new names
  };
  // Before training goes on from `step`: checkpoints after it belong to a history that is given up
  // and are removed. Those that cannot be read are only renamed, to damaged-step-<n>: what is in
  // them may be all that is left. What retention gives up goes as well.
  Discarded discard_after(std::int64_t step);

 private:
  void write_files(const std::filesystem::path& into, CheckpointState& state,
                   std::span<const TensorView> model, std::span<const TensorView> optimizer);
  void give_name(const std::filesystem::path& temporary, const std::filesystem::path& path);
  void prune();
  void remove(const std::filesystem::path& checkpoint);
  std::filesystem::path set_aside(const std::filesystem::path& checkpoint);

  std::filesystem::path directory_;
  Retention retention_;
  files::FileSystem& files_;
  bool saved_before_ = false;
};

}  // namespace normball::trainer::run
