#include "normball/polar.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <sstream>

#include "normball/blas.h"
#include "normball/error.h"
#include "normball/kernels.h"
#include "normball/parallel.h"
#include "normball/polar_solvers.h"
#include "normball/text.h"

namespace normball {
namespace {

struct Preset {
  std::string_view name;
  std::vector<Quintic> steps;
  int default_steps;
};

// Coefficients: muon, Jordan et al. 2024; you, You 2025; polar_express, Amsel et al. 2025 (the
// steps after the first five tend to the last row); cans, Grishina et al. 2025; cubic, classical.
const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
      {"muon", {{3.4445, -4.7750, 2.0315}}, 5},
      {"you",
       {{4.0848, -6.8946, 2.9270},
        {3.9505, -6.3029, 2.6377},
        {3.7418, -5.5913, 2.3037},
        {2.8769, -3.1427, 1.2046},
        {2.8366, -3.0525, 1.2012}},
       5},
      {"polar_express",
       {{8.28721201814563, -23.595886519098837, 17.300387312530933},
        {4.107059111542203, -2.9478499167379106, 0.5448431082926601},
        {3.9486908534822946, -2.908902115962949, 0.5518191394370137},
        {3.3184196573706015, -2.488488024314874, 0.51004894012372},
        {2.300652019954817, -1.6689039845747493, 0.4188073119525673},
        {1.8913, -1.2680, 0.3768},
        {1.875, -1.25, 0.375}},
       5},
      {"cans",
       {{8.4703, -25.1081, 18.6293},
        {4.1828, -3.1087, 0.5806},
        {3.9619, -2.9541, 0.5630},
        {3.2866, -2.4647, 0.5074},
        {2.2737, -1.6447, 0.4162}},
       5},
      {"cubic", {{1.5, -0.5, 0}}, 15},
  };
  return all;
}

std::vector<std::string_view> solver_names() {
  std::vector<std::string_view> names = {"exact", "damped", "svd", "power", "custom"};
  for (const auto& preset : presets()) names.push_back(preset.name);
  return names;
}

Quintic parse_quintic(const std::string& text) {
  std::istringstream in(text);
  Quintic step{};
  std::string rest;
  if (!(in >> step[0] >> step[1] >> step[2]) || in >> rest) {
    detail::invalid("parse_polar_solver", "a step is three numbers 'a b c', got '", text, "'");
  }
  return step;
}

int take_count(TextCall& call, const char* key, int otherwise) {
  const double count = call.take_number(key, otherwise);
  if (!(count == std::floor(count) && std::abs(count) <= 1e6)) {
    detail::invalid("parse_polar_solver", key, " must be an integer up to 1e6, got ", count);
  }
  return static_cast<int>(count);
}

NewtonSchulz parse_preset(TextCall& call) {
  const auto usual = static_cast<int>(newton_schulz(call.name).steps.size());
  const int steps = take_count(call, "steps", usual);
  if (steps < 1) detail::invalid("parse_polar_solver", "steps must be at least 1, got ", steps);
  return newton_schulz(call.name, steps);
}

