// Methods by name, and the joint step.
#include <pybind11/stl.h>

#include <optional>

#include "normball/base/text.h"
#include "normball/joint_step.h"
#include "normball/line_search.h"
#include "python/bindings.h"

namespace normball::python {
namespace {

namespace py = pybind11;

// lr is 0 here, which suits every rule: every step brings its own, after check_lr(). What is given
// must be used by the method. The solver is that of its own spectral norm, or routing's.
Method method_by_name(const std::string& where, const std::string& name, double alpha,
                      std::optional<double> rho, std::optional<double> beta,
                      std::optional<double> l0, std::optional<double> l1,
                      const std::optional<std::string>& short_step,
                      const std::optional<std::string>& stepsize, const std::string& solver) {
  MethodOptions options{.lr = 0, .alpha = alpha, .rho = rho, .beta = beta, .l0 = l0, .l1 = l1};
  if (short_step) options.short_step = parse_short_step(*short_step);
  if (stepsize) options.stepsize = parse_stepsize(*stepsize);
  Method method = make_method(name, options);
  require_all_used(where, name, options);
  use_solver(where, parse_polar_solver(solver), method);
  return method;
}

// Throws the core's error where the method cannot take this lr.
void check_lr(const Method& method, double lr) { require_lr("Method", method, lr); }

// The core's, with every part's share of eta, and what the rule remembers when the step is taken.
struct SharedStep : JointStep {
  std::vector<double> shares, memory;
  double rho = 0;  // that η was clipped with
  std::string standstill = {};
};

// An empty memory is one that has seen nothing.
SharedStep join_parts_of(const Method& method, const std::vector<double>& pairings,
                         const std::vector<double>& direction_norms,
                         const std::vector<double>& slopes, const std::vector<double>& distances,
                         std::int64_t step, double lr, std::optional<double> loss,
                         std::vector<double> memory, double last) {
  SharedStep result;
  result.shares.resize(pairings.size());
  if (memory.empty()) memory.resize(memory_size(method.rule));
  const StepInput whole{.step = step,
                        .gamma = lr / rho(method.rule),
                        .alpha = method.alpha.at(step),
                        .loss = loss.value_or(no_loss),
                        .memory = memory};
  static_cast<JointStep&>(result) =
      join_parts(method, {pairings, direction_norms, slopes, distances}, whole, result.shares);
  result.rho = threshold(method.rule, memory);
  result.standstill = standstill(method.rule, result.input, last);
  result.memory = memory;
  remember(method.rule, result.input, result.eta, result.memory);
  result.input.memory = {};  // of this function
  return result;
}

void bind_search(py::module_& module) {
  py::class_<SearchReport>(module, "SearchReport")
      .def_readonly("step", &SearchReport::step)
      .def_readonly("loss", &SearchReport::loss)
      .def_readonly("slope", &SearchReport::slope)
      .def_readonly("evaluations", &SearchReport::evaluations)
      .def_readonly("accepted", &SearchReport::accepted)
      .def("__repr__",
           [](const SearchReport& own) {
             return "SearchReport(step=" + number_text(own.step) +
                    ", loss=" + number_text(own.loss) + ", slope=" + number_text(own.slope) +
                    ", evaluations=" + std::to_string(own.evaluations) +
                    ", accepted=" + (own.accepted ? "True" : "False") + ")";
           })
      .def(py::pickle(
          [](const SearchReport& own) {
            return py::make_tuple(own.step, own.loss, own.slope, own.evaluations, own.accepted);
          },
          [](const py::tuple& saved) {
            return SearchReport{.step = saved[0].cast<double>(),
                                .loss = saved[1].cast<double>(),
                                .slope = saved[2].cast<double>(),
                                .evaluations = saved[3].cast<int>(),
                                .accepted = saved[4].cast<bool>()};
          }));
  // A variant has no class of its own there: this is its wrapper.
  struct Rule {
    SearchRule rule;
  };
  py::class_<Rule>(module, "SearchRule")
      .def("__str__", [](const Rule& own) { return to_string(own.rule); })
      .def_property_readonly("memory_size", [](const Rule& own) { return memory_size(own.rule); })
      .def(
          "require_memory",
          [](const Rule& own, const std::string& where, const std::vector<double>& memory) {
            require_search_memory(where, own.rule, memory);
          },
          py::arg("where"), py::arg("memory"))
      .def(
          "search",
          [](const Rule& own, double loss, double slope, double step, double longest,
             std::vector<double> memory, const py::object& evaluate) {
            if (memory.empty()) memory.resize(memory_size(own.rule));
            const SearchReport report =
                search_along(own.rule, {loss, slope, step, longest}, memory,
                             [&](double t) { return evaluate(t).cast<double>(); });
            return std::make_pair(report, memory);  // what it remembers when the step is taken
          },
          py::kw_only(), py::arg("loss"), py::arg("slope"), py::arg("own"), py::arg("longest"),
          py::arg("memory"), py::arg("evaluate"));
  module.def(
      "parse_line_search", [](const std::string& text) { return Rule{parse_line_search(text)}; },
      py::arg("text"));
}

}  // namespace

void bind_method(py::module_& module) {
  bind_search(module);
  py::class_<SharedStep>(module, "JointStep")
      .def_readonly("pairing", &SharedStep::pairing)
      .def_readonly("direction_norm", &SharedStep::direction_norm)
      .def_readonly("eta", &SharedStep::eta)
      .def_readonly("clipped", &SharedStep::clipped)
      .def_readonly("stalled", &SharedStep::stalled)
      .def_readonly("shares", &SharedStep::shares)
      .def_readonly("memory", &SharedStep::memory)
      .def_readonly("rho", &SharedStep::rho)
      .def_readonly("standstill", &SharedStep::standstill);
  py::class_<Method>(module, "Method")
      .def_readonly("name", &Method::name)
      .def_readonly("constrained", &Method::constrained)
      .def_property_readonly("rule", [](const Method& m) { return to_string(m.rule); })
      .def_property_readonly("alpha", [](const Method& m) { return m.alpha.value; })
      .def_property_readonly("rho", [](const Method& m) { return rho(m.rule); })
      .def_property_readonly(
          "norm",
          [](const Method& m) { return m.norm ? std::optional(to_string(*m.norm)) : std::nullopt; })
      .def_readonly("radius", &Method::radius)
      .def_property_readonly("max_eta", [](const Method& m) { return max_eta(m.rule); })
      .def_property_readonly("needs_direction_norm",
                             [](const Method& m) { return needs_direction_norm(m.rule); })
      .def_property_readonly("needs_distance",
                             [](const Method& m) { return needs_distance(m.rule); })
      .def_property_readonly("needs_loss", [](const Method& m) { return needs_loss(m.rule); })
      .def_property_readonly("memory_size", [](const Method& m) { return memory_size(m.rule); })
      .def("check_lr", &check_lr, py::arg("lr"))
      .def(
          "require_searchable",
          [](const Method& m, const std::string& where) { require_searchable(where, m.rule); },
          py::arg("where"))
      .def(
          "require_loss",
          [](const Method& m, const std::string& where, std::optional<double> loss) {
            require_loss(where, m.rule, loss);
          },
          py::arg("where"), py::arg("loss"))
      .def("join_parts", &join_parts_of, py::arg("pairings"), py::arg("direction_norms"),
           py::arg("slopes"), py::arg("distances"), py::kw_only(), py::arg("step"), py::arg("lr"),
           py::arg("loss"), py::arg("memory"), py::arg("last"))
      .def(
          "require_memory",
          [](const Method& m, const std::string& where, const std::vector<double>& memory) {
            require_rule_memory(where, m.rule, memory, false);
          },
          py::arg("where"), py::arg("memory"))
      .def(
          "combine_duals",
          [](const Method& m, const std::vector<double>& duals) {
            std::vector<double> shares(duals.size());
            const double dual = combine_duals(m.combination, duals, shares);
            return std::make_pair(dual, shares);
          },
          py::arg("duals"))
      .def(
          "combine_norms",
          [](const Method& m, const std::vector<double>& norms) {
            return combine_norms(m.combination, norms);
          },
          py::arg("norms"));
  module.def("make_method", &method_by_name, py::arg("where"), py::arg("name"), py::kw_only(),
             py::arg("alpha") = 1.0, py::arg("rho") = py::none(), py::arg("beta") = py::none(),
             py::arg("l0") = py::none(), py::arg("l1") = py::none(),
             py::arg("short_step") = py::none(), py::arg("stepsize") = py::none(),
             py::arg("solver") = "exact");
  module.def(
      "needs_lr",
      [](const std::string& name, const std::optional<std::string>& stepsize) {
        MethodOptions options;
        if (stepsize) options.stepsize = parse_stepsize(*stepsize);
        return needs_lr(name, options);
      },
      py::arg("name"), py::arg("stepsize"));
  module.def(
      "short_steps",
      [](const std::string& name) {
        const auto names = method_use(name).short_steps;
        return std::vector<std::string>(names.begin(), names.end());
      },
      py::arg("name"));
  module.def("method_names", [] {
    const auto names = method_names();
    return std::vector<std::string>(names.begin(), names.end());
  });
}

}  // namespace normball::python
