#include "normball/polar.h"

#include <algorithm>
#include <cmath>

#include "normball/base/error.h"
#include "normball/base/parallel.h"
#include "normball/internal/kernels/kernels.h"
#include "normball/internal/polar/polar_solvers.h"

namespace normball {

void validate(const PolarSolver& solver) {
  if (const auto* damped = std::get_if<DampedPolar>(&solver)) {
    if (!(damped->damping >= 1e-3 && damped->damping <= 1)) {
      throw_invalid("DampedPolar", "damping must be between 0.001 and 1, got ", damped->damping,
                    "; for less, use exact");
    }
  }
  if (const auto* clipped = std::get_if<ClippedPolar>(&solver)) {
    if (clipped->tau == 0) {
      if (!(clipped->share > 0 && clipped->share <= 1)) {
        throw_invalid("ClippedPolar", "share must be above 0 and at most 1, got ", clipped->share);
      }
    } else {
      require_positive("ClippedPolar", "tau", clipped->tau);
      if (clipped->share != 0) {
        throw_invalid("ClippedPolar", "tau (", clipped->tau, ") and share (", clipped->share,
                      ") are two thresholds: choose one and set the other to 0");
      }
    }
  }
  if (const auto* power = std::get_if<PowerIteration>(&solver); power && power->rank < 1) {
    throw_invalid("PowerIteration", "rank must be at least 1, got ", power->rank);
  }
  if (const auto* iteration = std::get_if<NewtonSchulz>(&solver)) {
    if (iteration->steps.empty()) throw_invalid("NewtonSchulz", "needs at least one step");
    for (const auto& step : iteration->steps) {
      for (const double c : step) {
        if (!std::isfinite(c)) {
          throw_invalid("NewtonSchulz", "coefficients must be finite, got ", c);
        }
      }
    }
    require_positive("NewtonSchulz", "safety", iteration->safety);
  }
}

bool depends_on_scale(const PolarSolver& solver) {
  const auto* clipped = std::get_if<ClippedPolar>(&solver);
  return clipped != nullptr && clipped->tau != 0;
}

Index polar_state_size(const PolarSolver& solver, Index rows, Index cols) {
  const auto* power = std::get_if<PowerIteration>(&solver);
  return power ? std::min(power->rank, std::min(rows, cols)) * std::max(rows, cols) : 0;
}

template <class T>
void polar(const PolarSolver& solver, ConstMatrixView<T> x, MatrixView<T> q, Workspace& workspace,
           T* state, int threads) {
  require_view("polar", x, "x");
  require_view("polar", q, "q");
  require_same_size("polar", "q", q, "x", x);
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
    void operator()(const ClippedPolar& s) const { clipped_polar(s, p); }
    void operator()(const SvdPolar&) const { svd_polar(p); }
    void operator()(const NewtonSchulz& s) const { newton_schulz_polar(s, p); }
    void operator()(const PowerIteration& s) const { power_iteration_polar(s, p); }
  };
  std::visit(Solve{problem}, solver);
}

template void polar(const PolarSolver&, ConstMatrixView<float>, MatrixView<float>, Workspace&,
                    float*, int);
template void polar(const PolarSolver&, ConstMatrixView<double>, MatrixView<double>, Workspace&,
                    double*, int);

}  // namespace normball
