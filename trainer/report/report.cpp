#include "trainer/report/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "normball/base/error.h"
#include "normball/base/text.h"
#include "page/page.h"
#include "trainer/config/config.h"
#include "trainer/config/config_use.h"
#include "trainer/files/file_system.h"
#include "trainer/report/earlier_ends.h"
#include "trainer/report/report_assets.h"
#include "trainer/run/metrics.h"

namespace normball::trainer::report {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t points_shown = 2000;
constexpr std::array<std::string_view, 14> shown = {"loss",
                                                    "val_loss",
                                                    "val_accuracy",
                                                    "iterate_val_loss",
                                                    "iterate_val_accuracy",
                                                    "dual_norm",
                                                    "eta",
                                                    "lr",
                                                    "full_loss",
                                                    "full_dual_norm",
                                                    "full_gap",
                                                    "probe_ratio",
                                                    "step_length",
                                                    "rho"};

// Nothing where it cannot be read, and the reason.
std::optional<config::Config> read_config(const fs::path& directory, std::string& reason) {
  const fs::path path = directory / "config.toml";
  config::Config config;
  try {
    config::apply_toml(config, files::read_small_file(path, 1 << 20), path.string());
  } catch (const std::exception& error) {
    reason = error.what();
    return std::nullopt;
  }
  return config;
}

void take_settings(const config::Config& config, RunData& run) {
  run.settings = {{"method", config.optimizer.method},
                  {"schedule", config.schedule.kind},
                  {"model", config.model.kind},
                  {"data", config.data.kind},
                  {"batch", std::to_string(config.train.batch)},
                  {"seed", std::to_string(config.run.seed)}};
  if (const auto& rho = config.optimizer.rho) {
    run.settings["rho"] = rho->automatic ? "auto" : number_text(rho->number);
  }
  if (config::has_effect("optimizer.lr", config)) {
    run.settings["lr"] = number_text(config.optimizer.lr);
  }
  if (config.optimizer.stepsize != "none") run.settings["stepsize"] = config.optimizer.stepsize;
  if (config.train.average != "none") run.settings["average"] = config.train.average;
  for (const std::string& part : {config.model.kind, config.data.kind, config.data.path,
                                  config.data.validation, config.data.bpe}) {
    run.task += part + '\n';
  }
}

bool has(const run::MetricsLine& line, std::string_view name) {
  return std::ranges::any_of(line.values, [&](const auto& value) { return value.first == name; });
}

std::string text_of(const run::MetricsLine& line, std::string_view name) {
  for (const auto& [key, value] : line.values) {
    if (const auto* text = std::get_if<std::string>(&value); text && key == name) return *text;
  }
  return "";
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }

// Six digits are more than a screen shows, and keep the page small.
Json rounded(double value) {
  if (!std::isfinite(value)) return nullptr;
  return Json(std::stod(printed("%.6g", value)));
}

Json to_json(const RunData& run) {
  Json json = {{"name", run.name},
               {"settings", run.settings},
               {"steps", run.steps},
               {"seconds", number(run.seconds)},
               {"throughput", number(run.throughput)},
               {"items", run.items},
               {"clipped", number(run.clipped_share)},
               {"nonfinite", run.nonfinite_step ? Json(*run.nonfinite_step) : Json(nullptr)},
               {"skipped", run.skipped},
               {"diverged", run.diverged},
               {"remarks", run.remarks},
               {"curves", Json::object()}};
  for (const auto& [name, points] : run.curves) {
    Json step = Json::array(), seconds = Json::array(), value = Json::array();
    for (const auto& point : thin(points, points_shown)) {
      step.push_back(static_cast<std::int64_t>(point.step));
      seconds.push_back(rounded(point.seconds));
      value.push_back(rounded(point.value));
    }
    json["curves"][name] = {{"step", step}, {"seconds", seconds}, {"value", value}};
  }
  json["layers"] = Json::object();
  for (const auto& [name, map] : run.layers) {
    Json rows = Json::array();
    for (const auto& values : map.values) {
      Json row = Json::array();
      for (const double value : values) row.push_back(rounded(value));
      rows.push_back(std::move(row));
    }
    json["layers"][name] = {{"names", map.layers}, {"step", map.steps}, {"value", rows}};
  }
  return json;
}

// Text inside <script>: only "</" could end it early, "<!--" could open a comment.
std::string script_safe(std::string text) {
  for (size_t at = 0; (at = text.find('<', at)) != std::string::npos; at += 6) {
    text.replace(at, 1, "\\u003c");
  }
  return text;
}

// A value as the table without scripts has it.
std::string shown_value(double value) {
  if (!std::isfinite(value)) return "not finite";
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.4g", value);
  return buffer;
}

std::string setting_of(const RunData& run, const char* name) {
  const auto found = run.settings.find(name);
  return found == run.settings.end() ? "–" : page::escape(found->second);
}

// Where scripts do not run: the numbers, and why there are no curves.
std::string without_scripts(std::span<const RunData> runs) {
  constexpr std::array<std::pair<const char*, const char*>, 3> judges = {
      {{"val_accuracy", "accuracy"}, {"val_loss", "validation loss"}, {"loss", "training loss"}}};
  std::string text =
      "<noscript><p>The curves are drawn by JavaScript, which is switched off here; these are the "
      "runs and their last values.</p>\n<table><thead><tr><th>run</th><th>method</th><th>lr</th>"
      "<th>steps</th>";
  for (const auto& [key, label] : judges) text += std::string("<th>") + label + "</th>";
  text += "</tr></thead><tbody>\n";
  for (const auto& run : runs) {
    text += "<tr><td>" + page::escape(run.name) + "</td><td>" + setting_of(run, "method") +
            "</td><td>" + setting_of(run, "lr") + "</td><td>" + std::to_string(run.steps) + "</td>";
    for (const auto& [key, label] : judges) {
      const auto found = run.curves.find(key);
      const bool known = found != run.curves.end() && !found->second.empty();
      text += "<td>" + (known ? shown_value(found->second.back().value) : "–") + "</td>";
    }
    text += "</tr>\n";
    for (const auto& remark : run.remarks) {
      text += "<tr><td colspan=\"7\">" + page::escape(run.name + ": " + remark) + "</td></tr>\n";
    }
  }
  return text + "</tbody></table></noscript>";
}

std::string last_parts(const fs::path& path, std::ptrdiff_t count) {
  const auto all = std::distance(path.begin(), path.end());
  fs::path result;
  for (auto part = std::next(path.begin(), std::max<std::ptrdiff_t>(0, all - count));
       part != path.end(); ++part) {
    result /= *part;
  }
  return result.string();
}

}  // namespace

