// The files of a run directory beside its checkpoints: config.toml, the vocabulary, the curves.
#pragma once

#include <filesystem>
#include <string>

#include "trainer/run/metrics.h"

namespace normball::trainer::run {

// With them a run directory can be evaluated, sampled from and resumed by itself. `vocabulary` is
// the directory of GPT-2's files that the run uses, or empty.
void write_run_files(const std::filesystem::path& directory, const std::string& configuration,
                     const std::filesystem::path& vocabulary);

// The curves of a run that goes on with another one begin at its first step: metrics.jsonl, and
// TensorBoard's files, of which the next one says from which step on it counts instead. What is
// there already stays.
void copy_curves(const std::filesystem::path& from, const std::filesystem::path& to);

// Throws std::runtime_error, with the remedy, where config.toml or the last checkpoint was removed
// (empty: none) since, or metrics.jsonl is no longer what is written to: nobody could use such a
// run.
void require_run_files(const std::filesystem::path& directory, const MetricsWriter& metrics,
                       const std::filesystem::path& checkpoint);

// Names the checkpoint to the launcher that started this process (NORMBALL_CHECKPOINT_FILE), if one
// did: it starts a run again only where that has something new to go on from.
void tell_launcher(const std::filesystem::path& checkpoint) noexcept;

}  // namespace normball::trainer::run
