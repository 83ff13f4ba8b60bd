// The core's optimizer on tensors given by address: momentum, weights and gradients stay the
// caller's.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <tuple>

#include "normball/routed.h"
#include "python/bindings.h"
#include "python/peers.h"

namespace normball::python {
namespace {

namespace py = pybind11;

// Addresses of weight, gradient and momentum, the lr as a factor of the step's, whether there is a
// gradient, and the address of x_0, or 0.
using Tensors =
    std::tuple<std::uintptr_t, std::uintptr_t, std::uintptr_t, double, bool, std::uintptr_t>;

template <class T>
class Engine {
 public:
  Engine(const Method& method, std::vector<Route> routes, int threads, bool overwrite_gradients,
         bool weight_norms, bool undoable, const py::object& peers)
      : routes_(std::move(routes)),
        optimizer_(method, layers_of(routes_),
                   {.threads = threads,
                    .overwrite_gradients = overwrite_gradients,
                    .undoable = undoable,
                    .external_momentum = true,
                    .report_weight_norms = weight_norms},
                   peers.is_none() ? nullptr : std::make_shared<PythonPeers<T>>(peers)) {}

  // Of these layers: s, ‖v‖ where the rule needs it, the slope, ‖x − x_0‖ where the rule needs it.
  std::tuple<double, double, double, double> prepare(double lr,
                                                     const std::vector<Tensors>& tensors) {
    if (tensors.size() != routes_.size()) {
      throw std::invalid_argument("[Engine] got " + std::to_string(tensors.size()) +
                                  " parameters for " + std::to_string(routes_.size()));
    }
    const py::gil_scoped_release release;
    optimizer_.set_lr(lr);
    parameters_.clear();
    for (size_t i = 0; i < routes_.size(); ++i) {
      const auto& [weight, gradient, momentum, factor, has_gradient, start] = tensors[i];
      append_parameters<T>(routes_[i],
                           {.weight = reinterpret_cast<T*>(weight),
                            .gradient = reinterpret_cast<T*>(gradient),
                            .has_gradient = has_gradient,
                            .momentum = reinterpret_cast<T*>(momentum),
                            .lr_factor = factor,
                            .start = reinterpret_cast<const T*>(start)},
                           parameters_);
    }
    report_ = &optimizer_.prepare(parameters_);
    return {report_->pairing, report_->direction_norm, report_->slope, report_->distance};
  }

  // What the processes of a step compare.
  void set_step(std::int64_t step) {
    if (optimizer_.steps_taken() != step) optimizer_.set_steps_taken(step);
  }

  // Another alpha or rho of the same method.
  void set_method(const Method& method) {
    optimizer_.set_lr(0);  // each step brings its own, which may suit this rule alone
    optimizer_.set_alpha(method.alpha);
    optimizer_.set_rule(method.rule);
  }

  void apply(double eta) {
    const py::gil_scoped_release release;
    optimizer_.apply(eta);
  }

  void require_step(double eta) const { optimizer_.require_step(eta); }

  void revert() { optimizer_.revert(); }

  // v of every parameter times its lr factor, to tensors of its size and layout.
  void direction(const std::vector<std::uintptr_t>& tensors) {
    if (tensors.size() != routes_.size()) {
      throw std::invalid_argument("[Engine] got " + std::to_string(tensors.size()) +
                                  " tensors for " + std::to_string(routes_.size()));
    }
    const py::gil_scoped_release release;
    std::vector<MatrixView<T>> views;
    for (size_t i = 0; i < routes_.size(); ++i) {
      for (const auto& block : routes_[i].blocks) {
        views.push_back(view_of(block, reinterpret_cast<T*>(tensors[i])));
      }
    }
    optimizer_.direction(views);
  }

  // (name, pairing, dual norm, weight norm) of each layer in the step last prepared.
  std::vector<std::tuple<std::string, double, double, double>> layers() const {
    std::vector<std::tuple<std::string, double, double, double>> result;
    for (size_t l = 0; report_ != nullptr && l < report_->layers.size(); ++l) {
      const LayerReport& layer = report_->layers[l];
      result.emplace_back(optimizer_.layers()[l].name, layer.pairing, layer.dual_norm,
                          layer.weight_norm);
    }
    return result;
  }

  // The bases of the power iteration, in place: "basis.<layer>" -> array.
  static py::dict bases(const py::object& self) {
    py::dict result;
    for (const auto& buffer : self.cast<Engine&>().optimizer_.state()) {
      const auto& v = buffer.view;
      result[py::str(buffer.name)] = py::array_t<T>({v.rows, v.cols}, v.data, self);
    }
    return result;
  }

  void load_bases(const std::map<std::string, py::array_t<T, py::array::c_style>>& arrays) {
    std::vector<NamedBuffer<const T>> buffers;
    for (const auto& [name, array] : arrays) {
      if (array.ndim() != 2) throw std::invalid_argument("[load_bases] a basis is a matrix");
      buffers.push_back({name, {array.data(), array.shape(0), array.shape(1)}});
    }
    optimizer_.load_state(buffers, 0);
  }

 private:
  std::vector<Route> routes_;
  Optimizer<T> optimizer_;
  std::vector<Parameter<T>> parameters_;
  const StepReport* report_ = nullptr;
};

template <class T>
void bind_type(py::module_& module, const char* name) {
  py::class_<Engine<T>>(module, name)
      .def(py::init<const Method&, std::vector<Route>, int, bool, bool, bool, const py::object&>(),
           py::arg("method"), py::arg("routes"), py::kw_only(), py::arg("threads") = 0,
           py::arg("overwrite_gradients") = false, py::arg("weight_norms") = false,
           py::arg("undoable") = false, py::arg("peers") = py::none())
      .def("prepare", &Engine<T>::prepare, py::arg("lr"), py::arg("tensors"))
      .def("set_step", &Engine<T>::set_step, py::arg("step"))
      .def("set_method", &Engine<T>::set_method, py::arg("method"))
      .def("apply", &Engine<T>::apply, py::arg("eta"))
      .def("require_step", &Engine<T>::require_step, py::arg("eta"))
      .def("revert", &Engine<T>::revert)
      .def("direction", &Engine<T>::direction, py::arg("tensors"))
      .def("layers", &Engine<T>::layers)
      .def("bases", &Engine<T>::bases)
      .def("load_bases", &Engine<T>::load_bases, py::arg("arrays"));
}

// The owner of each layer; `together`: those of a tensor have the same. Python's ranks do not
// divide replicated momenta by rows.
std::vector<int> share_routes(const std::vector<Route>& routes, int processes, bool together) {
  std::vector<size_t> tensors;
  for (size_t i = 0; together && i < routes.size(); ++i) {
    tensors.insert(tensors.end(), routes[i].blocks.size(), i);
  }
  auto owners = share_layers(layers_of(routes), processes, tensors);
  std::ranges::replace(owners, by_rows, every_process);
  return owners;
}

}  // namespace

void bind_engine(py::module_& module) {
  module.def("share_layers", &share_routes, py::arg("routes"), py::arg("processes"), py::kw_only(),
             py::arg("together") = true);
  module.def(
      "sending_order",
      [](const std::vector<Route>& routes, const std::vector<int>& owners) {
        return sending_order(layers_of(routes), owners);
      },
      py::arg("routes"), py::arg("owners"));
  bind_type<float>(module, "Engine32");
  bind_type<double>(module, "Engine64");
}

}  // namespace normball::python
