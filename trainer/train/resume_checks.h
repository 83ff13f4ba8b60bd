// What must be true of a checkpoint for its run to continue; each throws, with the remedy.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/models/model.h"
#include "trainer/run/checkpoint.h"
#include "trainer/train/evaluation.h"

namespace normball::trainer::train {

// Names the first few keys that differ from those of the checkpoint's run.
void require_same_run(const std::filesystem::path& checkpoint, const config::Config& config);

// In checkpoints of earlier versions another entry of norm.route may have decided.
void require_same_routes(const run::Checkpoint& checkpoint, const config::Config& config,
                         const models::Model& model);

// Throws for other training data than the checkpoint's; notes what else of the data differs. The
// facts are as checkpoints have them.
std::vector<std::string> compare_data(const run::Checkpoint& checkpoint,
                                      const config::Config& config,
                                      const std::map<std::string, std::string>& facts);

// That the run was on another number of ranks, where it was.
std::optional<std::string> ranks_note(const run::Checkpoint& checkpoint, int ranks);

// What the metrics say of a run that took these steps in vain.
std::optional<std::string> divergence_of(const std::filesystem::path& directory, std::int64_t step);
// The result that they have of this step.
std::optional<Evaluation> recorded_evaluation(const std::filesystem::path& directory,
                                              std::int64_t step);

}  // namespace normball::trainer::train
