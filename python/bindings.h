// The pybind11 module normball._core, one function for each part. Arrays and tensors come as NumPy
// arrays or as addresses; there is no mathematics here.
#pragma once

#include <pybind11/pybind11.h>

namespace normball::python {

void bind_norms(pybind11::module_& module);
void bind_method(pybind11::module_& module);
void bind_routing(pybind11::module_& module);
void bind_engine(pybind11::module_& module);

}  // namespace normball::python
