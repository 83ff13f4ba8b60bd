// The page: a summary, the fitted rates as curves, and one grid of margins (problems × norms) for
// each statement.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <sstream>

#include "lab/report.h"
#include "normball/base/text.h"
#include "page/page.h"
#include "plot/plot.h"

namespace normball::lab {
namespace {

// Escaped, with x^k and x^{k+1} as superscripts.
std::string formula(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '^' || at + 1 == text.size()) {
      out += page::escape(text.substr(at, 1));
      continue;
    }
    const bool braces = text[at + 1] == '{';
    const size_t end = braces ? std::min(text.find('}', at), text.size() - 1) : at + 1;
    const size_t begin = braces ? at + 2 : at + 1;
    out += "<sup>" + page::escape(text.substr(begin, braces ? end - begin : 1)) + "</sup>";
    at = end;
  }
  return out;
}

constexpr const char* style = R"(
main { max-width:1080px; padding:32px 24px 64px; }
h2 { font-size:20px; margin:40px 0 12px; }
p.lead { color:var(--soft); margin:4px 0 24px; max-width:760px; }
.cards { display:grid; grid-template-columns:repeat(auto-fit,minmax(150px,1fr)); gap:12px; }
.cards b { display:block; font-size:24px; line-height:1.2; } .cards span { color:var(--soft); font-size:13px; }
section.card { margin:14px 0; }
section h3 { margin:0; font-size:16px; font-family:ui-monospace,"DejaVu Sans Mono",monospace; }
section .paper { color:var(--soft); font-size:13px; margin-left:10px; font-family:system-ui,"DejaVu Sans",sans-serif; font-weight:normal; }
.claim { margin:6px 0 14px; } sup { font-size:75%; line-height:0; }
.scroll { overflow-x:auto; }
table { width:100%; border-collapse:separate; border-spacing:4px; font-variant-numeric:tabular-nums; }
th { font-weight:600; color:var(--soft); font-size:13px; padding:2px 8px; text-align:center; }
th.row { text-align:right; width:120px; }
td { border-radius:6px; padding:5px 10px; text-align:center; min-width:104px; font-size:14px; cursor:default; }
td.none { color:#b9c2cc; }
td.fail { background:var(--bad); color:#fff; font-weight:600; }
td.refuted { background:#fbe9cf; color:var(--note); }
.legend { color:var(--soft); font-size:13px; }
)";

// Margins from 1 (pale) to 1000 (full) on a logarithmic scale.
std::string shade(double margin) {
  const double t = std::clamp(std::log10(std::max(margin, 1.0)) / 3, 0.0, 1.0);
  const auto mix = [&](double from, double to) {
    return std::to_string(static_cast<int>(from + t * (to - from)));
  };
  return "background:rgb(" + mix(232, 150) + "," + mix(246, 214) + "," + mix(238, 180) + ")";
}

void cell(std::ostream& out, const std::vector<const Row*>& rows) {
  if (rows.empty()) {
    out << "<td class=\"none\">–</td>";
    return;
  }
  std::string title, shown;
  bool pass = true, counts = true;
  double least = INFINITY;
  for (const Row* row : rows) {
    pass = pass && row->pass;
    counts = row->counts;
    if (!row->rate) least = std::min(least, row->margin());
    title += (title.empty() ? "" : "\n") + row->setting + ": measured " +
             printed("%.6g", row->measured) + ", bound " + printed("%.6g", row->bound);
    if (row->rate) shown += (shown.empty() ? "" : ", ") + printed("%.3f", row->rate->slope);
  }
  if (shown.empty())
    shown = printed(least < 0.1 ? "%.0e" : least < 10 ? "%.2f" : "%.3g", least) + "×";
  out << "<td title=\"" << page::escape(title) << '"';
  if (pass) {
    out << " style=\"" << shade(std::isfinite(least) ? least : 10) << '"';
  } else {
    out << (counts ? " class=\"fail\"" : " class=\"refuted\"");
  }
  out << '>' << shown << "</td>";
}

void grid(std::ostream& out, const std::vector<const Row*>& rows) {
  std::vector<std::string> norms, names;
  std::map<std::pair<std::string, std::string>, std::vector<const Row*>> cells;
  const auto add = [](std::vector<std::string>& list, const std::string& name) {
    if (std::ranges::find(list, name) == list.end()) list.push_back(name);
  };
  for (const Row* row : rows) {
    add(norms, row->norm);
    add(names, row->problem);
    cells[{row->problem, row->norm}].push_back(row);
  }
  out << "<div class=\"scroll\"><table><tr><th></th>";
  for (const auto& norm : norms) out << "<th>" << page::escape(norm) << "</th>";
  out << "</tr>\n";
  for (const auto& name : names) {
    out << "<tr><th class=\"row\">" << page::escape(name) << "</th>";
    for (const auto& norm : norms) cell(out, cells[{name, norm}]);
    out << "</tr>\n";
  }
  out << "</table></div>\n";
}

// Means over seeds against n, both logarithmic, with a line of slope −1/4 for the eye.
plot::Figure rate_figure(const std::vector<const Row*>& rows) {
  constexpr std::array<const char*, 8> colors = {"#0072b2", "#d97700", "#0f7a4f", "#b8479a",
                                                 "#5b6775", "#56b4e9", "#8c6d1f", "#c0262d"};
  plot::Figure figure{.title = "",
                      .subtitle = "",
                      .x_label = "horizon n",
                      .y_label = "mean over its first",
                      .curves = {},
                      .log_x = true};
  double first = INFINITY, last = 0;
  for (const Row* row : rows) {  // every curve begins at 1
    const RateFit& rate = *row->rate;
    plot::Curve curve{.name = row->norm + ": " + printed("%.3f", rate.slope) + " [" +
                              printed("%.3f", rate.low) + ", " + printed("%.3f", rate.high) + "]",
                      .values = {},
                      .svg_color = colors[figure.curves.size() % colors.size()],
                      .points = true};
    for (size_t i = 0; i < rate.means.size(); ++i) {
      curve.x.push_back(rate.horizons[i]);
      curve.values.push_back(rate.means[i] / rate.means[0]);
      first = std::min(first, curve.x.back());
      last = std::max(last, curve.x.back());
    }
    figure.curves.push_back(std::move(curve));
  }
  figure.curves.push_back({.name = "slope −0.25",
                           .values = {1, std::pow(last / first, -0.25)},
                           .svg_color = "#1d2733",
                           .dash = 3,
                           .x = {first, last}});
  return figure;
}

void rates(std::ostream& out, const std::vector<Row>& rows) {
  // One figure for each statement, problem and variant: norms side by side.
  std::map<std::string, std::vector<const Row*>> groups;
  for (const auto& row : rows) {
    if (!row.rate) continue;
    const auto comma = row.setting.find(", slope");
    const std::string variant =
        comma == std::string::npos ? "" : " · " + row.setting.substr(0, comma);
    groups[row.statement + " · " + row.problem + variant].push_back(&row);
  }
  if (groups.empty()) return;
  out << "<h2>Fitted rates</h2>\n<p class=\"lead\">Means over seeds, each curve divided by its "
         "first value. In brackets: the 95 % interval of the slope.</p>\n";
  for (const auto& [title, group] : groups) {
    out << "<section class=\"card\"><h3>" << page::escape(title) << "</h3>\n"
        << plot::to_svg(rate_figure(group)) << "</section>\n";
  }
}

void card(std::ostream& out, const std::string& value, const char* label, const char* look = "") {
  out << "<div class=\"card\"><b class=\"" << look << "\">" << value << "</b><span>" << label
      << "</span></div>\n";
}

std::string thousands(std::int64_t value) {
  std::string text = std::to_string(value);
  for (auto at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<size_t>(at), "\u202f");
  }
  return text;
}

}  // namespace

