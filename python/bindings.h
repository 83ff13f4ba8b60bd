// The pybind11 module normball._core, one function for each part. Arrays and tensors come as NumPy
// arrays or as addresses; there is no mathematics here.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "normball/norms.h"

namespace normball::python {

// A norm that the user wrote in Python. Routing carries it; torch operations compute it.
class PythonNorm final : public NormOracle {
 public:
  explicit PythonNorm(pybind11::object norm)
      : norm_(std::move(norm)),
        name_("custom(" + pybind11::type::of(norm_).attr("__name__").template cast<std::string>() +
              ")") {}

  using NormOracle::lmo;
  void lmo(ConstMatrixView<double>, MatrixView<double>) const override {
    throw std::logic_error("[" + name_ + "] a norm written in Python needs torch operations");
  }
  std::string name() const override { return name_; }
  const pybind11::object& object() const { return norm_; }

 private:
  pybind11::object norm_;
  std::string name_;
};

void bind_doctor(pybind11::module_& module);
void bind_norms(pybind11::module_& module);
void bind_method(pybind11::module_& module);
void bind_routing(pybind11::module_& module);
void bind_engine(pybind11::module_& module);
void bind_tuning(pybind11::module_& module);

}  // namespace normball::python
