// The norms of the paper as small values, with their LMO, dual norm, sharp operator and sphere.
//
//   norm          unit-ball LMO of d                          typical use
//   Euclidean     -d / ‖d‖₂                                   vectors; LARS (Frobenius)
//   Rms           -d / ‖d‖_RMS,  ‖d‖_RMS = ‖d‖₂ / √size       biases, gains
//   Sign          -sign(d) / fan-in  (unit: -sign(d))         output layers, tied embeddings
//   Spectral      -√(out/in) UVᵀ (/ kernel for convolutions)  hidden layers
//   ColNorm       -√out column / ‖column‖₂                    one-hot input
//   RowNorm       -row / (√in ‖row‖₂)                         output layers
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "normball/matrix_view.h"
#include "normball/norms/auto.h"
#include "normball/norms/col_norm.h"
#include "normball/norms/custom.h"
#include "normball/norms/euclidean.h"
#include "normball/norms/resolved_norm.h"
#include "normball/norms/row_norm.h"
#include "normball/norms/sign.h"
#include "normball/norms/spectral.h"
#include "normball/random.h"
#include "normball/shape.h"
#include "normball/workspace.h"

namespace normball {

// A norm that is named here is known to the whole library; its file says what there is to know of
// it. See docs/extending.md.
using Norm = std::variant<Auto, Euclidean, Rms, Sign, Spectral, ColNorm, RowNorm, Custom>;

// What a layer does decides how its norm scales.
enum class Role { Input, OneHot, Hidden, Output, Bias };

// Input: Spectral, max(1, √(out/in)). OneHot: ColNorm, transposed. Hidden: Spectral.
// Output: Sign / fan-in. Bias: Rms.
Norm norm_for(Role role);

// "input", "onehot", "hidden", "output" or "bias".
Role parse_role(std::string_view text);
std::string to_string(Role role);

// "spectral", "spectral(input)", "spectral(onehot, transposed, solver=muon)", "sign", "sign(unit)",
// "row", "col(transposed)", "rms", "euclidean" (or "frobenius"), "auto"; or a role: "input",
// "onehot", "hidden", "output", "bias".
Norm parse_norm(std::string_view text);
// The same with this solver for a spectral norm that names none.
Norm parse_norm(std::string_view text, const PolarSolver& solver);
std::string to_string(const Norm& norm);
std::ostream& operator<<(std::ostream& out, const Norm& norm);

// The geometry and the number that the norm is on this shape.
ResolvedNorm resolve(const Norm& norm, const Shape& shape);

// ‖x‖ and ‖d‖* of a norm that is resolved already, without allocation where the workspace is warm.
template <class T>
double norm_of(const ResolvedNorm& norm, ConstMatrixView<T> x, Workspace& workspace);
template <class T>
double dual_norm_of(const ResolvedNorm& norm, ConstMatrixView<T> d, Workspace& workspace);

namespace detail {
// The norm on x's own shape, or on the given one, of which x must be.
template <class T>
ResolvedNorm resolve_for(std::string_view where, const Norm&, const Shape*, std::string_view what,
                         ConstMatrixView<T> x);
}  // namespace detail

// out <- lmo(d), the minimizer of <d, x> over ‖x‖ <= 1. lmo(0) = 0. Returns -<d, lmo(d)>.
// out may be d itself, and must not overlap it otherwise. The shape only matters for convolutions;
// it defaults to that of d. A d with NaN or infinity is an error.
template <class T>
double lmo(const Norm& norm, std::type_identity_t<ConstMatrixView<T>> d, MatrixView<T> out,
           const Shape* shape = nullptr);

// out <- d♯ = -‖d‖* lmo(d), the maximizer of <d, x> - ‖x‖²/2. Returns ‖d‖*. Throws where d♯ is
// beyond the numbers of its type; out is then of no use.
template <class T>
double sharp(const Norm& norm, std::type_identity_t<ConstMatrixView<T>> d, MatrixView<T> out,
             const Shape* shape = nullptr);

// ‖x‖. In every norm, and for the dual norm too: NaN where x has a NaN, else infinity where it has
// one.
template <class T>
double norm(const Norm& norm, MatrixView<T> x, const Shape* shape = nullptr) {
  using Element = std::remove_const_t<T>;
  Workspace workspace;
  return norm_of<Element>(detail::resolve_for<Element>("norm", norm, shape, "x", x), x, workspace);
}

// ‖d‖* = max <d, x> over ‖x‖ <= 1, computed without the LMO except for a user's norm.
template <class T>
double dual_norm(const Norm& norm, MatrixView<T> d, const Shape* shape = nullptr) {
  using Element = std::remove_const_t<T>;
  Workspace workspace;
  return dual_norm_of<Element>(detail::resolve_for<Element>("dual_norm", norm, shape, "d", d), d,
                               workspace);
}

// A random point with ‖x‖ = radius: semi-orthogonal, normalized Gaussian, or random signs.
template <class T>
void sample_sphere(const Norm& norm, const Shape& shape, double radius, MatrixView<T> x,
                   Random& random);

// How a layer starts: vectors (biases) at 0, all else on the sphere of the given radius.
template <class T>
void initialize(const Norm& norm, const Shape& shape, double radius, MatrixView<T> x,
                Random& random);

}  // namespace normball
