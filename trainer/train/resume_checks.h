// What must be true of a checkpoint for its run to continue; each throws, with the remedy.
#pragma once

#include <filesystem>

#include "trainer/config/config.h"
#include "trainer/models/model.h"
#include "trainer/run/checkpoint.h"

namespace normball::trainer::train {

// Names the first few keys that differ from those of the checkpoint's run.
void require_same_run(const std::filesystem::path& checkpoint, const config::Config& config);

// In checkpoints of earlier versions another entry of norm.route may have decided.
void require_same_routes(const run::Checkpoint& checkpoint, const config::Config& config,
                         const models::Model& model);

}  // namespace normball::trainer::train
