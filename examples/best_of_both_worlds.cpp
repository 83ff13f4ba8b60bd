// The paper's question made visible: can one method be fast far from the solution, like normalized
// descent, and converge with a fixed step, like steepest descent? The problem is
//
//   f(X) = Σ_ij c_i (cosh(X_ij − T_ij) − 1),   c_i from 1 down to 1/10.
//
// Its curvature c cosh grows with its gradient c sinh without bound, so no step is short enough
// for steepest descent everywhere; but cosh ≤ 1 + |sinh| makes f (L0, L1)-smooth in every norm.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "normball/normball.h"
#include "plot/plot.h"

namespace {

using normball::Index;
using Matrix = std::vector<double>;

constexpr Index rows = 8, cols = 12;
constexpr double farthest = 12;  // |T_ij| at most; the gradient at the start grows like its exp

struct Options {
  std::string norm = "spectral";
  int steps = 1000;
  std::optional<double> lr, rho;
  std::string svg;
};

constexpr const char* help =
    R"(Steepest descent, normalized descent and GGNC on one badly scaled problem.

  --norm NAME   norm of the steps: spectral (default), sign, row, col, euclidean, rms, ...
  --steps N     steps of each run, 10 to 1000000 (default 1000)
  --lr X        longest step of GGNC, and the step of normalized descent (default: by theory)
  --rho X       clipping threshold of GGNC (default: by theory, L0 / L1)
  --svg FILE    also writes the plot as a figure
  --help        this text
)";

[[noreturn]] void usage_error(const std::string& text) {
  std::cerr << "best_of_both_worlds: " << text << '\n';
  std::exit(2);
}

template <class Number>
Number parse(const std::string& option, const std::string& text, Number least, Number most,
             const char* allowed) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || !(value >= least && value <= most)) {
    usage_error(option + " must be " + allowed + ", got '" + text + "'");
  }
  return value;
}

Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    if (name == "--help") {
      std::cout << help;
      std::exit(0);
    }
    std::optional<std::string> value;
    if (const auto equals = name.find('='); equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    constexpr std::array known = {"--norm", "--steps", "--lr", "--rho", "--svg"};
    if (std::ranges::find(known, name) == known.end()) {
      usage_error("unknown option '" + name +
                  "'; allowed: --norm, --steps, --lr, --rho, --svg, --help");
    }
    if (!value && i + 1 == argc) usage_error(name + " needs a value");
    if (!value) value = argv[++i];
    if (name == "--norm") options.norm = *value;
    if (name == "--svg") options.svg = *value;
    if (name == "--steps") {
      options.steps = parse(name, *value, 10, 1000000, "a whole number from 10 to 1000000");
    }
    if (name == "--lr") options.lr = parse(name, *value, 1e-12, 1e12, "a number, 1e-12 to 1e12");
    if (name == "--rho") options.rho = parse(name, *value, 1e-12, 1e12, "a number, 1e-12 to 1e12");
  }
  return options;
}

class Problem {
 public:
  Problem() {
    normball::Random random(1);
    for (double& target : targets_) target = farthest * (2 * random.uniform() - 1);
  }

  static double coefficient(size_t i) {
    return std::pow(10, -static_cast<double>(i / cols) / (rows - 1));
  }
  double value(const Matrix& x) const {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double half = std::sinh((x[i] - targets_[i]) / 2);  // cosh(t) − 1 = 2 sinh²(t/2)
      sum += coefficient(i) * 2 * half * half;
    }
    return sum;
  }
  void gradient(const Matrix& x, Matrix& g) const {
    for (size_t i = 0; i < x.size(); ++i) g[i] = coefficient(i) * std::sinh(x[i] - targets_[i]);
  }

 private:
  Matrix targets_ = Matrix(rows * cols);
};

struct Smoothness {
  double l0, l1;
};

