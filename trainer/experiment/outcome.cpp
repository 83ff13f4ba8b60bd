#include "trainer/experiment/outcome.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "normball/base/error.h"
#include "normball/base/text.h"
#include "trainer/config/config.h"
#include "trainer/files/atomic_file.h"
#include "trainer/report/earlier_ends.h"
#include "trainer/run/metrics.h"

namespace normball::trainer::experiment {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

constexpr int stretches = 20;
constexpr std::array<std::string_view, 9> evaluated = {
    "val_loss",        "val_accuracy", "full_loss",          "full_dual_norm", "full_gap",
    "probe_dual_norm", "probe_ratio",  "probe_dual_norm_l2", "probe_ratio_l2"};
constexpr std::array<std::string_view, 3> trained = {"loss", "dual_norm", "gap"};

double rounded(double value) { return std::strtod(printed("%.6g", value).c_str(), nullptr); }

Curve rounded(Curve curve) {
  for (auto& [step, value] : curve) value = rounded(value);
  return curve;
}

// Only finite values; a run that has others diverged, and decides nothing.
Curve curve_of(const std::vector<run::MetricsLine>& lines, std::string_view name) {
  Curve curve;
  for (const auto& line : lines) {
    const auto value = line.number(name);
    if (value && std::isfinite(*value)) curve.emplace_back(line.step, *value);
  }
  return curve;
}

Json to_json(const Outcome& outcome) {
  Json json = {{"arm", outcome.arm}};
  json.update(Json::parse(sweep::to_json(outcome.result)));
  for (const auto& [name, curve] : outcome.curves) {
    Json steps = Json::array(), values = Json::array();
    for (const auto& [step, value] : curve) {
      steps.push_back(step);
      values.push_back(value);
    }
    json["over_steps"][name] = {{"step", steps}, {"value", values}};
  }
  return json;
}

Outcome parse_outcome(const std::string& line, const std::string& where) {
  Outcome outcome{.arm = "", .result = sweep::parse_result(line, where)};
  try {
    const Json json = Json::parse(line);
    outcome.arm = json.at("arm");
    if (!json.contains("over_steps")) return outcome;
    for (const auto& [name, curve] : json["over_steps"].items()) {
      const auto& steps = curve.at("step");
      const auto& values = curve.at("value");
      if (steps.size() != values.size()) throw_invalid(where, name, " has not as many values");
      auto& points = outcome.curves[name];
      for (size_t i = 0; i < steps.size(); ++i) points.emplace_back(steps[i], values[i]);
    }
    return outcome;
  } catch (const Json::exception&) {
    throw_invalid(where,
                  "is not a result of an experiment, or only a part of one; remove the line, ",
                  "and the same command reads its run again");
  }
}

}  // namespace

Curve stretch_means(const Curve& curve, int count) {
  if (curve.empty()) return {};
  const auto last = curve.back().first;
  Curve result;
  size_t next = 0;
  for (int i = 1; i <= count; ++i) {
    const auto end = last * i / count;
    double sum = 0;
    int points = 0;
    for (; next < curve.size() && curve[next].first <= end; ++next) {
      sum += curve[next].second;
      ++points;
    }
    if (points > 0) result.emplace_back(end, sum / points);
  }
  return result;
}

Outcome outcome_of(const std::string& arm, const sweep::Plan& plan, const sweep::Cell& cell,
                   const fs::path& run, const std::string& failure) {
  Outcome outcome{.arm = arm, .result = sweep::result_of(plan, cell, run, failure)};
  if (outcome.result.status != sweep::Status::Finished) return outcome;
  auto lines = run::read_metrics(run / "metrics.jsonl").lines;
  const auto recorded = config::stored_config(run).run;
  report::remove_earlier_ends(lines, recorded.log_every, recorded.eval_every);
  const auto add = [&](std::string_view name, Curve curve) {
    if (!curve.empty()) outcome.curves[std::string(name)] = rounded(std::move(curve));
  };
  for (const auto name : evaluated) add(name, curve_of(lines, name));
  for (const auto name : trained) add(name, stretch_means(curve_of(lines, name), stretches));
  return outcome;
}

std::vector<Outcome> read_outcomes(const fs::path& file, std::string* left_out) {
  std::vector<Outcome> outcomes;
  sweep::for_each_result(
      file,
      [&](const std::string& line, const std::string& where) {
        outcomes.push_back(parse_outcome(line, where));
      },
      left_out);
  return outcomes;
}

void write_outcomes(const fs::path& file, std::span<const Outcome> outcomes) {
  std::string text;
  for (const auto& outcome : outcomes) {
    text += to_json(outcome).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  files::write_file_atomically(files::FileSystem::real(), file, text);
}

const Outcome* find_outcome(std::span<const Outcome> outcomes, const std::string& arm,
                            const sweep::Cell& cell) {
  const auto found = std::ranges::find_if(outcomes, [&](const Outcome& outcome) {
    return outcome.arm == arm && outcome.result.cell == cell.name &&
           outcome.result.settings == cell.settings;
  });
  return found == outcomes.end() ? nullptr : &*found;
}

}  // namespace normball::trainer::experiment