std::string to_html(const std::vector<Statement>& all, const std::vector<Row>& rows,
                    const Summary& summary, const Settings& settings) {
  std::ostringstream out;
  out << page::begin("normball lab", style) << '\n'
      << "<h1>normball lab</h1>\n<p class=\"lead\">The statements of “Generalized Gradient Norm "
         "Clipping &amp; Non-Euclidean (L0,L1)-Smoothness” as inequalities with all constants, "
         "checked on problems whose constants are proved in the norm used.</p>\n"
      << "<div class=\"cards\">\n";
  card(out, std::to_string(summary.failed), "violated inequalities",
       summary.failed == 0 ? "good" : "bad");
  card(out, std::to_string(summary.rows), "rows checked");
  card(out, std::to_string(summary.refuted), "printed forms refuted", "note");
  card(out, thousands(summary.descent_steps), "GGNC steps checked for descent");
  card(out, thousands(summary.steps), "optimizer steps in all");
  card(out, printed("%.0f s", summary.seconds), settings.quick ? "quick form" : "full form");
  out << "</div>\n<h2>Statements</h2>\n<p class=\"legend\">A cell is the margin, bound over "
         "measured, in the tightest of the settings that were run (hover for it); for rates it is "
         "the fitted slope, one for each variant.</p>\n";

  for (const auto& statement : all) {
    std::vector<const Row*> own;
    for (const auto& row : rows) {
      if (row.statement == statement.name) own.push_back(&row);
    }
    if (own.empty()) continue;
    out << "<section class=\"card\"><h3>" << page::escape(statement.name)
        << "<span class=\"paper\">" << page::escape(statement.paper)
        << "</span></h3>\n<p class=\"claim\">" << formula(statement.claim)
        << (statement.kind == Kind::Printed ? " <span class=\"note\">— does not hold; below 1 the "
                                              "problem shows it</span>"
                                            : "")
        << "</p>\n";
    grid(out, own);
    out << "</section>\n";
  }
  rates(out, rows);
  out << page::end();
  return out.str();
}

}  // namespace normball::lab
