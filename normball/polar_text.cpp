// Polar solvers from and to text.
#include <algorithm>
#include <cmath>
#include <ostream>
#include <sstream>

#include "normball/base/error.h"
#include "normball/base/text.h"
#include "normball/internal/polar/newton_schulz_presets.h"
#include "normball/polar.h"

namespace normball {
namespace {

std::vector<std::string_view> solver_names() {
  std::vector<std::string_view> names = {"exact", "damped", "clip", "svd", "power", "custom"};
  const auto presets = detail::newton_schulz_presets();
  names.insert(names.end(), presets.begin(), presets.end());
  return names;
}

Quintic parse_quintic(const std::string& text) {
  std::istringstream in(text);
  Quintic step{};
  std::string rest;
  if (!(in >> step[0] >> step[1] >> step[2]) || in >> rest) {
    throw_invalid("parse_polar_solver", "a step is three numbers 'a b c', got '", text, "'");
  }
  return step;
}

int take_count(TextCall& call, const char* key, int otherwise) {
  const double count = call.take_number(key, otherwise);
  if (!(count == std::floor(count) && std::abs(count) <= 1e6)) {
    throw_invalid("parse_polar_solver", key, " must be an integer up to 1e6, got ", count);
  }
  return static_cast<int>(count);
}

NewtonSchulz parse_preset(TextCall& call) {
  const auto usual = static_cast<int>(newton_schulz(call.name).steps.size());
  const int steps = take_count(call, "steps", usual);
  if (steps < 1) throw_invalid("parse_polar_solver", "steps must be at least 1, got ", steps);
  return newton_schulz(call.name, steps);
}

NewtonSchulz parse_custom(TextCall& call) {
  NewtonSchulz solver;
  solver.safety = call.take_number("safety", 1);
  for (const auto& argument : call.arguments) solver.steps.push_back(parse_quintic(argument.value));
  call.arguments.clear();
  if (solver.steps.empty()) {
    throw_invalid("parse_polar_solver", "'custom' needs the coefficients of its steps, such as ",
                  "'custom(3.4445 -4.775 2.0315, 3.4445 -4.775 2.0315)'");
  }
  return solver;
}

ClippedPolar parse_clip(TextCall& call) {
  const std::string given = call.take("tau", "");
  const double tau = given.empty() ? 0 : parse_number(call.where, "tau", given);
  if (tau == 0 && !given.empty()) {
    throw_invalid("ClippedPolar",
                  "tau must be positive, got 0; its limit is the LMO itself, exact");
  }
  return {.share = call.take_number("share", tau == 0 ? ClippedPolar{}.share : 0), .tau = tau};
}

std::string text_of(const ClippedPolar& solver) {
  if (solver == ClippedPolar{}) return "clip";
  return solver.tau == 0 ? call_text("clip", {"share=" + number_text(solver.share)})
                         : call_text("clip", {"tau=" + number_text(solver.tau)});
}

std::string text_of(const NewtonSchulz& solver) {
  std::string inside;
  const auto add = [&](const std::string& part) { inside += (inside.empty() ? "" : ", ") + part; };
  if (solver.preset == "custom") {
    for (const auto& [a, b, c] : solver.steps) {
      add(number_text(a) + " " + number_text(b) + " " + number_text(c));
    }
    if (solver.safety != 1) add("safety=" + number_text(solver.safety));
  } else if (solver.steps.size() != newton_schulz(solver.preset).steps.size()) {
    add("steps=" + std::to_string(solver.steps.size()));
  }
  if (solver.gram) add("gram");
  if (solver.rescale_rows) add("rescale_rows");
  return solver.preset + (inside.empty() ? "" : "(" + inside + ")");
}

}  // namespace

PolarSolver parse_polar_solver(std::string_view text) {
  auto call = TextCall::parse("parse_polar_solver", text);
  PolarSolver solver;
  const auto names = solver_names();
  if (call.name == "exact") {
    solver = ExactPolar{};
  } else if (call.name == "damped") {
    solver = DampedPolar{call.take_number("damping", DampedPolar{}.damping)};
  } else if (call.name == "clip") {
    solver = parse_clip(call);
  } else if (call.name == "svd") {
    solver = SvdPolar{};
  } else if (call.name == "power") {
    solver = PowerIteration{take_count(call, "rank", 8)};
  } else if (std::ranges::find(names, call.name) != names.end()) {
    const bool gram = call.take_flag("gram"), rescale = call.take_flag("rescale_rows");
    auto iteration = call.name == "custom" ? parse_custom(call) : parse_preset(call);
    iteration.gram = gram;
    iteration.rescale_rows = rescale;
    solver = iteration;
  } else {
    throw_invalid("parse_polar_solver", unknown_name("solver", call.name, names));
  }
  call.require_all_taken();
  validate(solver);
  return solver;
}

std::string to_string(const PolarSolver& solver) {
  struct Printer {
    std::string operator()(const ExactPolar&) const { return "exact"; }
    std::string operator()(const DampedPolar& s) const {
      return s == DampedPolar{} ? "damped" : "damped(damping=" + number_text(s.damping) + ")";
    }
    std::string operator()(const ClippedPolar& s) const { return text_of(s); }
    std::string operator()(const SvdPolar&) const { return "svd"; }
    std::string operator()(const NewtonSchulz& s) const { return text_of(s); }
    std::string operator()(const PowerIteration& s) const {
      return "power(rank=" + std::to_string(s.rank) + ")";
    }
  };
  return std::visit(Printer{}, solver);
}

std::ostream& operator<<(std::ostream& out, const PolarSolver& solver) {
  return out << to_string(solver);
}

}  // namespace normball
