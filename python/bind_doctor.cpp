// What normball.doctor says about the machine.
#include <pybind11/stl.h>

#include <tuple>

#include "doctor/examine.h"
#include "doctor/rate.h"
#include "python/bindings.h"

namespace normball::python {

void bind_doctor(pybind11::module_& module) {
  module.def("blas_core", &blas_core);
  module.def("core_type_for_this_processor",
             [] { return std::string(better_core_type(this_processor(), "")); });
  module.def("core_types_to_compare",
             [] { return doctor::core_types_to_compare(doctor::examine(".")); });
  module.def("product_rate", &doctor::product_rate);
  module.def("usable_cpus", &usable_cpus);
  module.def(
      "findings",
      [](const std::string& directory, double rate,
         const std::vector<std::pair<std::string, double>>& other_rates, int threads) {
        auto facts = doctor::examine(directory);
        facts.threads = threads;
        facts.rate = {facts.blas_core, rate};
        for (const auto& [core, flops] : other_rates) facts.other_rates.push_back({core, flops});
        std::vector<std::tuple<std::string, std::string, std::string, std::string>> lines;
        for (const auto& [subject, state, text, remedy] : doctor::findings(facts)) {
          lines.emplace_back(subject, doctor::to_text(state), text, remedy);
        }
        return lines;
      },
      pybind11::arg("directory"), pybind11::arg("rate"), pybind11::arg("other_rates"),
      pybind11::arg("threads"));
}

}  // namespace normball::python
