// A trained model, back from its run directory or one of its checkpoints.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "trainer/run/config.h"
#include "trainer/train/data_source.h"

namespace normball::trainer {

struct StoredRun {
  run::Config config;
  std::unique_ptr<DataSource> data;
  std::unique_ptr<Model> model;
  std::filesystem::path checkpoint;
  std::int64_t step = 0;
};

// `path`: a run directory, of which the best checkpoint is taken (the newest where none was
// evaluated), or a checkpoint directory. The settings ("eval.batch=100") change how the command,
// "eval" or "sample", works.
StoredRun open_run(const std::filesystem::path& path, std::span<const std::string> settings = {},
                   std::string_view command = "eval");

// Sets the threads of LibTorch and OpenMP; 0: as many as this process may use.
int use_threads(std::int64_t threads);

}  // namespace normball::trainer