NewtonSchulz parse_custom(TextCall& call) {
  NewtonSchulz solver;
  solver.safety = call.take_number("safety", 1);
  for (const auto& argument : call.arguments) solver.steps.push_back(parse_quintic(argument.value));
  call.arguments.clear();
  if (solver.steps.empty()) {
    detail::invalid("parse_polar_solver", "'custom' needs the coefficients of its steps, such as ",
                    "'custom(3.4445 -4.775 2.0315, 3.4445 -4.775 2.0315)'");
  }
  return solver;
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

NewtonSchulz newton_schulz(std::string_view preset, int steps) {
  const auto& all = presets();
  const auto found = std::ranges::find(all, preset, &Preset::name);
  if (found == all.end()) {
    std::vector<std::string_view> names(all.size());
    std::ranges::transform(all, names.begin(), &Preset::name);
    detail::invalid("newton_schulz", unknown_name("preset", preset, names));
  }
  if (steps < 0) detail::invalid("newton_schulz", "steps must not be negative, got ", steps);
  if (steps == 0) steps = found->default_steps;
  NewtonSchulz solver{.steps = {}, .preset = std::string(preset)};
  for (int i = 0; i < steps; ++i) {
    solver.steps.push_back(
        found->steps[std::min<size_t>(static_cast<size_t>(i), found->steps.size() - 1)]);
  }
  if (preset == "polar_express") {
    // The authors guard against rounding above 1: every step but the last expects x / 1.01.
    constexpr double s = 1.01;
    solver.safety = s;
    for (size_t i = 0; i + 1 < solver.steps.size(); ++i) {
      auto& [a, b, c] = solver.steps[i];
      a /= s;
      b /= s * s * s;
      c /= s * s * s * s * s;
    }
  }
  return solver;
}

PolarSolver parse_polar_solver(std::string_view text) {
  auto call = TextCall::parse("parse_polar_solver", text);
  PolarSolver solver;
  const auto names = solver_names();
  if (call.name == "exact") {
    solver = ExactPolar{};
  } else if (call.name == "damped") {
    solver = DampedPolar{call.take_number("damping", DampedPolar{}.damping)};
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
    detail::invalid("parse_polar_solver", unknown_name("solver", call.name, names));
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

void validate(const PolarSolver& solver) {
  if (const auto* damped = std::get_if<DampedPolar>(&solver)) {
    if (!(damped->damping >= 1e-3 && damped->damping <= 1)) {
      detail::invalid("DampedPolar", "damping must be between 0.001 and 1, got ", damped->damping,
                      "; for less, use exact");
    }
  }
  if (const auto* power = std::get_if<PowerIteration>(&solver); power && power->rank < 1) {
    detail::invalid("PowerIteration", "rank must be at least 1, got ", power->rank);
  }
  if (const auto* iteration = std::get_if<NewtonSchulz>(&solver)) {
    if (iteration->steps.empty()) detail::invalid("NewtonSchulz", "needs at least one step");
    for (const auto& step : iteration->steps) {
      for (const double c : step) {
        if (!std::isfinite(c)) {
          detail::invalid("NewtonSchulz", "coefficients must be finite, got ", c);
        }
      }
    }
    detail::require_positive("NewtonSchulz", "safety", iteration->safety);
  }
}

Index polar_state_size(const PolarSolver& solver, Index rows, Index cols) {
  const auto* power = std::get_if<PowerIteration>(&solver);
  return power ? std::min(power->rank, std::min(rows, cols)) * std::max(rows, cols) : 0;
}

template <class T>
void polar(const PolarSolver& solver, ConstMatrixView<T> x, MatrixView<T> q, Workspace& workspace,
           T* state, int threads) {
  detail::require_view("polar", "x", x);
  detail::require_view("polar", "q", q);
  detail::require_same_size("polar", "q", q, "x", x);
  if (x.empty()) return;
  const double max = max_abs<T>(x);
  if (max == 0) return fill(q, T(0));
  const SingleThreadedBlas guard;
  // A power of two brings any finite input near 1 without rounding.
  const double scale = std::ldexp(1, -std::clamp(std::ilogb(max), -1000, 1000));
  const detail::PolarProblem<T> problem{x, scale, q, workspace, state, threads};
  struct Solve {
    const detail::PolarProblem<T>& p;
    void operator()(const ExactPolar&) const { exact_polar(p); }
    void operator()(const DampedPolar& s) const { damped_polar(s, p); }
    void operator()(const SvdPolar&) const { svd_polar(p); }
    void operator()(const NewtonSchulz& s) const { newton_schulz_polar(s, p); }
    void operator()(const PowerIteration& s) const { power_iteration_polar(s, p); }
  };
  std::visit(Solve{problem}, solver);
}

template <class T>
PolarError polar_error(ConstMatrixView<T> x, ConstMatrixView<T> q, Workspace& workspace) {
  detail::require_same_size("polar_error", "q", q, "x", x);
  if (x.empty()) return {};
  const SingleThreadedBlas guard;
  const Workspace::Frame frame(workspace);
  const bool wide = x.rows <= x.cols;
  const Index k = std::min(x.rows, x.cols);
  const auto gram = workspace.matrix<T>(k, k);
  const auto left = wide ? blas::Op::None : blas::Op::Transpose;
  const auto right = wide ? blas::Op::Transpose : blas::Op::None;

  PolarError error;
  blas::gemm<T>(1, q, left, q, right, 0, gram);
  for (Index i = 0; i < k; ++i) gram(i, i) -= T(1);
  error.orthogonality = l2_norm<T>(ConstMatrixView<T>(gram)) / std::sqrt(static_cast<double>(k));

  // Scaled by a power of two as in polar(), so that h neither overflows nor vanishes.
  const double max = max_abs<T>(x);
  const int exponent = max == 0 ? 0 : -std::clamp(std::ilogb(max), -1000, 1000);
  const auto scaled = workspace.matrix<T>(x.rows, x.cols);
  for_each_run(x, scaled, [&](const T* from, T* to, Index n) {
    kernels<T>().add_scaled(to, 0, from, std::ldexp(1, exponent), 1, n);
  });
  blas::gemm<T>(1, q, left, ConstMatrixView<T>(scaled), right, 0, gram);
  const double size = l2_norm<T>(ConstMatrixView<T>(gram));
  double skew = 0;
  for (Index i = 0; i < k; ++i) {
    for (Index j = i + 1; j < k; ++j) {
      const double difference = static_cast<double>(gram(i, j)) - static_cast<double>(gram(j, i));
      skew += 2 * difference * difference;
    }
  }
  error.asymmetry = size == 0 ? 0 : std::sqrt(skew) / size;
  return error;
}

template void polar(const PolarSolver&, ConstMatrixView<float>, MatrixView<float>, Workspace&,
                    float*, int);
template void polar(const PolarSolver&, ConstMatrixView<double>, MatrixView<double>, Workspace&,
                    double*, int);
template PolarError polar_error(ConstMatrixView<float>, ConstMatrixView<float>, Workspace&);
template PolarError polar_error(ConstMatrixView<double>, ConstMatrixView<double>, Workspace&);

}  // namespace normball
