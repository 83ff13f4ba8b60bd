#include "trainer/experiment/decision.h"

#include <algorithm>
#include <set>

#include "normball/base/text.h"
#include "trainer/sweep/pictures.h"

namespace normball::trainer::experiment {
namespace {

std::string count_of(size_t count, size_t all, const std::string& what) {
  return std::to_string(count) + " of " + std::to_string(all) + " " + what;
}

std::vector<sweep::Result> results_of(const std::vector<sweep::Cell>& cells, const std::string& arm,
                                      std::span<const Outcome> outcomes) {
  std::vector<sweep::Result> results;
  for (const auto& cell : cells) {
    if (const auto* outcome = find_outcome(outcomes, arm, cell)) results.push_back(outcome->result);
  }
  return results;
}

void tune(const Experiment& experiment, const Arm& arm, std::span<const Outcome> outcomes,
          ArmState& state) {
  state.tuning = tuning_plan(experiment, arm);
  if (arm.tuning_points() == 1) {
    state.chosen = std::vector<size_t>(arm.axes.size(), 0);
    return;
  }
  const auto cells = sweep::cells_of(state.tuning);
  const auto results = results_of(cells, arm.name, outcomes);
  const auto ended = std::ranges::count_if(results, [](const sweep::Result& result) {
    return result.status == sweep::Status::Finished || result.status == sweep::Status::Diverged;
  });
  if (!results.empty()) state.tuned = sweep::summarize(state.tuning, results);
  if (static_cast<size_t>(ended) < cells.size()) {
    state.objections.push_back(arm.name + ": " +
                               count_of(cells.size() - static_cast<size_t>(ended), cells.size(),
                                        "tuning runs are missing"));
    return;
  }
  if (!state.tuned->best) {
    state.objections.push_back(arm.name + ": no point of the grid finished");
    return;
  }
  state.chosen = state.tuned->points[*state.tuned->best].at;
  for (size_t i = 0; i < arm.axes.size(); ++i) {
    const auto remark = sweep::border_remark(arm.axes[i], (*state.chosen)[i]);
    if (!remark.empty()) state.objections.push_back(arm.name + ": " + remark);
  }
}

void collect(const Arm& arm, const sweep::Plan& plan, std::span<const Outcome> outcomes,
             ArmState& state) {
  size_t missing = 0, unfinished = 0;
  for (const auto& cell : sweep::cells_of(plan)) {
    const auto* outcome = find_outcome(outcomes, arm.name, cell);
    const bool finished = outcome != nullptr && outcome->result.status == sweep::Status::Finished;
    state.runs.push_back(finished ? outcome : nullptr);
    missing += outcome == nullptr ? 1 : 0;
    unfinished += outcome != nullptr && !finished ? 1 : 0;
  }
  const auto add = [&](size_t count, const std::string& what) {
    if (count > 0) {
      state.objections.push_back(arm.name + ": " + count_of(count, plan.seeds.size(), what));
    }
  };
  add(missing, "deciding runs are missing");
  add(unfinished, "deciding runs failed or diverged");
}

std::vector<double> values_of(const ArmState& state, const sweep::Metric& metric) {
  std::vector<double> values;
  for (const auto* run : state.runs) {
    const auto found = run->result.curves.find(metric.curve);
    if (found != run->result.curves.end()) {
      values.push_back(sweep::value_of(found->second, metric));
    }
  }
  return values;
}

std::vector<Curve> curves_of(const ArmState& state, const std::string& name) {
  std::vector<Curve> curves;
  for (const auto* run : state.runs) {
    const auto found = run->curves.find(name);
    if (found != run->curves.end()) curves.push_back(found->second);
  }
  return curves;
}

Finding change_of(const Claim& claim, const ArmState& state) {
  std::vector<double> late, early;
  for (const auto& curve : curves_of(state, claim.curve)) {
    const auto end = mean_within(curve, claim.late), begin = mean_within(curve, claim.early);
    if (!end || !begin) return {.reason = claim.curve + " has no points early or late"};
    late.push_back(*end);
    early.push_back(*begin);
  }
  if (late.size() != state.runs.size()) return {.reason = claim.curve + " was not recorded"};
  return judge_change(late, early, claim.kind == Kind::Rises, claim.margin);
}

Finding follows_of(const Claim& claim, const ArmState& state) {
  const auto y = curves_of(state, claim.curve), x = curves_of(state, claim.along);
  for (const auto& [name, curves] : {std::pair{&claim.curve, &y}, {&claim.along, &x}}) {
    if (curves->size() != state.runs.size()) return {.reason = *name + " was not recorded"};
  }
  return judge_follows(y, x, claim.margin);
}

Finding find(const Claim& claim, const sweep::Metric& metric, const ArmState& a,
             const ArmState& b) {
  switch (claim.kind) {
    case Kind::Rises:
    case Kind::Falls:
      return change_of(claim, a);
    case Kind::Follows:
      return follows_of(claim, a);
    case Kind::Faster: {
      const auto of_a = curves_of(a, metric.curve), of_b = curves_of(b, metric.curve);
      if (of_a.size() != a.runs.size() || of_b.size() != b.runs.size()) {
        return {.reason = metric.curve + " was not recorded"};
      }
      return judge_faster(of_a, of_b, claim.margin);
    }
    case Kind::Better:
    case Kind::Alike:
      break;
  }
  const auto of_a = values_of(a, metric), of_b = values_of(b, metric);
  if (of_a.size() != a.runs.size() || of_b.size() != b.runs.size()) {
    return {.reason = metric.curve + " was not recorded"};
  }
  if (claim.kind == Kind::Alike) return judge_alike(of_a, of_b, claim.margin);
  return judge_better(of_a, of_b, sweep::higher_is_better(metric.curve), claim.margin);
}

// What the arms of a claim object to; those of one that has a single arm count once.
std::string objections_of(const ArmState& a, const ArmState& b) {
  std::vector<std::string> all = a.objections;
  if (&a != &b) all.insert(all.end(), b.objections.begin(), b.objections.end());
  std::string text;
  for (const auto& one : all) text += (text.empty() ? "" : "; ") + one;
  return text;
}

void judge_claims(const Experiment& experiment, Decision& decision) {
  for (const auto& claim : experiment.claims) {
    const auto& a = decision.arms.at(claim.a);
    const auto& b = decision.arms.at(claim.b.empty() ? claim.a : claim.b);
    Finding finding;
    if (a.whole() && b.whole()) finding = find(claim, decision.metric, a, b);
    std::string why = objections_of(a, b);
    if (why.empty() && experiment.quick) why = "a quick run decides nothing";
    if (!why.empty()) {
      finding.answer = Answer::NotDecided;
      finding.reason = why;
    }
    decision.findings.push_back(finding);
  }
  decision.answer = all_of(decision.findings);
}

void count_runs(const Experiment& experiment, const Outcomes& outcomes, Decision& decision) {
  std::set<std::string> owners, names;
  for (const auto& arm : experiment.arms) owners.insert(arm.owner);
  for (const auto& owner : owners) {
    const auto found = outcomes.find(owner);
    if (found == outcomes.end()) continue;
    for (const auto& outcome : found->second) {
      const bool ours = std::ranges::any_of(experiment.arms, [&](const Arm& arm) {
        return arm.owner == owner && arm.name == outcome.arm;
      });
      if (!ours) continue;
      ++decision.runs;
      decision.hours += outcome.result.seconds / 3600;
    }
  }
}

std::span<const Outcome> of_owner(const Outcomes& outcomes, const Arm& arm) {
  const auto found = outcomes.find(arm.owner);
  return found == outcomes.end() ? std::span<const Outcome>() : found->second;
}

}  // namespace

bool ArmState::whole() const {
  return !runs.empty() &&
         std::ranges::none_of(runs, [](const Outcome* run) { return run == nullptr; });
}

Decision decide(const Experiment& experiment, const Outcomes& outcomes) {
  Decision decision{.metric = sweep::metric_of(experiment.metric, {}), .arms = {}, .findings = {}};
  for (const auto& arm : experiment.arms) {
    auto& state = decision.arms[arm.name];
    const auto known = of_owner(outcomes, arm);
    tune(experiment, arm, known, state);
    if (state.chosen) collect(arm, deciding_plan(experiment, arm, *state.chosen), known, state);
  }
  judge_claims(experiment, decision);
  count_runs(experiment, outcomes, decision);
  if (decision.runs == 0) {
    decision.answer = Answer::NotRun;
    for (auto& finding : decision.findings) finding = {.answer = Answer::NotRun};
  }
  return decision;
}

std::string chosen_text(const ArmState& state) {
  if (!state.chosen || state.chosen->empty()) return "";
  return sweep::label_of(state.tuning, {.at = *state.chosen, .values = {}});
}

std::string effect_text(const Claim& claim, const sweep::Metric& metric, const Finding& finding) {
  if (!finding.effect) return "";
  const auto& effect = *finding.effect;
  const bool ratio = claim.kind != Kind::Better && claim.kind != Kind::Alike;
  const bool points = !ratio && sweep::higher_is_better(metric.curve);  // of per cent
  const auto number = [&](double value) {
    if (points) return printed("%.2f", 100 * value);
    return ratio ? printed("%.3g", value) : sweep::value_text(metric, value);
  };
  const std::string what = claim.kind == Kind::Better ? claim.a + " better than " + claim.b + " by "
                           : claim.kind == Kind::Alike ? claim.a + " minus " + claim.b + ": "
                           : claim.kind == Kind::Faster
                               ? "steps of " + claim.a + " over those of " + claim.b + ": "
                           : claim.kind == Kind::Follows
                               ? "share of " + claim.curve + " that goes with " + claim.along + ": "
                               : claim.curve + " of " + claim.a + ", late over early: ";
  std::string text = what + number(effect.value) + (points ? " percentage points" : "");
  if (effect.count > 1) {
    text += " (" + std::string(claim.kind == Kind::Alike ? "90" : "95") + " % interval " +
            number(effect.low) + " to " + number(effect.high) + ", " +
            std::to_string(effect.count) + " seeds)";
  }
  return text;
}

std::string verdict_text(const Experiment& experiment, const Decision& decision) {
  std::string text = experiment.name + ": " + std::string(to_text(decision.answer)) + "\n";
  for (size_t i = 0; i < experiment.claims.size(); ++i) {
    const auto& claim = experiment.claims[i];
    const auto& finding = decision.findings[i];
    text += "- " + claim.text + ": " + std::string(to_text(finding.answer));
    if (const auto effect = effect_text(claim, decision.metric, finding); !effect.empty()) {
      text += "; " + effect;
    }
    if (!finding.reason.empty()) text += "; " + finding.reason;
    text += "\n";
  }
  return text;
}

}  // namespace normball::trainer::experiment
