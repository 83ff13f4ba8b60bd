#include "trainer/train/stored_run.h"

#include "normball/base/error.h"
#include "trainer/data/data_error.h"
#include "trainer/run/checkpoint.h"
#include "trainer/run/resume.h"
#include "trainer/runtime/threads.h"
#include "trainer/train/model_builder.h"
#include "trainer/train/model_state.h"

namespace normball::trainer::train {
namespace {

namespace fs = std::filesystem;

bool is_checkpoint(const fs::path& path) { return fs::exists(path / "state.json"); }

template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw std::runtime_error(normball::error_message("open_run", parts...));
}

fs::path best_checkpoint(const fs::path& run) {
  const run::CheckpointStore store(run / "checkpoints");
  if (const auto best = store.best()) return *best;
  const auto all = store.list();
  if (all.empty()) fail(run.string(), " has no checkpoint yet");
  return all.back();
}

bool can_be_read(const fs::path& checkpoint) {
  try {
    run::open_checkpoint(checkpoint);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

run::Checkpoint open_best(const fs::path& run) {
  const fs::path best = best_checkpoint(run);
  try {
    return run::open_checkpoint(best);
  } catch (const std::runtime_error& error) {
    std::string others;
    for (const auto& path : run::CheckpointStore(run / "checkpoints").list()) {
      if (path != best && can_be_read(path)) others += "\n  " + path.string();
    }
    fail("the best checkpoint cannot be read: ", error.what(),
         others.empty() ? "\nNo other checkpoint of the run can be read; put back a copy"
                        : "\nOther checkpoints of the run can be read:",
         others);
  }
}

struct Opened {
  fs::path directory;
  run::Checkpoint checkpoint;
  config::Config config;
  std::vector<std::string> settings;

  // How the run made tokens of its data; empty where it had the shards' own, as prepared.
  std::string tokenizer() const {
    const auto note = checkpoint.state.notes.find("tokenizer");
    if (note != checkpoint.state.notes.end()) return note->second;
    if (config.data.kind != "text") return "";  // runs of earlier versions do not say it
    return config::stored_config(directory).data.bpe.empty() ? "bytes" : "gpt2";
  }
  // The key decides nothing here: one that was set is refused.
  void require_unset(const char* key, std::string_view why) const {
    if (!run::sets(settings, key)) return;
    throw config::SettingError(
        error_message("open_run", "--set ", key, "=...: has no effect: ", why, ". Leave it out"));
  }
};

Opened open_stored(const fs::path& path, std::span<const std::string> settings,
                   std::string_view command) {
  const fs::path directory = is_checkpoint(path) ? run::run_of(path) : path;
  config::stored_config(directory);  // says so where it is no run
  auto checkpoint = is_checkpoint(path) ? run::open_checkpoint(path) : open_best(path);
  const auto& notes = checkpoint.state.notes;
  const auto written_in = notes.find("directory");
  auto config = run::configuration_of(directory, settings, command,
                                      written_in == notes.end() ? "" : written_in->second);
  run::require_same_model(checkpoint, config);
  runtime::use_threads(config.run.threads);
  return {directory, std::move(checkpoint), std::move(config), {settings.begin(), settings.end()}};
}

std::unique_ptr<DataSource> open_data_of(const Opened& opened) {
  try {
    return open_data(opened.config);
  } catch (const std::exception& error) {
    throw std::runtime_error(
        std::string(error.what()) + "\nIf the data of " + opened.directory.string() +
        " has moved, name its new place with --set data.path=... (and data.validation, data.bpe, "
        "if it has them)");
  }
}

std::unique_ptr<models::Model> open_model(const Opened& opened, const DataFacts& facts) {
  auto model = build_model(opened.config, facts);
  load_tensors(opened.checkpoint.model, model_state(*model), "the model");
  return model;
}

// The run's own copy; runs of earlier versions have none.
data::Tokenizer tokenizer_of(const Opened& opened) {
  const auto& data = opened.config.data;
  const fs::path copy = opened.directory / "tokenizer";
  const bool bytes = opened.tokenizer() == "bytes", own = fs::exists(copy / "vocab.bpe");
  if (bytes || own) {
    const std::string why = bytes ? "the tokens of the run are bytes"
                                  : "the run has its vocabulary in " + copy.string();
    opened.require_unset("data.bpe", why);
    opened.require_unset("data.path", why);
    return bytes ? data::Tokenizer::bytes() : data::Tokenizer::gpt2(copy.string());
  }
  if (!data.bpe.empty()) {
    opened.require_unset("data.path", "data.bpe says what the tokens mean");
    return data::Tokenizer::gpt2(data.bpe);
  }
  const auto tokenizer = open_data_of(opened)->facts().tokenizer;
  if (!tokenizer)
    fail("the vocabulary of the tokens is unknown; name GPT-2's files with --set data.bpe=...");
  return *tokenizer;
}

}  // namespace

StoredRun open_run(const fs::path& path, std::span<const std::string> settings) {
  Opened opened = open_stored(path, settings, "eval");
  if (opened.config.data.kind == "shards") {
    opened.require_unset("data.bpe", "shards are tokens already");
  } else if (opened.tokenizer() == "bytes") {
    opened.require_unset("data.bpe", "the tokens of the run are bytes");
  }
  StoredRun stored;
  stored.data = open_data_of(opened);
  stored.model = open_model(opened, stored.data->facts());
  const auto& state = opened.checkpoint.state;
  const auto digest = state.notes.find("validation_data");
  stored.same_validation_data =
      digest == state.notes.end() || digest->second == stored.data->validation_digest();
  stored.config = std::move(opened.config);
  stored.checkpoint = opened.checkpoint.path;
  stored.step = state.step;
  return stored;
}

StoredWriter open_writer(const fs::path& path, std::span<const std::string> settings) {
  Opened opened = open_stored(path, settings, "sample");
  if (opened.config.model.kind != "gpt") {
    fail("the model of ", path.string(), " is ", opened.config.model.kind,
         "; only gpt writes text");
  }
  auto model = open_model(opened, {.unit = "tokens"});
  const auto* gpt = dynamic_cast<const models::Gpt*>(model.get());
  auto tokenizer = tokenizer_of(opened);
  return {std::move(opened.config), std::move(model), gpt, std::move(tokenizer)};
}

}  // namespace normball::trainer::train
