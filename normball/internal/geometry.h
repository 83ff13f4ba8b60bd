// All that the library knows of a geometry: a struct of static functions beside the norms that are
// made of it (normball/norms/), turned into a table here. Internal.
//
// The unit direction is u = −lmo_geometry(d). It is stored where it is dear (StoredDirection); else
// it is a cheap function of d and of some lengths, computed twice rather than kept.
//
//   find        fills the direction from d and returns ⟨d, u⟩, the geometry's dual norm (an
//               estimate where a solver is inexact)
//   add         out <- keep out + factor u
//   norm        ‖x‖_geometry
//   dual_norm   ‖d‖*_geometry; what find() returns, where it is left out
#pragma once

#include <cstddef>
#include <type_traits>

#include "normball/internal/kernels/kernels.h"
#include "normball/norms/resolved_norm.h"
#include "normball/workspace.h"

namespace normball::detail {

enum class Lengths { None, One, Rows, Columns };

template <class T>
struct Direction {
  double* lengths = nullptr;  // as many as length_count()
  MatrixView<T> u = {};       // where it is stored
};

// What find() may use beside its result.
template <class T>
struct Scratch {
  Workspace& workspace;
  T* state = nullptr;  // state_size() elements that outlast a step, zero before the first
  int threads = 1;
};

// Rough nanoseconds of a step on so many rows of a layer.
inline double elementwise_cost(Index rows, Index cols) {
  return static_cast<double>(rows) * static_cast<double>(cols);
}

template <class T>
struct GeometryFunctions {
  double (*find)(const ResolvedNorm&, ConstMatrixView<T> d, const Direction<T>&, const Scratch<T>&);
  void (*add)(ConstMatrixView<T> d, const Direction<T>&, double keep, double factor,
              MatrixView<T> out, Workspace&);
  double (*norm)(const ResolvedNorm&, ConstMatrixView<T> x, Workspace&);
  double (*dual_norm)(const ResolvedNorm&, ConstMatrixView<T> d, Workspace&);
};

struct GeometryRules {
  Lengths lengths;
  bool stored;
  bool may_overwrite_gradient;  // u may go where g was: find() reads d alone
  bool uses_threads;            // on a single matrix
  bool homogeneous;             // ‖a x‖ = |a| ‖x‖ to the bit for powers of two
  double (*cost)(Index rows, Index cols);
  Index (*state_size)(const ResolvedNorm&, const Shape&);
  std::size_t (*add_scratch)(const Shape&);  // bytes of a workspace that add() takes
  GeometryFunctions<float> in_float;
  GeometryFunctions<double> in_double;

  template <class T>
  const GeometryFunctions<T>& in() const {
    if constexpr (std::is_same_v<T, float>) return in_float;
    if constexpr (std::is_same_v<T, double>) return in_double;
  }

  Index length_count(const Shape& shape) const {
    if (shape.size() == 0 || lengths == Lengths::None) return 0;
    return lengths == Lengths::One ? 1 : lengths == Lengths::Rows ? shape.rows : shape.cols;
  }
  // Whether some of the rows have only a part of each length.
  bool lengths_are_partial() const {
    return lengths == Lengths::One || lengths == Lengths::Columns;
  }
};

// Defined for each geometry beside its norms, in normball/norms/.
template <Geometry geometry>
const GeometryRules& rules();

// The same for one that is known only now.
const GeometryRules& rules(Geometry geometry);

// A geometry whose direction is kept in a buffer of d's size.
struct StoredDirection {
  static constexpr bool stored = true;

  template <class T>
  static void add(ConstMatrixView<T>, const Direction<T>& direction, double keep, double factor,
                  MatrixView<T> out, Workspace&) {
    for_each_run(out, direction.u, [&](T* to, const T* from, Index n) {
      kernels<T>().add_scaled(to, keep, from, factor, 1, n);
    });
  }
};

// Memory for a direction, for as long as the workspace's frame.
template <class T>
Direction<T> direction_in(Workspace& workspace, const GeometryRules& rules, ConstMatrixView<T> d) {
  Direction<T> direction{.lengths = workspace.take<double>(rules.length_count(shape_of(d))).data(),
                         .u = {}};
  if (rules.stored) direction.u = workspace.matrix<T>(d.rows, d.cols);
  return direction;
}

template <class G, class T>
double dual_norm_by_direction(const ResolvedNorm& norm, ConstMatrixView<T> d,
                              Workspace& workspace) {
  return G::template find<T>(norm, d, direction_in(workspace, rules(norm.geometry), d),
                             Scratch<T>{.workspace = workspace});
}

template <class G, class T>
constexpr GeometryFunctions<T> functions_of() {
  GeometryFunctions<T> functions{.find = G::template find<T>,
                                 .add = G::template add<T>,
                                 .norm = G::template norm<T>,
                                 .dual_norm = dual_norm_by_direction<G, T>};
  if constexpr (requires { &G::template dual_norm<T>; }) {
    functions.dual_norm = G::template dual_norm<T>;
  }
  return functions;
}

// What a geometry leaves out has a default.
template <class G>
constexpr GeometryRules rules_of() {
  GeometryRules rules{.lengths = Lengths::None,
                      .stored = false,
                      .may_overwrite_gradient = false,
                      .uses_threads = false,
                      .homogeneous = true,
                      .cost = elementwise_cost,
                      .state_size = [](const ResolvedNorm&, const Shape&) { return Index{0}; },
                      .add_scratch = [](const Shape&) { return std::size_t{0}; },
                      .in_float = functions_of<G, float>(),
                      .in_double = functions_of<G, double>()};
  if constexpr (requires { G::lengths; }) rules.lengths = G::lengths;
  if constexpr (requires { G::stored; }) rules.stored = G::stored;
  if constexpr (requires { G::may_overwrite_gradient; }) {
    rules.may_overwrite_gradient = G::may_overwrite_gradient;
  }
  if constexpr (requires { G::uses_threads; }) rules.uses_threads = G::uses_threads;
  if constexpr (requires { G::homogeneous; }) rules.homogeneous = G::homogeneous;
  if constexpr (requires { G::cost; }) rules.cost = G::cost;
  if constexpr (requires { G::state_size; }) rules.state_size = G::state_size;
  if constexpr (requires { G::add_scratch; }) rules.add_scratch = G::add_scratch;
  return rules;
}

}  // namespace normball::detail