// The Hessian's norm is at most K0 + K1 ‖∇f‖*: sup Σ c_i cosh(·) u_ij² over the unit ball, where
// cosh ≤ 1 + |sinh| and u∘u stays in every one of these balls, up to their scale. Growing by at
// most e^(K1 ‖x−y‖) it gives (L0, L1) = (K0, K1) / ln 2 for all ‖x−y‖ ≤ 1/L1.
Smoothness smoothness(const normball::ResolvedNorm& norm) {
  double all_rows = 0;
  for (Index i = 0; i < rows; ++i) all_rows += Problem::coefficient(static_cast<size_t>(i * cols));
  double largest = 0;  // sup Σ c_i u_ij² over the unit ball of the geometry
  switch (norm.geometry) {
    case normball::Geometry::MaxAbs:
      largest = cols * all_rows;
      break;
    case normball::Geometry::ColL2:
      largest = cols;
      break;
    case normball::Geometry::RowL2:
    case normball::Geometry::Operator:
      largest = all_rows;
      break;
    case normball::Geometry::Frobenius:
    case normball::Geometry::Oracle:
      largest = 1;
      break;
  }
  return {norm.scale * norm.scale * largest / std::numbers::ln2, norm.scale / std::numbers::ln2};
}

struct Run {
  std::string label;
  double lr = 0;
  double rho = 0;  // 0: none
  std::vector<double> dual_norms = {};
  double value = 0;
  int clipped = 0;
  bool diverged = false;

  // The first step with a dual norm of at most `share` of the initial one.
  std::string steps_to(double share) const {
    const auto found = std::ranges::find_if(
        dual_norms, [&](double dual) { return dual <= share * dual_norms.front(); });
    return found == dual_norms.end() ? "never" : std::to_string(found - dual_norms.begin());
  }
};

Run run(std::string label, const normball::Method& method, const normball::Norm& norm, int steps) {
  const Problem problem;
  Matrix x(rows * cols), g(rows * cols);
  normball::Optimizer<double> optimizer(
      method, {{.name = "x", .shape = {.rows = rows, .cols = cols}, .norm = norm}});
  const std::vector<normball::Parameter<double>> parameters = {
      {{x.data(), rows, cols}, {g.data(), rows, cols}}};

  Run result{.label = std::move(label), .lr = method.lr.value};
  if (std::holds_alternative<normball::Clipped>(method.rule)) result.rho = rho(method.rule);
  for (int k = 0; k < steps; ++k) {
    problem.gradient(x, g);
    result.diverged = std::ranges::any_of(g, [](double v) { return !(std::abs(v) < 1e100); });
    if (result.diverged) return result;
    const auto& report = optimizer.step(parameters);
    result.dual_norms.push_back(report.pairing);
    result.clipped += result.rho > 0 && report.clipped;
  }
  problem.gradient(x, g);
  result.dual_norms.push_back(normball::dual_norm(norm, parameters[0].gradient));
  result.value = problem.value(x);
  return result;
}

// The best that a fixed step can do: doubles the one that is safe at the start until it diverges.
Run best_steepest(double safe_lr, const normball::Norm& norm, int steps) {
  Run best;
  for (double lr = safe_lr;; lr *= 2) {
    Run next = run("SD, best fixed step", normball::sd(lr), norm, steps);
    if (next.diverged) return best.dual_norms.empty() ? next : best;
    if (best.dual_norms.empty() || next.dual_norms.back() < best.dual_norms.back()) best = next;
  }
}

void print_table(const std::vector<Run>& runs) {
  std::printf("  %-24s %9s %6s %16s %10s %10s %9s\n", "", "", "", "--- steps to ---", "", "final",
              "clipped");
  std::printf("  %-24s %9s %6s %8s %7s %10s %10s %9s\n", "method", "lr", "rho", "1e-2", "1e-6",
              "final f", "dual norm", "steps");
  for (const auto& r : runs) {
    char rho_text[16] = "-", clipped[16] = "-";
    if (r.rho > 0) {
      std::snprintf(rho_text, sizeof rho_text, "%.3g", r.rho);
      const double share = r.clipped / static_cast<double>(r.dual_norms.size() - 1);
      std::snprintf(clipped, sizeof clipped, "%.1f %%", 100 * share);
    }
    std::printf("  %-24s %9.2e %6s ", r.label.c_str(), r.lr, rho_text);
    if (r.diverged) {
      std::printf("%8s %7s   diverged at step %zu\n", "never", "never", r.dual_norms.size());
    } else {
      std::printf("%8s %7s %10.1e %10.1e %9s\n", r.steps_to(1e-2).c_str(), r.steps_to(1e-6).c_str(),
                  r.value, r.dual_norms.back(), clipped);
    }
  }
}

