#include "normball/base/error.h"
#include "normball/base/parallel.h"
#include "normball/normball.h"
#include "python/bindings.h"

PYBIND11_MODULE(_core, module) {
  namespace py = pybind11;
  module.doc() = "The normball core. Use the package normball, or normball.torch, instead.";
  module.attr("__version__") = normball_version();
  module.attr("MOST_THREADS") = normball::max_threads;
  module.def("get_num_threads", &normball::default_threads);
  module.def("set_num_threads", &normball::set_default_threads, py::arg("threads"));
  module.def("chosen_threads", &normball::chosen_threads);  // 0 where none was
  py::register_exception<normball::NonFiniteError>(module, "NonFiniteError", PyExc_RuntimeError);
  normball::python::bind_doctor(module);
  normball::python::bind_norms(module);
  normball::python::bind_method(module);
  normball::python::bind_routing(module);
  normball::python::bind_engine(module);
  normball::python::bind_tuning(module);
}
