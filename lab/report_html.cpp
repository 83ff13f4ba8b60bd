// The page: a summary, the fitted rates as curves, and one grid of margins (problems × norms) for
// each statement.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <sstream>

#include "lab/report.h"

namespace normball::lab {
namespace {

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// Escaped, with x^k and x^{k+1} as superscripts.
std::string formula(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '^' || at + 1 == text.size()) {
      out += escape(text.substr(at, 1));
      continue;
    }
    const bool braces = text[at + 1] == '{';
    const size_t end = braces ? std::min(text.find('}', at), text.size() - 1) : at + 1;
    const size_t begin = braces ? at + 2 : at + 1;
    out += "<sup>" + escape(text.substr(begin, braces ? end - begin : 1)) + "</sup>";
    at = end;
  }
  return out;
}

std::string number(double value, const char* pattern = "%.3g") {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, pattern, value);  // NOLINT: patterns are ours
  return buffer;
}

constexpr const char* style = R"(
:root { --ink:#1d2733; --soft:#5b6775; --line:#e3e8ee; --good:#0f7a4f; --bad:#c0262d; --note:#9a5b00; }
* { box-sizing:border-box; }
body { margin:0; background:#f5f7fa; color:var(--ink); font:15px/1.5 system-ui,"Segoe UI","DejaVu Sans",sans-serif; }
main { max-width:1080px; margin:0 auto; padding:32px 24px 64px; }
h1 { font-size:28px; margin:0 0 4px; } h2 { font-size:20px; margin:40px 0 12px; }
p.lead { color:var(--soft); margin:0 0 24px; max-width:760px; }
.cards { display:grid; grid-template-columns:repeat(auto-fit,minmax(150px,1fr)); gap:12px; }
.card { background:#fff; border:1px solid var(--line); border-radius:10px; padding:14px 16px; }
.card b { display:block; font-size:24px; line-height:1.2; } .card span { color:var(--soft); font-size:13px; }
.good { color:var(--good); } .bad { color:var(--bad); } .note { color:var(--note); }
section { background:#fff; border:1px solid var(--line); border-radius:10px; padding:18px 20px; margin:14px 0; }
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
svg { max-width:100%; height:auto; display:block; }
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
             number(row->measured, "%.6g") + ", bound " + number(row->bound, "%.6g");
    if (row->rate) shown += (shown.empty() ? "" : ", ") + number(row->rate->slope, "%.3f");
  }
  if (shown.empty())
    shown = number(least, least < 0.1 ? "%.0e" : least < 10 ? "%.2f" : "%.3g") + "×";
  out << "<td title=\"" << escape(title) << '"';
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
  for (const auto& norm : norms) out << "<th>" << escape(norm) << "</th>";
  out << "</tr>\n";
  for (const auto& name : names) {
    out << "<tr><th class=\"row\">" << escape(name) << "</th>";
    for (const auto& norm : norms) cell(out, cells[{name, norm}]);
    out << "</tr>\n";
  }
  out << "</table></div>\n";
}

// Means over seeds against n, both logarithmic, with a line of slope −1/4 for the eye.
std::string rate_plot(const std::vector<const Row*>& rows) {
  constexpr std::array<const char*, 8> colors = {"#0072b2", "#d97700", "#0f7a4f", "#b8479a",
                                                 "#5b6775", "#56b4e9", "#8c6d1f", "#c0262d"};
  constexpr double left = 64, top = 16, width = 560, height = 330, right = 290, bottom = 48;
  double x0 = INFINITY, x1 = 0, y0 = INFINITY, y1 = 0;
  for (const Row* row : rows) {  // every curve begins at 1
    for (size_t i = 0; i < row->rate->means.size(); ++i) {
      x0 = std::min(x0, row->rate->horizons[i]);
      x1 = std::max(x1, row->rate->horizons[i]);
      y0 = std::min(y0, row->rate->means[i] / row->rate->means[0]);
      y1 = std::max(y1, row->rate->means[i] / row->rate->means[0]);
    }
  }
  y0 = std::min(y0, std::pow(x1 / x0, -0.25));
  const auto px = [&](double n) { return left + width * std::log(n / x0) / std::log(x1 / x0); };
  const auto py = [&](double y) { return top + height * std::log(y1 / y) / std::log(y1 / y0); };
  std::ostringstream out;
  out.setf(std::ios::fixed);
  out.precision(1);
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << left + width + right << ' '
      << top + height + bottom << "\" font-size=\"13\" fill=\"#5b6775\">\n";
  for (double n = std::pow(10, std::ceil(std::log10(x0) - 1e-9)); n <= 1.01 * x1; n *= 10) {
    out << "<path d=\"M" << px(n) << ' ' << top << 'v' << height << "\" stroke=\"#e3e8ee\"/>"
        << "<text x=\"" << px(n) << "\" y=\"" << top + height + 20 << "\" text-anchor=\"middle\">"
        << number(n, "%.0f") << "</text>\n";
  }
  for (const double y : {1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01}) {
    if (y < y0 || y > y1) continue;
    out << "<path d=\"M" << left << ' ' << py(y) << 'h' << width << "\" stroke=\"#e3e8ee\"/>"
        << "<text x=\"" << left - 8 << "\" y=\"" << py(y) + 4 << "\" text-anchor=\"end\">"
        << number(y) << "</text>\n";
  }
  out << "<text x=\"" << left + width / 2 << "\" y=\"" << top + height + 42
      << "\" text-anchor=\"middle\">horizon n</text>\n"
      << "<path d=\"M" << px(x0) << ' ' << py(1) << 'L' << px(x1) << ' '
      << py(std::pow(x1 / x0, -0.25))
      << "\" stroke=\"#1d2733\" stroke-width=\"2\" stroke-dasharray=\"6 5\"/>\n";
  double label_y = top + 8;
  out << "<text x=\"" << left + width + 44 << "\" y=\"" << label_y + 4
      << "\" fill=\"#1d2733\">slope −0.25</text><path d=\"M" << left + width + 14 << ' ' << label_y
      << "h22\" stroke=\"#1d2733\" stroke-width=\"2\" stroke-dasharray=\"6 5\"/>\n";
  size_t index = 0;
  for (const Row* row : rows) {
    const char* color = colors[index++ % colors.size()];
    out << "<path fill=\"none\" stroke=\"" << color << "\" stroke-width=\"1.8\" d=\"";
    for (size_t i = 0; i < row->rate->means.size(); ++i) {
      out << (i == 0 ? 'M' : 'L') << px(row->rate->horizons[i]) << ' '
          << py(row->rate->means[i] / row->rate->means[0]);
    }
    out << "\"/>";
    for (size_t i = 0; i < row->rate->means.size(); ++i) {
      out << "<circle r=\"2.6\" fill=\"" << color << "\" cx=\"" << px(row->rate->horizons[i])
          << "\" cy=\"" << py(row->rate->means[i] / row->rate->means[0]) << "\"/>";
    }
    label_y += 20;
    out << "\n<path d=\"M" << left + width + 14 << ' ' << label_y << "h22\" stroke=\"" << color
        << "\" stroke-width=\"3\"/><text x=\"" << left + width + 44 << "\" y=\"" << label_y + 4
        << "\" fill=\"" << color << "\">" << escape(row->norm) << ": "
        << number(row->rate->slope, "%.3f") << " [" << number(row->rate->low, "%.3f") << ", "
        << number(row->rate->high, "%.3f") << "]</text>\n";
  }
  out << "</svg>\n";
  return out.str();
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
    out << "<section><h3>" << escape(title) << "</h3>\n" << rate_plot(group) << "</section>\n";
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
  out << "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      << "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      << "<title>normball lab</title><style>" << style << "</style></head><body><main>\n"
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
  card(out, number(summary.seconds, "%.0f s"), settings.quick ? "quick form" : "full form");
  out << "</div>\n<h2>Statements</h2>\n<p class=\"legend\">A cell is the margin, bound over "
         "measured, in the tightest of the settings that were run (hover for it); for rates it is "
         "the fitted slope, one for each variant.</p>\n";

  for (const auto& statement : all) {
    std::vector<const Row*> own;
    for (const auto& row : rows) {
      if (row.statement == statement.name) own.push_back(&row);
    }
    if (own.empty()) continue;
    out << "<section><h3>" << escape(statement.name) << "<span class=\"paper\">"
        << escape(statement.paper) << "</span></h3>\n<p class=\"claim\">"
        << formula(statement.claim)
        << (statement.kind == Kind::Printed ? " <span class=\"note\">— does not hold; below 1 the "
                                              "problem shows it</span>"
                                            : "")
        << "</p>\n";
    grid(out, own);
    out << "</section>\n";
  }
  rates(out, rows);
  out << "</main></body></html>\n";
  return out.str();
}

}  // namespace normball::lab