int compare(const Options& options, const normball::Norm& norm) {
  const auto [l0, l1] = smoothness(resolve(norm, {.rows = rows, .cols = cols}));
  const double rho = options.rho.value_or(l0 / l1);
  const double lr = options.lr.value_or(rho / (l0 + rho * l1));
  const int steps = options.steps;

  const Run ggnc = run("GGNC", normball::ggnc(lr, rho), norm, steps);
  const Run ucg = run("uCG", normball::ucg(lr), norm, steps);
  const Run short_ucg = run("uCG, a quarter of that", normball::ucg(lr / 4), norm, steps);
  const double initial = ggnc.dual_norms.front();
  const double safe_lr = 1 / (l0 + l1 * initial);
  const Run safe_sd = run("SD, safe at the start", normball::sd(safe_lr), norm, steps);
  const Run best_sd = best_steepest(safe_lr, norm, steps);
  const Run long_sd = run("SD, GGNC's gamma", normball::sd(lr / rho), norm, steps);

  std::printf(
      "Minimize f(X) = sum_ij c_i (cosh(X_ij - T_ij) - 1) over %dx%d matrices from X = 0, with "
      "c_i\n"
      "from 1 to 1/10, in the norm '%s'. f is not L-smooth: its curvature grows with its\n"
      "gradient. But it is (L0, L1)-smooth with L0 = %.3g and L1 = %.3g. At the start the dual "
      "norm\n"
      "of the gradient is %.3g. Every method steps along lmo(g); they differ in how far:\n\n"
      "  SD    lr ‖g‖*               steepest descent. lr = 1 / (L0 + L1 ‖g‖*) is safe at first;\n"
      "                              the best lr is found by doubling that until SD diverges.\n"
      "  uCG   lr                    normalized descent. Theory's floor is 2 L0 lr = %.2g.\n"
      "  GGNC  lr min(1, ‖g‖*/rho)   gradient norm clipping. %s\n"
      "                              %s\n\n"
      "\"Steps to\" counts until ‖g‖* has fallen to that share of its start, of %d steps.\n\n",
      static_cast<int>(rows), static_cast<int>(cols), to_string(norm).c_str(), l0, l1, initial,
      2 * l0 * lr, options.rho ? "rho was given." : "rho = L0 / L1, where both regimes meet.",
      options.lr ? "lr was given." : "lr = gamma rho, gamma = 1 / (L0 + rho L1): f never rises.",
      steps);
  print_table({long_sd, safe_sd, best_sd, ucg, short_ucg, ggnc});

  normball::plot::Figure figure{
      .title = "The best of both worlds",
      .subtitle = "A badly scaled problem that is (L0, L1)-smooth but not L-smooth, in the norm '" +
                  to_string(norm) + "'",
      .x_label = "step",
      .y_label = "dual norm of the gradient",
      .curves = {{"SD (best fixed step)", best_sd.dual_norms, 35, "#b8479a", 4},
                 {"uCG (normalized)", ucg.dual_norms, 33, "#d97700", 2},
                 {"GGNC (clipped)", ggnc.dual_norms, 36, "#0072b2", 0}}};
  const bool color = isatty(STDOUT_FILENO) && std::getenv("NO_COLOR") == nullptr;
  std::cout << '\n' << to_terminal(figure, 84, 20, color);

  if (options.svg.empty()) return 0;
  std::ofstream file(options.svg);
  file << to_svg(figure);
  file.close();
  if (!file) {
    std::cerr << "best_of_both_worlds: cannot write '" << options.svg << "'\n";
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  std::optional<normball::Norm> norm;
  try {
    norm = normball::parse_norm(options.norm);
  } catch (const std::invalid_argument& error) {
    usage_error(std::string("--norm: ") + error.what());
  }
  return compare(options, *norm);
}
