#include "lab/report.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace normball::lab {

Summary summarize(const std::vector<Row>& rows, double seconds) {
  Summary summary{.rows = rows.size(),
                  .smallest_margin = std::numeric_limits<double>::infinity(),
                  .seconds = seconds};
  std::set<std::string> refuted;
  for (const auto& row : rows) {
    summary.steps += row.steps;
    if (row.statement == "descent") summary.descent_steps += row.steps;
    if (!row.counts) {
      if (!row.pass) refuted.insert(row.statement);
      continue;
    }
    summary.failed += !row.pass;
    if (row.rate || !(row.margin() < summary.smallest_margin)) continue;
    summary.smallest_margin = row.margin();
    summary.smallest_margin_row = row.statement + ", " + row.norm + ", " + row.problem;
  }
  summary.refuted = refuted.size();
  return summary;
}

std::string to_text(const Summary& summary) {
  std::ostringstream text;
  text.precision(4);
  text << summary.rows << (summary.rows == 1 ? " row, " : " rows, ") << summary.failed
       << " violated, " << summary.refuted
       << (summary.refuted == 1 ? " printed form refuted; " : " printed forms refuted; ")
       << summary.steps << (summary.steps == 1 ? " step" : " steps");
  if (summary.descent_steps > 0) {
    text << ", of them " << summary.descent_steps << " of GGNC checked for descent";
  }
  text << "; " << summary.seconds << " s\n";
  if (!summary.smallest_margin_row.empty()) {
    text << "smallest margin (bound / measured): " << summary.smallest_margin << " ("
         << summary.smallest_margin_row << ")\n";
  }
  return text.str();
}

std::string to_json(const std::vector<Row>& rows, const Summary& summary,
                    const Settings& settings) {
  using nlohmann::json;
  json out;
  out["settings"] = {{"quick", settings.quick},
                     {"seeds", settings.seeds},
                     {"stepsize_factor", settings.stepsize_factor},
                     {"forget", settings.forget}};
  out["summary"] = {{"rows", summary.rows},
                    {"violated", summary.failed},
                    {"printed_forms_refuted", summary.refuted},
                    {"steps", summary.steps},
                    {"descent_steps", summary.descent_steps},
                    {"smallest_margin", summary.smallest_margin},
                    {"smallest_margin_row", summary.smallest_margin_row},
                    {"seconds", summary.seconds}};
  for (const auto& row : rows) {
    json entry = {{"statement", row.statement}, {"norm", row.norm},     {"problem", row.problem},
                  {"setting", row.setting},     {"bound", row.bound},   {"measured", row.measured},
                  {"pass", row.pass},           {"counts", row.counts}, {"steps", row.steps}};
    if (row.rate) {
      entry["rate"] = {{"slope", row.rate->slope}, {"low", row.rate->low},
                       {"high", row.rate->high},   {"horizons", row.rate->horizons},
                       {"means", row.rate->means}, {"errors", row.rate->errors}};
    } else {
      entry["margin"] = row.margin();
    }
    out["rows"].push_back(std::move(entry));
  }
  return out.dump(2) + "\n";
}

}  // namespace normball::lab