std::span<const std::string_view> curve_names() { return shown; }

bool of_one_task(std::span<const RunData> runs) {
  return std::ranges::all_of(runs, [&](const RunData& run) { return run.task == runs[0].task; });
}

RunData read_run(const fs::path& directory, EarlierEnds ends) {
  const fs::path path = directory / "metrics.jsonl";
  if (!fs::exists(path)) {
    throw std::runtime_error(
        normball::error_message("report", directory.string(),
                                " has no metrics.jsonl; name a run's directory, e.g. runs/first"));
  }
  RunData run;
  run.directory = fs::absolute(directory).lexically_normal();
  if (!run.directory.has_filename())
    run.directory = run.directory.parent_path();  // a slash at the end
  run.name = run.directory.filename().string();
  std::string unreadable;
  const auto config = read_config(directory, unreadable);
  run::Metrics metrics = run::read_metrics(path);
  if (config && ends == EarlierEnds::LeaveOut) {
    remove_earlier_ends(metrics.lines, config->run.log_every, config->run.eval_every);
  }
  run.layers = layer_maps(metrics.lines);
  if (metrics.lines.empty()) run.remarks.emplace_back("no step is logged yet");
  if (metrics.cut_off) run.remarks.emplace_back("the last line of metrics.jsonl is cut off");
  if (!metrics.damage.empty()) run.remarks.push_back("left out: " + metrics.damage);
  const run::MetricsLine* diverged = nullptr;
  bool stopped_at_last = false;
  double rate_sum = 0, clipped = 0;
  std::int64_t rates = 0, clipped_of = 0;
  for (const auto& line : metrics.lines) {
    const double seconds = line.number("seconds").value_or(NAN);
    run.steps = std::max(run.steps, line.step);
    if (std::isfinite(seconds)) run.seconds = std::max(run.seconds.value_or(0), seconds);
    const bool refused = has(line, "nonfinite"), stopped = has(line, "stopped");
    // Earlier versions wrote zeros for a step that was skipped.
    const bool of_no_meaning = refused && !stopped && !has(line, "skipped");
    for (const auto name : shown) {
      if (const auto value = line.number(name)) {
        run.curves[std::string(name)].push_back(
            {static_cast<double>(line.step), seconds, of_no_meaning ? NAN : *value});
      }
    }
    const auto loss = line.number("loss");
    if ((refused || (loss && !std::isfinite(*loss))) && !run.nonfinite_step) {
      run.nonfinite_step = line.step;
    }
    if (refused && !stopped) ++run.skipped;
    stopped_at_last = stopped;
    if (has(line, "diverged")) diverged = &line;
    for (const char* items : {"tokens", "images"}) {
      if (const auto rate = line.number(std::string(items) + "_per_second")) {
        run.items = items;
        rate_sum += *rate;
        ++rates;
      }
    }
    if (const auto flag = line.number("clipped")) {
      clipped += *flag;
      ++clipped_of;
    }
  }
  run.diverged = diverged != nullptr && diverged->step == run.steps;  // else it has gone on
  if (run.diverged) run.remarks.push_back("diverged: " + text_of(*diverged, "diverged"));
  if (run.nonfinite_step && !run.diverged) {
    const std::string at = std::to_string(*run.nonfinite_step);
    run.remarks.push_back(stopped_at_last ? "stopped at step " + std::to_string(run.steps) +
                                                ": loss or gradient were not finite"
                          : run.skipped > 0 ? "skipped " + std::to_string(run.skipped) +
                                                  (run.skipped == 1 ? " step" : " steps") +
                                                  " as not finite, the first at step " + at
                                            : "loss or gradient were not finite at step " + at);
  }
  if (rates > 0) run.throughput = rate_sum / static_cast<double>(rates);
  if (clipped_of > 0) run.clipped_share = clipped / static_cast<double>(clipped_of);
  if (config) {
    take_settings(*config, run);
  } else {
    run.remarks.push_back(unreadable);
    run.unreadable = true;
  }
  return run;
}

