#include "trainer/train/resume_checks.h"

#include "normball/base/error.h"
#include "trainer/optim/routing.h"
#include "trainer/run/metrics.h"
#include "trainer/run/resume.h"

namespace normball::trainer::train {

void require_same_run(const std::filesystem::path& checkpoint, const config::Config& config) {
  constexpr size_t shown = 6;
  const auto conflicts =
      config::resume_conflicts(config::stored_config(run::run_of(checkpoint)), config);
  if (conflicts.empty()) return;
  std::string text;
  for (size_t i = 0; i < std::min(shown, conflicts.size()); ++i) text += "\n  " + conflicts[i];
  if (conflicts.size() > shown) {
    text += "\n  and " + std::to_string(conflicts.size() - shown) + " more";
  }
  normball::throw_invalid("train", checkpoint.string(),
                          " belongs to a run of another configuration:", text,
                          "\nset these back, or start a new run with --name");
}

void require_same_routes(const run::Checkpoint& checkpoint, const config::Config& config,
                         const models::Model& model) {
  if (checkpoint.state.notes.contains(optim::route_note)) return;
  const auto names = optim::routed_otherwise_before(config, model.parameters());
  if (names.empty()) return;
  normball::throw_invalid(
      "train", checkpoint.path.string(), " was written by an earlier version, in which the first ",
      "matching entry of norm.route decided; now the last one does, which changes the norm or ",
      "radius of ", names.front(),
      names.size() > 1 ? " and " + std::to_string(names.size() - 1) + " more" : "",
      ". To resume, edit norm.route in ", (run::run_of(checkpoint.path) / "config.toml").string(),
      " (and in the configuration you give) so that no parameter matches two entries that differ");
}

namespace {

// Checkpoints of earlier versions do not know their data.
void require_same_data(const run::Checkpoint& checkpoint, const config::Config& config,
                       const std::map<std::string, std::string>& facts) {
  const auto& notes = checkpoint.state.notes;
  const auto then = notes.find("training_data");
  if (then != notes.end() && then->second != facts.at("training_data")) {
    normball::throw_invalid("train", checkpoint.path.string(),
                            " was trained on other data: its checksum was ", then->second,
                            ", now it is ", facts.at("training_data"),
                            "; set data.path (and data.bpe) back, or start a new run "
                            "with --name");
  }
  const bool first_part_only = config.train.overfit_batch && config.train.accumulation() > 1 &&
                               !notes.contains("overfit_batch");
  if (first_part_only) {
    normball::throw_invalid(
        "train", checkpoint.path.string(),
        " was written by an earlier version, whose train.overfit_batch ",
        "took the first micro-batch, not the whole batch; start a new run with --name (",
        "train.batch = ", config.train.micro(), " trains on what it had)");
  }
}

}  // namespace

std::vector<std::string> compare_data(const run::Checkpoint& checkpoint,
                                      const config::Config& config,
                                      const std::map<std::string, std::string>& facts) {
  require_same_data(checkpoint, config, facts);
  const auto& notes = checkpoint.state.notes;
  const std::string since =
      " before and after step " + std::to_string(checkpoint.state.step) + " cannot be compared";
  std::vector<std::string> result;
  const auto validation = notes.find("validation_data");
  if (validation != notes.end() && validation->second != facts.at("validation_data")) {
    result.push_back("the validation data has changed: results" + since);
  }
  // Earlier versions evaluated eval.batches micro-batches where eval.batch is 0, and did not say
  // it.
  const auto evaluated = notes.find("evaluated");
  const bool other =
      config.eval.batch == 0 && config.eval.batches > 0 && config.train.accumulation() > 1;
  if (evaluated == notes.end() ? other : evaluated->second != facts.at("evaluated")) {
    result.push_back("evaluations cover " + facts.at("evaluated") +
                     (config.model.kind == "gpt" ? " windows" : " images") +
                     " now and did not before: results" + since);
  }
  return result;
}

std::optional<std::string> ranks_note(const run::Checkpoint& checkpoint, int ranks) {
  const auto& notes = checkpoint.state.notes;
  const auto found = notes.find("ranks");
  const std::string then = found == notes.end() ? "1" : found->second;
  if (then == std::to_string(ranks)) return std::nullopt;
  return "the run was on " + then + (then == "1" ? " rank" : " ranks") + " until step " +
         std::to_string(checkpoint.state.step) + ", now on " + std::to_string(ranks) +
         ": the same up to rounding, not to the bit";
}

std::optional<std::string> divergence_of(const std::filesystem::path& directory,
                                         std::int64_t step) {
  for (const auto& line : run::read_metrics(directory / "metrics.jsonl").lines) {
    if (line.step != step) continue;
    for (const auto& [name, value] : line.values) {
      const auto* text = std::get_if<std::string>(&value);
      if (name == "diverged" && text != nullptr) return *text;
    }
  }
  return std::nullopt;
}

std::optional<Evaluation> recorded_evaluation(const std::filesystem::path& directory,
                                              std::int64_t step) {
  std::optional<Evaluation> result;
  for (const auto& line : run::read_metrics(directory / "metrics.jsonl").lines) {
    const auto loss = line.number("val_loss");
    if (line.step != step || !loss) continue;
    result = Evaluation{
        .loss = *loss, .accuracy = line.number("val_accuracy"), .top5 = line.number("val_top5")};
  }
  return result;
}

}  // namespace normball::trainer::train
