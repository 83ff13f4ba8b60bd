// What must be true of a checkpoint for its run to continue; each throws, with the remedy.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "trainer/config/config.h"
#include "trainer/models/model.h"
#include "trainer/run/checkpoint.h"

namespace normball::trainer::train {

// Names the first few keys that differ from those of the checkpoint's run.
void require_same_run(const std::filesystem::path& checkpoint, const config::Config& config);

// In checkpoints of earlier versions another entry of norm.route may have decided.
void require_same_routes(const run::Checkpoint& checkpoint, const config::Config& config,
                         const models::Model& model);

// What the metrics say of a run that took these steps in vain.
std::optional<std::string> divergence_of(const std::filesystem::path& directory, std::int64_t step);

}  // namespace normball::trainer::train
