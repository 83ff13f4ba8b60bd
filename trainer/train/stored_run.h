// A trained model, back from its run directory or one of its checkpoints.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "trainer/config/config.h"
#include "trainer/data/tokenizer.h"
#include "trainer/models/gpt.h"
#include "trainer/train/data_source.h"

namespace normball::trainer::train {

struct StoredRun {
  config::Config config;
  std::unique_ptr<DataSource> data;
  std::unique_ptr<models::Model> model;
  std::filesystem::path checkpoint;
  std::int64_t step = 0;
  bool same_validation_data = true;  // as far as the run has recorded it
};

// `path`: a run directory, of which the best checkpoint is taken (the newest where none was
// evaluated), or a checkpoint directory. The settings ("eval.batch=100") change how it is
// evaluated.
StoredRun open_run(const std::filesystem::path& path, std::span<const std::string> settings = {});

// A language model and what its tokens mean, without its data.
struct StoredWriter {
  config::Config config;
  std::unique_ptr<models::Model> model;
  const models::Gpt* gpt = nullptr;  // the model
  data::Tokenizer tokenizer;
};
StoredWriter open_writer(const std::filesystem::path& path,
                         std::span<const std::string> settings = {});

}  // namespace normball::trainer::train
