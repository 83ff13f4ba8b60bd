// Norms on NumPy arrays, and what the torch operations need to compute the same.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>
#include <tuple>

#include "normball/average.h"
#include "normball/base/error.h"
#include "normball/iterate_sampler.h"
#include "normball/norms.h"
#include "python/bindings.h"

namespace normball::python {
namespace {

namespace py = pybind11;

template <class T>
using Array = py::array_t<T, py::array::c_style>;

template <class T>
Shape shape_of(const Array<T>& array) {
  const std::vector<Index> dimensions(array.shape(), array.shape() + array.ndim());
  return flatten(dimensions);
}

Norm norm_from(const std::string& text, const std::optional<std::string>& solver) {
  Norm norm = parse_norm(text);
  if (!solver) return norm;
  if (std::holds_alternative<Auto>(norm)) norm = Spectral{};
  auto* spectral = std::get_if<Spectral>(&norm);
  if (spectral == nullptr) {
    throw_invalid("norm", "only the spectral norm has a solver; '", text, "' with solver '",
                  *solver, "'");
  }
  if (text.find("solver") != std::string::npos) {
    throw_invalid("norm", "'", text, "' names its solver; leave out the other, '", *solver, "'");
  }
  spectral->solver = parse_polar_solver(*solver);
  return norm;
}

// A vector has no polar factor to solve for: its solver is left out.
Norm norm_on(const Shape& shape, const std::string& text,
             const std::optional<std::string>& solver) {
  const bool vector = shape.rank <= 1 && std::holds_alternative<Auto>(parse_norm(text));
  if (vector && solver) parse_polar_solver(*solver);
  return norm_from(text, vector ? std::nullopt : solver);
}

template <class T, class Operation>
Array<T> to_array(const Array<T>& d, const std::string& text,
                  const std::optional<std::string>& solver, const Operation& operation) {
  const Shape shape = shape_of(d);
  const Norm norm = norm_on(shape, text, solver);
  Array<T> out(std::vector<py::ssize_t>(d.shape(), d.shape() + d.ndim()));
  const ConstMatrixView<T> from(d.data(), shape.rows, shape.cols);
  const MatrixView<T> to(out.mutable_data(), shape.rows, shape.cols);
  const py::gil_scoped_release release;
  operation(norm, from, to, shape);
  return out;
}

template <class T, class Operation>
double to_number(const Array<T>& x, const std::string& text, const Operation& operation) {
  const Shape shape = shape_of(x);
  const Norm norm = parse_norm(text);
  const ConstMatrixView<T> view(x.data(), shape.rows, shape.cols);
  const py::gil_scoped_release release;
  return operation(norm, view, shape);
}

template <class T>
void bind_type(py::module_& module) {
  using Text = std::string;
  using Solver = std::optional<std::string>;
  module.def(
      "lmo",
      [](const Array<T>& d, const Text& text, const Solver& solver) {
        return to_array(d, text, solver, [](const auto& norm, auto from, auto to, auto& shape) {
          lmo<T>(norm, from, to, &shape);
        });
      },
      py::arg("d").noconvert(), py::arg("norm"), py::arg("solver"));
  module.def(
      "sharp",
      [](const Array<T>& d, const Text& text, const Solver& solver) {
        return to_array(d, text, solver, [](const auto& norm, auto from, auto to, auto& shape) {
          sharp<T>(norm, from, to, &shape);
        });
      },
      py::arg("d").noconvert(), py::arg("norm"), py::arg("solver"));
  module.def(
      "norm",
      [](const Array<T>& x, const Text& text) {
        return to_number(x, text, [](const auto& kind, auto view, auto& shape) {
          return norm(kind, view, &shape);
        });
      },
      py::arg("x").noconvert(), py::arg("norm"));
  module.def(
      "dual_norm",
      [](const Array<T>& d, const Text& text) {
        return to_number(d, text, [](const auto& kind, auto view, auto& shape) {
          return dual_norm(kind, view, &shape);
        });
      },
      py::arg("d").noconvert(), py::arg("norm"));
  module.def(
      "initialize",
      [](Array<T>& x, const Text& text, double radius, std::uint64_t seed) {
        const Shape shape = shape_of(x);
        Random random(seed);
        initialize<T>(parse_norm(text), shape, radius, {x.mutable_data(), shape.rows, shape.cols},
                      random);
      },
      py::arg("x").noconvert(), py::arg("norm"), py::arg("radius"), py::arg("seed"));
  module.def(
      "polar",
      [](const Array<T>& x, const Text& solver, int threads) {
        if (x.ndim() != 2) throw_invalid("polar", "takes a matrix, got ", x.ndim(), " dimensions");
        const PolarSolver parsed = parse_polar_solver(solver);
        Array<T> out({x.shape(0), x.shape(1)});
        const ConstMatrixView<T> from(x.data(), x.shape(0), x.shape(1));
        const MatrixView<T> to(out.mutable_data(), x.shape(0), x.shape(1));
        const py::gil_scoped_release release;
        Workspace workspace;
        polar<T>(parsed, from, to, workspace, nullptr, threads);
        return out;
      },
      py::arg("x").noconvert(), py::arg("solver"), py::arg("threads"));
}

ConstMatrixView<double> block_of(std::string_view where, const Array<double>& x,
                                 const Shape& shape) {
  if (x.ndim() != 2 || x.shape(0) != shape.rows || x.shape(1) != shape.cols) {
    throw_invalid(where, "the array must have the block's ", shape.rows, "x", shape.cols);
  }
  return {x.data(), shape.rows, shape.cols};
}

const char* name_of(Geometry geometry) {
  switch (geometry) {
    case Geometry::Frobenius:
      return "frobenius";
    case Geometry::MaxAbs:
      return "max";
    case Geometry::RowL2:
      return "rows";
    case Geometry::ColL2:
      return "columns";
    case Geometry::Operator:
      return "operator";
    case Geometry::Oracle:
      return "oracle";
  }
  return "";
}

}  // namespace

void bind_norms(py::module_& module) {
  bind_type<float>(module);
  bind_type<double>(module);

  py::class_<Shape>(module, "Shape")
      .def_readonly("rows", &Shape::rows)
      .def_readonly("cols", &Shape::cols)
      .def_readonly("kernel", &Shape::kernel)
      .def_readonly("rank", &Shape::rank);
  module.def(
      "check_solver", [](const std::string& text) { return to_string(parse_polar_solver(text)); },
      py::arg("text"));
  // (geometry, scale, solver): ‖x‖ = ‖x‖_geometry / scale and lmo(d) = scale lmo_geometry(d).
  module.def(
      "resolve",
      [](const std::string& text, const Shape& shape) {
        const ResolvedNorm norm = resolve(parse_norm(text), shape);
        return std::tuple<std::string, double, std::string>(name_of(norm.geometry), norm.scale,
                                                            to_string(norm.solver));
      },
      py::arg("text"), py::arg("shape"));
  // One matrix of a parameter, on the sphere of its norm.
  module.def(
      "initialize_block",
      [](Array<double>& x, const std::string& text, const Shape& shape, double radius,
         std::uint64_t seed) {
        block_of("initialize_block", x, shape);
        Random random(seed);
        initialize<double>(parse_norm(text), shape, radius,
                           {x.mutable_data(), shape.rows, shape.cols}, random);
      },
      py::arg("x"), py::arg("norm"), py::arg("shape"), py::arg("radius"), py::arg("seed"));
  // One matrix of a parameter by a norm that only the core has: for tensors that it cannot step.
  module.def(
      "block_lmo",
      [](const Array<double>& d, const std::string& text, const Shape& shape) {
        const ConstMatrixView<double> from = block_of("block_lmo", d, shape);
        Array<double> out({shape.rows, shape.cols});
        lmo<double>(parse_norm(text), from, {out.mutable_data(), shape.rows, shape.cols}, &shape);
        return out;
      },
      py::arg("d"), py::arg("norm"), py::arg("shape"));
  module.def(
      "block_norm",
      [](const Array<double>& x, const std::string& text, const Shape& shape) {
        return norm(parse_norm(text), block_of("block_norm", x, shape), &shape);
      },
      py::arg("x"), py::arg("norm"), py::arg("shape"));
  // The damping of a damped solver, None for the others.
  module.def(
      "damping",
      [](const std::string& text) {
        const PolarSolver solver = parse_polar_solver(text);
        const auto* damped = std::get_if<DampedPolar>(&solver);
        return damped == nullptr ? std::nullopt : std::optional<double>(damped->damping);
      },
      py::arg("text"));
  // (kind, its number, the whole text) of an average.
  module.def(
      "average",
      [](const std::string& text) {
        const Average average = parse_average(text);
        const std::string whole = to_string(average);
        double number = 0;
        if (const auto* ema = std::get_if<Ema>(&average)) number = ema->decay;
        if (const auto* tail = std::get_if<Tail>(&average)) number = tail->share;
        if (const auto* free = std::get_if<ScheduleFree>(&average)) number = free->beta;
        if (const auto* uniform = std::get_if<Uniform>(&average)) {
          number = static_cast<double>(uniform->seed);
        }
        return std::tuple<std::string, double, std::string>(whole.substr(0, whole.find('(')),
                                                            number, whole);
      },
      py::arg("text"));
  // Whether x^k takes the place of the iterate drawn among those before it.
  module.def("replaces_kept", &replaces_kept, py::arg("seed"), py::arg("before"));
  // (share, tau) of a clipping solver, of which one is 0; None for the others.
  module.def(
      "clipping",
      [](const std::string& text) {
        const PolarSolver solver = parse_polar_solver(text);
        const auto* clipped = std::get_if<ClippedPolar>(&solver);
        return clipped == nullptr
                   ? std::nullopt
                   : std::optional<std::pair<double, double>>({clipped->share, clipped->tau});
      },
      py::arg("text"));
  // (steps, safety, rescale_rows) of a Newton-Schulz solver, None for the others.
  module.def(
      "newton_schulz",
      [](const std::string& text) {
        const PolarSolver solver = parse_polar_solver(text);
        const auto* iteration = std::get_if<NewtonSchulz>(&solver);
        return iteration == nullptr ? std::nullopt
                                    : std::optional(std::tuple(iteration->steps, iteration->safety,
                                                               iteration->rescale_rows));
      },
      py::arg("text"));
}

}  // namespace normball::python
