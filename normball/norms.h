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

#include <concepts>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "normball/matrix_view.h"
#include "normball/polar.h"
#include "normball/random.h"
#include "normball/shape.h"
#include "normball/workspace.h"

namespace normball {

struct Euclidean {
  friend bool operator==(const Euclidean&, const Euclidean&) = default;
};

struct Rms {
  friend bool operator==(const Rms&, const Rms&) = default;
};

// `transposed` everywhere: the weight is stored as (fan-in, fan-out), as embeddings (vocab, dim)
// are.
struct Sign {
  bool unit = false;  // the plain max-norm, without 1 / fan-in
  bool transposed = false;
  friend bool operator==(const Sign&, const Sign&) = default;
};

enum class SpectralScale {
  Hidden,  // √(out/in): RMS -> RMS
  Input,   // max(1, √(out/in)): image input
  OneHot,  // √out: one-hot input
  Unit,    // 1: the plain spectral norm, also for convolutions
};

struct Spectral {
  SpectralScale scale = SpectralScale::Hidden;
  bool transposed = false;
  PolarSolver solver = ExactPolar{};
  friend bool operator==(const Spectral&, const Spectral&) = default;
};

struct ColNorm {
  bool transposed = false;
  friend bool operator==(const ColNorm&, const ColNorm&) = default;
};

struct RowNorm {
  bool transposed = false;
  friend bool operator==(const RowNorm&, const RowNorm&) = default;
};

// Spectral for matrices and convolutions, Rms for vectors and scalars.
struct Auto {
  friend bool operator==(const Auto&, const Auto&) = default;
};

// Your own norm: one required function. Called from several threads at once.
class NormOracle {
 public:
  virtual ~NormOracle() = default;

  // out <- a minimizer of <d, out> over the unit ball; 0 for d = 0.
  virtual void lmo(ConstMatrixView<double> d, MatrixView<double> out) const = 0;
  virtual void lmo(ConstMatrixView<float> d, MatrixView<float> out) const;  // converts to double

  // Needed only where a rule or a report asks for it; throws by default.
  virtual double norm(ConstMatrixView<double> x) const;

  virtual std::string name() const { return "custom"; }
};

struct Custom {
  std::shared_ptr<const NormOracle> oracle = nullptr;
  friend bool operator==(const Custom&, const Custom&) = default;
};

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

// Every norm above is one of these geometries times a number that depends on the shape:
//   ‖x‖ = ‖x‖_geometry / scale,  lmo(d) = scale lmo_geometry(d),  ‖d‖* = scale ‖d‖*_geometry.
enum class Geometry {
  Frobenius,  // ‖x‖₂; dual ‖d‖₂
  MaxAbs,     // max |x_ij|; dual Σ |d_ij|
  RowL2,      // max_i ‖x_i‖₂; dual Σ_i ‖d_i‖₂
  ColL2,      // the same for columns
  Operator,   // largest singular value; dual Σ sigma
  Oracle,     // a user's
};

// Whether the LMO has to be stored: the others are cheap functions of d (see Direction).
constexpr bool needs_buffer(Geometry geometry) {
  return geometry == Geometry::Operator || geometry == Geometry::Oracle;
}

// A norm on a given shape.
struct ResolvedNorm {
  Geometry geometry = Geometry::Frobenius;
  double scale = 1;
  PolarSolver solver = ExactPolar{};
  std::shared_ptr<const NormOracle> oracle = nullptr;
};

ResolvedNorm resolve(const Norm& norm, const Shape& shape);

// The unit direction u = -lmo_geometry(d), not stored where it is a function of d and of lengths.
// lengths: 1 (Frobenius), rows (RowL2) or cols (ColL2) of them; u: only where needs_buffer().
template <class T>
struct Direction {
  double* lengths = nullptr;
  MatrixView<T> u = {};
};

// The number of lengths a direction needs.
Index direction_lengths(Geometry geometry, const Shape& shape);

// Throws for a user's x = lmo(d) with ⟨d, x⟩ > 0, which no ball around 0 can give.
template <class T>
void require_descent(const NormOracle& oracle, ConstMatrixView<T> d, ConstMatrixView<T> x);

// Fills the direction from d and returns <d, u>, the geometry's dual norm (an estimate where the
// solver is inexact).
template <class T>
double find_direction(const ResolvedNorm& norm, ConstMatrixView<T> d, Direction<T> direction,
                      Workspace& workspace, T* polar_state = nullptr, int threads = 1);

// out <- keep out + factor u
template <class T>
void add_direction(Geometry geometry, ConstMatrixView<T> d, const Direction<T>& direction,
                   double keep, double factor, MatrixView<T> out, Workspace& workspace);

// The bytes of scratch memory that add_direction() takes.
std::size_t add_direction_scratch(Geometry geometry, const Shape& shape);

namespace detail {
// The norm on x's own shape, or on the given one, of which x must be.
template <class T>
ResolvedNorm resolve_for(std::string_view where, const Norm&, const Shape*, std::string_view what,
                         ConstMatrixView<T> x);
template <class T>
double norm(const ResolvedNorm&, ConstMatrixView<T> x, Workspace&);
template <class T>
double dual_norm(const ResolvedNorm&, ConstMatrixView<T> d, Workspace&);
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
  return detail::norm<Element>(detail::resolve_for<Element>("norm", norm, shape, "x", x), x,
                               workspace);
}

// ‖d‖* = max <d, x> over ‖x‖ <= 1, computed without the LMO except for a user's norm.
template <class T>
double dual_norm(const Norm& norm, MatrixView<T> d, const Shape* shape = nullptr) {
  using Element = std::remove_const_t<T>;
  Workspace workspace;
  return detail::dual_norm<Element>(detail::resolve_for<Element>("dual_norm", norm, shape, "d", d),
                                    d, workspace);
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
