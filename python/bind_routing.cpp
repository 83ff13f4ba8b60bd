// Which norm each parameter gets: the core's routing, with plain Python values in and out.
#include <pybind11/stl.h>

#include "normball/method.h"
#include "normball/routed.h"
#include "normball/routing.h"
#include "python/bindings.h"

namespace normball::python {
namespace {

namespace py = pybind11;

using Text = std::optional<std::string>;

// By name, or an object with lmo(d); a class is made without arguments. A spectral norm that does
// not name its solver has the optimizer's.
Norm norm_of(const py::object& norm, const std::string& solver) {
  if (py::isinstance<py::str>(norm)) {
    return parse_norm(norm.cast<std::string>(), parse_polar_solver(solver));
  }
  if (!py::hasattr(norm, "lmo")) throw py::type_error("norm must be a name or have lmo(d)");
  return Custom{std::make_shared<PythonNorm>(PyType_Check(norm.ptr()) != 0 ? norm() : norm)};
}

// The user's object, None for the norms of the core.
py::object python_norm(const Route& route) {
  const auto* custom = std::get_if<Custom>(&route.norm);
  const auto* own = custom ? dynamic_cast<const PythonNorm*>(custom->oracle.get()) : nullptr;
  return own ? own->object() : py::none();
}

Assignment assignment(const py::object& norm, const Text& role, std::optional<double> radius,
                      const Text& split, std::optional<int> batch, std::optional<double> lr,
                      const std::string& solver) {
  Assignment result{.radius = radius, .batch = batch, .lr = lr};
  if (!norm.is_none()) result.norm = norm_of(norm, solver);
  if (role) result.role = parse_role(*role);
  if (split) result.split = parse_split(*split);
  return result;
}

ParameterInfo parameter_info(std::string name, std::vector<Index> dimensions,
                             const std::string& kind, std::uintptr_t identity, bool requires_grad,
                             Assignment given) {
  return {.name = std::move(name),
          .dimensions = std::move(dimensions),
          .kind = parse_kind(kind),
          .identity = reinterpret_cast<const void*>(identity),
          .requires_grad = requires_grad,
          .given = std::move(given)};
}

Routing route_parameters(const std::vector<ParameterInfo>& parameters,
                         const std::vector<std::pair<std::string, Assignment>>& rules,
                         const std::map<std::string, double>& radii, const std::string& solver,
                         double grad_clip, const Method* method, bool auto_radii) {
  RoutingOptions options{
      .auto_radii = auto_radii, .solver = parse_polar_solver(solver), .grad_clip = grad_clip};
  if (method != nullptr) {
    options.method = method->name;
    options.method_norm = method->norm;
    options.method_radius = method->radius;
    options.method_sees_matrices = sees_matrices(*method);
  }
  for (const auto& [pattern, then] : rules) options.rules.push_back({pattern, then});
  for (const auto& [role, radius] : radii) {
    switch (parse_role(role)) {
      case Role::Input:
        options.radii.input = radius;
        break;
      case Role::OneHot:
        options.radii.onehot = radius;
        break;
      case Role::Hidden:
        options.radii.hidden = radius;
        break;
      case Role::Output:
        options.radii.output = radius;
        break;
      case Role::Bias:
        options.radii.bias = radius;
        break;
    }
  }
  return route(parameters, options);
}

// (name, types of the modules around it, dimensions, groups, identity) of each parameter.
using Held =
    std::tuple<std::string, std::vector<std::string>, std::vector<Index>, Index, std::uintptr_t>;

std::vector<std::string> kinds_of_modules(const std::vector<Held>& held) {
  std::vector<ModuleParameter> parameters;
  for (const auto& [name, types, dimensions, groups, identity] : held) {
    parameters.push_back({.name = name,
                          .types = types,
                          .dimensions = dimensions,
                          .groups = groups,
                          .identity = reinterpret_cast<const void*>(identity)});
  }
  std::vector<std::string> kinds;
  for (const Kind kind : kinds_of(parameters)) kinds.push_back(to_string(kind));
  return kinds;
}

}  // namespace

void bind_routing(py::module_& module) {
  py::class_<Assignment>(module, "Assignment")
      .def(py::init(&assignment), py::kw_only(), py::arg("norm") = py::none(),
           py::arg("role") = py::none(), py::arg("radius") = py::none(),
           py::arg("split") = py::none(), py::arg("batch") = py::none(), py::arg("lr") = py::none(),
           py::arg("solver") = "exact");
  py::class_<ParameterInfo>(module, "ParameterInfo")
      .def(py::init(&parameter_info), py::arg("name"), py::arg("dimensions"), py::kw_only(),
           py::arg("kind") = "unknown", py::arg("identity") = 0, py::arg("requires_grad") = true,
           py::arg("given") = Assignment{});
  py::class_<Block>(module, "Block")
      .def_readonly("name", &Block::name)
      .def_readonly("offset", &Block::offset)
      .def_readonly("stride", &Block::stride)
      .def_readonly("shape", &Block::shape);
  py::class_<Route>(module, "Route")
      .def_readonly("name", &Route::name)
      .def_readonly("dimensions", &Route::dimensions)
      .def_readonly("blocks", &Route::blocks)
      .def_property_readonly("role", [](const Route& r) { return to_string(r.role); })
      .def_property_readonly("norm", [](const Route& r) { return to_string(r.norm); })
      .def_property_readonly("kind", [](const Route& r) { return to_string(r.kind); })
      .def_readonly("radius", &Route::radius)
      .def_readonly("lr", &Route::lr)
      .def_readonly("why", &Route::why)
      .def_readonly("tied_to", &Route::tied_to)
      .def_property_readonly("python_norm", &python_norm)
      .def(
          "require_lmo", [](const Route& r, const std::string& where) { require_lmo(where, r); },
          py::arg("where"));
  py::class_<Routing>(module, "Routing")
      .def_readonly("routes", &Routing::routes)
      .def_readonly("warnings", &Routing::warnings)
      .def("explain", &Routing::explain)
      .def("rename", &Routing::rename, py::arg("route"), py::arg("name"))
      .def("add_ungrouped", &Routing::add_ungrouped, py::arg("name"), py::arg("dimensions"));
  module.def("kinds_of", &kinds_of_modules, py::arg("parameters"));
  module.def("is_module_type", &is_module_type, py::arg("type"));
  module.def("route", &route_parameters, py::arg("parameters"), py::kw_only(),
             py::arg("rules") = std::vector<std::pair<std::string, Assignment>>{},
             py::arg("radii") = std::map<std::string, double>{}, py::arg("solver") = "exact",
             py::arg("grad_clip") = 0.0, py::arg("method") = nullptr,
             py::arg("auto_radii") = false);
}

}  // namespace normball::python
