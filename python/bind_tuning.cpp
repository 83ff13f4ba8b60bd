// The search for lr and rho; its trials are Python's.
#include <pybind11/stl.h>

#include <optional>
#include <tuple>

#include "normball/tuning.h"
#include "python/bindings.h"

namespace normball::python {
namespace {

namespace py = pybind11;

using Point = std::tuple<double, std::optional<double>>;
using Tried =
    std::tuple<double, std::optional<double>, std::string, std::vector<double>, std::string>;
using Outcome = std::tuple<double, double, std::vector<double>>;  // score, first, s
using Found = std::tuple<Point, double, std::vector<Tried>, std::vector<std::string>>;

Found tune_by(double lr, std::optional<double> rho, bool tune_rho, double lowest_lr,
              double highest_lr, int repeats, const py::object& run) {
  const TuningOptions options{.lr = lr,
                              .rho = rho,
                              .tune_rho = tune_rho,
                              .lowest_lr = lowest_lr,
                              .highest_lr = highest_lr,
                              .repeats = repeats};
  const auto result = tune(options, [&](TuningStage, std::span<const TuningTrial> trials) {
    std::vector<TuningOutcome> outcomes;
    for (const auto& trial : trials) {
      const auto [score, first, s] =
          run(trial.point.lr, trial.point.rho, trial.repeat).cast<Outcome>();
      outcomes.push_back({.score = score, .first = first, .s = s});
    }
    return outcomes;
  });
  std::vector<Tried> tried;
  for (const auto& each : result.tried) {
    tried.emplace_back(each.point.lr, each.point.rho, to_string(each.stage), each.scores,
                       each.note);
  }
  return {{result.best.lr, result.best.rho}, result.score, tried, result.remarks};
}

}  // namespace

void bind_tuning(py::module_& module) {
  module.def("tune", &tune_by, py::arg("lr"), py::arg("rho"), py::arg("tune_rho"),
             py::arg("lowest_lr"), py::arg("highest_lr"), py::arg("repeats"), py::arg("run"));
  module.def(
      "most_trials",
      [](bool tune_rho, int repeats) {
        return most_trials({.tune_rho = tune_rho, .repeats = repeats});
      },
      py::arg("tune_rho"), py::arg("repeats"));
  module.def(
      "is_diverging", [](const std::vector<double>& losses) { return is_diverging(losses); },
      py::arg("losses"));
}

}  // namespace normball::python
