#include "trainer/experiment/page.h"

#include <algorithm>

#include "normball/base/text.h"
#include "page/page.h"
#include "trainer/runtime/counted.h"

namespace normball::trainer::experiment {
namespace {

using page::escape;

constexpr const char* style = R"(
main { max-width: 1400px; padding: 28px 24px 64px; }
header { margin-bottom: 18px; } header p { margin: 4px 0 0; color: var(--soft); }
.scroll { overflow-x: auto; margin: 16px 0; }
table { width: 100%; border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; font-size: 13px; color: var(--soft); padding: 4px 6px; }
td { text-align: left; padding: 7px 6px; border-top: 1px solid var(--line); vertical-align: top; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 560px), 1fr)); gap: 16px; margin: 16px 0; }
.pictures svg { width: 100%; height: auto; max-height: 520px; }
.answer { font-weight: 700; white-space: nowrap; }
)";

const char* color_of(Answer answer) {
  return answer == Answer::Holds ? "good" : answer == Answer::DoesNotHold ? "bad" : "note";
}

std::string answer_of(Answer answer) {
  return "<span class=\"answer " + std::string(color_of(answer)) + "\">" +
         std::string(to_text(answer)) + "</span>";
}

std::string row(std::initializer_list<std::string> cells) {
  std::string text = "<tr>";
  for (const auto& cell : cells) text += "<td>" + cell + "</td>";
  return text + "</tr>\n";
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += (text.empty() ? "" : "<br>") + escape(line);
  return text;
}

std::string hours_text(double hours) { return printed("%.2f", hours); }

std::string seeds_text(std::span<const std::int64_t> seeds) {
  std::string text;
  for (const auto seed : seeds) text += (text.empty() ? "" : ", ") + std::to_string(seed);
  return text.empty() ? "none" : text;
}

std::string tuning_text(const Arm& arm) {
  return arm.tuning_points() > 1 ? std::to_string(arm.tuning_points()) + " points" : "nothing";
}

// The text of the experiment, and what these runs do otherwise.
std::string measured_text(const Experiment& experiment) {
  const bool as_said = !experiment.quick && experiment.changed.empty();
  if (as_said) return "<p>Measured here: " + escape(experiment.measured) + "</p>";
  std::string text = "<p>The experiment measures: " + escape(experiment.measured) +
                     "</p><p>Measured here: the same with other settings";
  for (const auto& setting : experiment.changed) {
    text += (&setting == &experiment.changed.front() ? ", <code>" : " <code>") + escape(setting) +
            "</code>";
  }
  text += experiment.quick ? ". This is a quick version with fewer seeds, in which nothing is "
                             "tuned; it decides nothing.</p>"
                           : ".</p>";
  return text;
}

// A bar would end the cell.
std::string in_table(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
  return escaped;
}

}  // namespace

std::string value_of_arm(const ArmState& state, const sweep::Metric& metric) {
  std::vector<double> values;
  for (const auto* run : state.runs) {
    if (run == nullptr) continue;
    const auto found = run->result.curves.find(metric.curve);
    if (found != run->result.curves.end()) values.push_back(sweep::value_of(found->second, metric));
  }
  if (values.empty()) return "";
  const auto estimate = sweep::mean_of(values);
  std::string text = sweep::value_text(metric, estimate.value);
  if (estimate.count > 1) {
    text += " (" + sweep::value_text(metric, estimate.low) + " to " +
            sweep::value_text(metric, estimate.high) + ")";
  }
  return text;
}

std::string page_of(const Experiment& experiment, const Decision& decision,
                    std::span<const sweep::Picture> pictures) {
  std::string text = page::begin(experiment.name, style);
  text += "<header><h1>" + escape(experiment.title) + "</h1><p>" + escape(experiment.question) +
          "</p></header>\n<section class=\"card\"><p>" + answer_of(decision.answer) +
          "</p><p>The statement: " + escape(experiment.statement) + "</p>" +
          measured_text(experiment) + "<p>Judged by " + escape(decision.metric.text()) +
          "; deciding seeds " + seeds_text(experiment.deciding_seeds) + ", tuning seeds " +
          seeds_text(experiment.tuning_seeds) + "; " +
          runtime::counted(static_cast<std::int64_t>(decision.runs), "run") + ", " +
          hours_text(decision.hours) + " hours of training in all.</p></section>\n";
  text +=
      "<section class=\"card scroll\"><table><thead><tr><th>claim</th><th>margin</th>"
      "<th>effect</th><th>verdict</th><th>why not decided</th></tr></thead><tbody>\n";
  for (size_t i = 0; i < experiment.claims.size(); ++i) {
    const auto& claim = experiment.claims[i];
    const auto& finding = decision.findings[i];
    text += row({escape(claim.text), number_text(claim.margin),
                 escape(effect_text(claim, decision.metric, finding)), answer_of(finding.answer),
                 escape(finding.reason)});
  }
  text +=
      "</tbody></table></section>\n<section class=\"card scroll\"><table><thead><tr>"
      "<th>arm</th><th>tuned over</th><th>chosen</th><th>" +
      escape(decision.metric.text()) +
      ", mean with 95 % interval</th><th>remarks</th></tr></thead><tbody>\n";
  for (const auto& arm : experiment.arms) {
    const auto& state = decision.arms.at(arm.name);
    text += row({escape(arm.name), tuning_text(arm), escape(chosen_text(state)),
                 escape(value_of_arm(state, decision.metric)), joined(state.objections)});
  }
  text += "</tbody></table></section>\n<section class=\"pictures\">";
  for (const auto& picture : pictures) {
    text += "<div class=\"card\"><p>" + escape(picture.file) + "</p>" + picture.svg + "</div>\n";
  }
  return text + "</section>\n" + page::end();
}

std::string markdown_row(const Experiment& experiment, const Decision& decision) {
  std::vector<std::string> said;
  const auto say = [&](const std::string& text) {
    if (!text.empty() && std::ranges::find(said, text) == said.end()) said.push_back(text);
  };
  for (size_t i = 0; i < experiment.claims.size(); ++i) {
    say(effect_text(experiment.claims[i], decision.metric, decision.findings[i]));
  }
  if (decision.runs > 0) {
    bool objected = false;
    for (const auto& arm : experiment.arms) {
      for (const auto& objection : decision.arms.at(arm.name).objections) {
        say(objection);
        objected = true;
      }
    }
    for (const auto& finding : decision.findings) {
      if (!objected) say(finding.reason);
    }
  }
  std::string details;
  for (const auto& text : said) details += (details.empty() ? "" : "; ") + text;
  return "| `" + experiment.name + "` | " + in_table(experiment.title) + " | **" +
         std::string(to_text(decision.answer)) + "** | " + in_table(details) + " | " +
         runtime::counted(static_cast<std::int64_t>(decision.runs), "run") + ", " +
         hours_text(decision.hours) + " h |";
}

}  // namespace normball::trainer::experiment
