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

}  // namespace normball::trainer::train
