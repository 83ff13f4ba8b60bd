#include "trainer/sweep/page.h"

#include <map>

#include "normball/base/text.h"
#include "page/page.h"

namespace normball::trainer::sweep {
namespace {

using page::escape;

// What the pages of runs do not have.
constexpr const char* style = R"(
main { max-width: 1400px; padding: 28px 24px 64px; }
header { display: flex; flex-wrap: wrap; align-items: flex-end; gap: 8px 24px; margin-bottom: 18px; }
header p { margin: 0; color: var(--soft); }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th { text-align: right; font-weight: 600; font-size: 13px; color: var(--soft); padding: 4px 6px; vertical-align: bottom; }
td { text-align: right; padding: 7px 6px; border-top: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child, th.words, td.words { text-align: left; }
tbody tr:hover { background: var(--grid); } a { color: var(--accent); }
.pictures { display: flex; flex-wrap: wrap; gap: 16px; margin: 16px 0; }
.pictures .card { max-width: 100%; } .pictures svg { width: 100%; height: auto; }
ul.said { margin: 0 0 8px; padding-left: 20px; }
th.sortable { cursor: pointer; } th.sortable:hover { color: var(--ink); }
th[aria-sort="ascending"]::after { content: " ▲"; } th[aria-sort="descending"]::after { content: " ▼"; }
tr.best td { color: var(--bad); font-weight: 700; }
)";

// Sorts by the number in data-value, or the text.
constexpr const char* script = R"(
for (const head of document.querySelectorAll("th.sortable")) {
  head.tabIndex = 0;
  const sort = () => {
    const column = head.cellIndex, body = head.closest("table").tBodies[0];
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const compare = (a, b) => {
      const x = key(a), y = key(b);
      if (x === "" || y === "") return (x === "") - (y === "");  // unknown ones last, either way
      const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
      return down ? -order : order;
    };
    body.append(...[...body.rows].sort(compare));
  };
  head.addEventListener("click", sort);
  head.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
}
)";

std::string cell(const std::string& text, const std::string& value = "-", const char* kind = "") {
  return "<td" + std::string(kind) + (value == "-" ? "" : " data-value=\"" + escape(value) + "\"") +
         ">" + text + "</td>";
}

// The width that a picture is drawn for, at which its letters are of one size with the page's.
std::string width_of(const std::string& svg) {
  const std::string before = "viewBox=\"0 0 ";
  const auto begin = svg.find(before) + before.size();
  return svg.substr(begin, svg.find(' ', begin) - begin) + "px";
}

std::string states(const Point& point) {
  std::string text;
  const auto add = [&](int count, const char* what) {
    if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  add(point.diverged, "diverged");
  add(point.failed, "failed");
  add(point.missing, "not run");
  if (point.stopped > 0) text += (text.empty() ? "" : ", ") + point.stop;
  return text.empty() ? "finished" : escape(text);
}

std::string row_of(const Plan& plan, const Summary& summary, size_t index,
                   const std::map<std::string, const Result*>& by_cell,
                   const std::map<std::vector<size_t>, std::vector<const Cell*>>& cells) {
  const auto& point = summary.points[index];
  std::string row = summary.best == index ? "<tr class=\"best\">" : "<tr>";
  for (size_t i = 0; i < plan.axes.size(); ++i) {
    const auto& value = plan.axes[i].values[point.at[i]];
    row += cell(escape(value.label), value.number ? number_text(*value.number) : "-");
  }
  const auto estimate = point.estimate();
  row += estimate ? cell(value_text(summary.metric, estimate->value), number_text(estimate->value))
                  : cell("", "");
  row += estimate && estimate->count > 1 ? cell(value_text(summary.metric, estimate->low) + " to " +
                                                    value_text(summary.metric, estimate->high),
                                                number_text(estimate->high - estimate->low))
                                         : cell("", "");
  row += cell(states(point), "-", " class=\"words\"");
  std::string links;
  for (const Cell* one : cells.at(point.at)) {
    const auto found = by_cell.find(one->name);
    const std::string hint = found == by_cell.end() ? "not run" : found->second->reason;
    links.append(links.empty() ? "<a href=\"" : " <a href=\"").append(escape(one->name));
    links.append("/\" title=\"").append(escape(hint)).append("\">");
    links.append(std::to_string(one->seed)).append("</a>");
  }
  return row + cell(links, "-", " class=\"words\"") + "</tr>\n";
}

}  // namespace

std::string page_of(const Plan& plan, const Summary& summary, std::span<const Result> results,
                    std::span<const Picture> pictures) {
  std::map<std::string, const Result*> by_cell;
  for (const auto& result : results) by_cell[result.cell] = &result;
  const auto all = cells_of(plan);
  std::map<std::vector<size_t>, std::vector<const Cell*>> cells;
  for (const auto& one : all) cells[one.at].push_back(&one);

  std::string text = page::begin(plan.name, style);
  text += "<header><h1>" + escape(plan.name) + "</h1><p>" + escape(plan.base) + ", judged by " +
          escape(summary.metric.text()) + "</p></header>\n<section class=\"card\">";
  if (summary.best) {
    const auto& best = summary.points[*summary.best];
    text += std::string("<p><strong>Best") + (summary.complete() ? ": " : " so far: ") +
            escape(label_of(plan, best)) + "</strong>, " +
            value_text(summary.metric, best.estimate()->value) + "</p>";
  }
  text += "<ul class=\"said\">";
  for (const auto& remark : summary.remarks) text += "<li>" + escape(remark) + "</li>";
  text += "</ul></section>\n<section class=\"pictures\">";
  for (const auto& picture : pictures) {
    text += "<div class=\"card\"><div style=\"max-width: 100%; width: " + width_of(picture.svg) +
            "\">" + picture.svg + "</div></div>\n";
  }
  text += "</section>\n<section class=\"card scroll\"><table><thead><tr>";
  for (const auto& axis : plan.axes)
    text += "<th class=\"sortable\">" + escape(axis.name) + "</th>";
  text += "<th class=\"sortable\">" + escape(summary.metric.text()) +
          "</th><th class=\"sortable\">95 % interval of the mean</th><th class=\"words "
          "sortable\">state</th>"
          "<th class=\"words\">runs, by seed</th></tr></thead><tbody>\n";
  for (size_t i = 0; i < summary.points.size(); ++i)
    text += row_of(plan, summary, i, by_cell, cells);
  text += "</tbody></table></section>\n";
  return text + page::end("<script>" + std::string(script) + "</script>");
}

}  // namespace normball::trainer::sweep
