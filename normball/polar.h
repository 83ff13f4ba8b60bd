// The orthogonal polar factor UVᵀ of x = U diag(sigma) Vᵀ: what the spectral norm's LMO needs.
#pragma once

#include <array>
#include <iosfwd>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "normball/matrix_view.h"
#include "normball/workspace.h"

namespace normball {

// The default. Singular values up to max(rows, cols) epsilon times the largest are rounding and
// become 0. The others become 1 to within 2e-4 in float, for condition numbers up to 1e6; in double
// to within 1e-10 below and 1e-12 above, for condition numbers up to 1e10. See docs/polar.md.
struct ExactPolar {
  friend bool operator==(const ExactPolar&, const ExactPolar&) = default;
};

// U diag(sigma / sqrt(sigma² + delta²)) Vᵀ with delta = damping * sigma_max: the gradient of the
// smoothed nuclear norm Σ sqrt(sigma² + delta²). Unlike UVᵀ it is continuous where singular values
// vanish, so rounding and noise there do not become full-sized steps. It never leaves the ball, its
// pairing with x never exceeds the dual norm, and its cost does not depend on the spectrum: on
// ill-conditioned input about half of the exact one's.
struct DampedPolar {
  double damping = 1e-3;  // at least 1e-3, so that delta² exceeds float's rounding of x xᵀ

  friend bool operator==(const DampedPolar&, const DampedPolar&) = default;
};

// U diag(min(1, sigma / tau)) Vᵀ: singular values cut at tau instead of all set to one. That is x
// projected on the spectral ball of radius tau, divided by tau, and minimizes <-x, q> + tau
// ‖q‖_F²/2 over the unit ball: not an LMO, whose term tau is 0. It never leaves the ball, and its
// pairing with x is at most the dual norm. See docs/polar.md for what holds and what does not.
struct ClippedPolar {
  double share = 0.1;  // tau = share * sigma_max, in (0, 1]; or 0, and then
  double tau = 0;      // tau itself: what is small stays small, so that the step depends on ‖x‖

  friend bool operator==(const ClippedPolar&, const ClippedPolar&) = default;
};

// UVᵀ from LAPACK's singular value decomposition in double, with the same rule: the slow reference.
struct SvdPolar {
  friend bool operator==(const SvdPolar&, const SvdPolar&) = default;
};

// x <- a x + (b A + c A²) x with A = x xᵀ: one odd quintic step on the singular values.
using Quintic = std::array<double, 3>;

// A fixed number of quintic steps from x / (safety ‖x‖_F). Inexact: with the "muon" coefficients
// the singular values end up in [0.68, 1.20] (small ones below that), so the result can leave the
// unit ball and its pairing with x only estimates the dual norm.
struct NewtonSchulz {
  std::vector<Quintic> steps = {};
  std::string preset = "custom";  // a name for printing; see newton_schulz()
  double safety = 1;              // divides the start; keeps a preset's singular values below 1
  bool gram = false;              // iterate on x xᵀ only: pays where cols >> rows
  bool rescale_rows = false;      // first divide rows by sqrt of their Gram row sums (AOL)

  friend bool operator==(const NewtonSchulz&, const NewtonSchulz&) = default;
};

// Low rank: P polar(Pᵀx), where P approximately spans the leading left singular vectors. Each call
// does one subspace iteration, starting from the result of the previous call. Always inside the
// ball.
struct PowerIteration {
  Index rank = 8;

  friend bool operator==(const PowerIteration&, const PowerIteration&) = default;
};

using PolarSolver =
    std::variant<ExactPolar, DampedPolar, ClippedPolar, SvdPolar, NewtonSchulz, PowerIteration>;

// Presets: muon, you, polar_express, cans, cubic. steps == 0 means the usual number (cubic: 15).
NewtonSchulz newton_schulz(std::string_view preset = "muon", int steps = 0);

// "exact", "damped(damping=0.01)", "clip(share=0.1)", "clip(tau=2)", "svd", "power(rank=8)",
// "muon", "polar_express(steps=8, gram, rescale_rows)", "custom(1.5 -0.5 0, 1.5 -0.5 0)".
PolarSolver parse_polar_solver(std::string_view text);
std::string to_string(const PolarSolver& solver);
std::ostream& operator<<(std::ostream& out, const PolarSolver& solver);

// Throws std::invalid_argument if the solver's options are out of range.
void validate(const PolarSolver& solver);

// Whether the result depends on the scale of x: where singular values are cut at a given tau.
bool depends_on_scale(const PolarSolver& solver);

// The number of elements that power iteration keeps between calls for a matrix of this size (its
// basis, rank x the longer side), 0 for the other solvers.
Index polar_state_size(const PolarSolver& solver, Index rows, Index cols);

// q <- the polar factor of x. q must not overlap x. Finite x of any scale; zero maps to zero.
// `state` is polar_state_size() elements, zero before the first call. Large matrices use up to
// `threads` threads; the result does not depend on their number.
template <class T>
void polar(const PolarSolver& solver, ConstMatrixView<T> x, MatrixView<T> q, Workspace& workspace,
           T* state = nullptr, int threads = 1);

// How far q is from being a polar factor of x.
struct PolarError {
  double orthogonality = 0;  // ‖q qᵀ - I‖_F / sqrt(k), k = min(rows, cols): all of sigma(q) at 1?
  double asymmetry = 0;  // ‖h - hᵀ‖_F / ‖h‖_F for h = q xᵀ, which is symmetric for the true one
};

template <class T>
PolarError polar_error(ConstMatrixView<T> x, ConstMatrixView<T> q, Workspace& workspace);

}  // namespace normball