void tell_apart(std::span<RunData> runs) {
  std::map<fs::path, int> seen;
  for (RunData& run : runs) {
    std::ptrdiff_t parts = 1;
    const auto is_taken = [&](const RunData& other) {
      return other.directory != run.directory &&
             last_parts(other.directory, parts) == last_parts(run.directory, parts);
    };
    while (std::ranges::any_of(runs, is_taken)) ++parts;
    run.name = last_parts(run.directory, parts);
    const int copy = ++seen[run.directory];
    if (copy > 1) run.name += " (" + std::to_string(copy) + ")";
  }
}

std::vector<CurvePoint> thin(const std::vector<CurvePoint>& points, size_t count) {
  if (points.size() <= count) return points;
  std::vector<CurvePoint> result;
  const size_t stretches = std::max<size_t>(count / 2, 1);
  for (size_t i = 0; i < stretches; ++i) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(i * points.size() / stretches);
    const auto end =
        points.begin() + static_cast<std::ptrdiff_t>((i + 1) * points.size() / stretches);
    // What is not finite is an extreme as well: the gap must show.
    const auto order = [](const CurvePoint& p) {
      return std::isfinite(p.value) ? p.value : INFINITY;
    };
    auto [low, high] = std::ranges::minmax_element(begin, end, {}, order);
    if (low > high) std::swap(low, high);
    result.push_back(*low);
    if (high != low) result.push_back(*high);
  }
  return result;
}

std::string report_page(std::span<const RunData> runs) {
  Json data = Json::array();
  for (const auto& run : runs) data.push_back(to_json(run));
  std::string scripts = "<script>";
  scripts += assets::chart_library();
  scripts += "</script>\n<script type=\"application/json\" id=\"runs\" data-one-task=\"";
  scripts += of_one_task(runs) ? "yes\">" : "no\">";
  scripts += script_safe(data.dump(-1, ' ', false, Json::error_handler_t::replace));
  scripts += "</script>\n<script>";
  scripts += assets::layers_script();
  scripts += assets::page_script();
  return page::begin("normball report", assets::page_style()) + without_scripts(runs) +
         page::end(scripts + "</script>");
}

}  // namespace normball::trainer::report
