#include "trainer/sweep/results.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "normball/base/error.h"
#include "normball/base/text.h"
#include "trainer/files/atomic_file.h"
#include "trainer/files/file_system.h"
#include "trainer/report/report.h"

namespace normball::trainer::sweep {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uintmax_t max_file = 256 << 20;
constexpr std::array<std::string_view, 4> status_names = {"finished", "diverged", "failed",
                                                          "stopped"};

Status parse_status(std::string_view text, std::string_view where) {
  for (size_t i = 0; i < status_names.size(); ++i) {
    if (status_names[i] == text) return static_cast<Status>(i);
  }
  throw_invalid(where, unknown_name("status", text, status_names));
}

std::string divergence_of(const report::RunData& run) {
  for (const auto& remark : run.remarks) {
    if (remark.starts_with("diverged")) return remark;
  }
  return "loss or gradient were not finite at step " + std::to_string(*run.nonfinite_step);
}

// A field that has a comma, a quote or a line break is quoted (RFC 4180).
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

}  // namespace

CurveSummary summary_of(std::span<const report::CurvePoint> points, bool higher) {
  CurveSummary result{.last = points.back().value, .tail = 0, .best = points.front().value};
  const double from = 0.75 * points.back().step;
  double sum = 0;
  int count = 0;
  for (const auto& point : points) {
    result.best = higher ? std::max(result.best, point.value) : std::min(result.best, point.value);
    if (point.step <= from && &point != &points.back()) continue;
    sum += point.value;
    ++count;
  }
  result.tail = sum / count;
  return result;
}

std::string_view to_text(Status status) { return status_names[static_cast<size_t>(status)]; }

bool higher_is_better(std::string_view metric) {
  return metric.find("accuracy") != std::string_view::npos;
}

Result result_of(const Plan& plan, const Cell& cell, const fs::path& directory,
                 const std::string& failure) {
  Result result{.cell = cell.name, .place = {}, .seed = cell.seed, .settings = cell.settings};
  for (size_t i = 0; i < plan.axes.size(); ++i) {
    result.place[plan.axes[i].name] = plan.axes[i].values[cell.at[i]].label;
  }
  result.status = failure.empty() ? Status::Finished : Status::Failed;
  result.reason = failure;
  if (!fs::exists(directory / "metrics.jsonl")) return result;
  const auto run = report::read_run(directory, report::EarlierEnds::LeaveOut);
  result.steps = run.steps;
  result.seconds = run.seconds.value_or(0);
  if (run.diverged || run.nonfinite_step) {
    result.status = Status::Diverged;
    result.reason = divergence_of(run);
  }
  for (const auto& [name, points] : run.curves) {
    std::vector<report::CurvePoint> finite = points;
    std::erase_if(finite,
                  [](const report::CurvePoint& point) { return !std::isfinite(point.value); });
    if (!finite.empty()) result.curves[name] = summary_of(finite, higher_is_better(name));
  }
  return result;
}

std::string to_json(const Result& result) {
  Json json = {{"cell", result.cell},
               {"place", result.place},
               {"seed", result.seed},
               {"settings", result.settings},
               {"status", to_text(result.status)},
               {"reason", result.reason},
               {"steps", result.steps},
               {"seconds", result.seconds},
               {"curves", Json::object()}};
  for (const auto& [name, curve] : result.curves) {
    json["curves"][name] = {{"last", curve.last}, {"tail", curve.tail}, {"best", curve.best}};
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result parse_result(std::string_view line, std::string_view where) {
  try {
    const Json json = Json::parse(line);
    Result result{.cell = json.at("cell"),
                  .place = json.at("place"),
                  .seed = json.at("seed"),
                  .settings = json.at("settings"),
                  .status = parse_status(json.at("status").get<std::string>(), where),
                  .reason = json.at("reason"),
                  .steps = json.at("steps"),
                  .seconds = json.at("seconds")};
    for (const auto& [name, curve] : json.at("curves").items()) {
      result.curves[name] = {
          .last = curve.at("last"), .tail = curve.at("tail"), .best = curve.at("best")};
    }
    return result;
  } catch (const Json::exception&) {
    throw_invalid(where, "is not a result of a sweep, or only a part of one; remove the line, and ",
                  "the same command reads its run again");
  }
}

std::vector<Result> read_results(const fs::path& file, std::string* left_out) {
  std::vector<Result> results;
  for_each_result(
      file,
      [&](const std::string& line, const std::string& where) {
        results.push_back(parse_result(line, where));
      },
      left_out);
  return results;
}

void for_each_result(const fs::path& file,
                     const std::function<void(const std::string&, const std::string&)>& use,
                     std::string* left_out) {
  std::string damage;
  files::for_each_line(file, max_file, [&](const std::string& line, const std::string& where) {
    if (!damage.empty()) throw std::invalid_argument(damage);  // it was not the last line
    try {
      use(line, where);
    } catch (const std::invalid_argument& error) {
      damage = error.what();
      if (left_out != nullptr) *left_out = where + " is cut off or damaged, and left out";
    }
  });
}

void write_results(const fs::path& file, std::span<const Result> results) {
  std::string text;
  for (const auto& result : results) text += to_json(result) + "\n";
  files::write_file_atomically(files::FileSystem::real(), file, text);
}

std::string to_csv(const Plan& plan, std::span<const Result> results) {
  std::set<std::string> curves;
  for (const auto& result : results) {
    for (const auto& [name, curve] : result.curves) curves.insert(name);
  }
  std::ostringstream text;
  text << "cell";
  for (const auto& axis : plan.axes) text << ',' << csv_field(axis.name);
  text << ",seed,status,reason,steps_done,seconds";
  for (const auto& name : curves) {
    text << ',' << name << "_last," << name << "_tail," << name << "_best";
  }
  text << '\n';
  for (const auto& result : results) {
    text << csv_field(result.cell);
    for (const auto& axis : plan.axes) {
      const auto found = result.place.find(axis.name);
      text << ',' << csv_field(found == result.place.end() ? "" : found->second);
    }
    text << ',' << result.seed << ',' << to_text(result.status) << ',' << csv_field(result.reason)
         << ',' << result.steps << ',' << number_text(result.seconds);
    for (const auto& name : curves) {
      const auto found = result.curves.find(name);
      if (found == result.curves.end()) {
        text << ",,,";
      } else {
        text << ',' << number_text(found->second.last) << ',' << number_text(found->second.tail)
             << ',' << number_text(found->second.best);
      }
    }
    text << '\n';
  }
  return text.str();
}

}  // namespace normball::trainer::sweep
