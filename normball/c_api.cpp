// The C interface: types to C++ ones, exceptions to status codes. No mathematics.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "normball/normball.h"

namespace normball {
namespace {

thread_local std::string last_error;

// Runs body and turns what it throws into a status and a text.
template <class Body>
normball_status guarded(const Body& body) noexcept {
  const auto fail = [](normball_status status, const char* text) {
    try {
      last_error = text;
    } catch (...) {
      last_error.clear();
    }
    return status;
  };
  try {
    body();
    return NORMBALL_OK;
  } catch (const std::logic_error& error) {
    return fail(NORMBALL_INVALID_ARGUMENT, error.what());
  } catch (const NonFiniteError& error) {
    return fail(NORMBALL_NON_FINITE, error.what());
  } catch (const std::bad_alloc&) {
    return fail(NORMBALL_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return fail(NORMBALL_ERROR, error.what());
  } catch (...) {
    return fail(NORMBALL_ERROR, "unknown error");
  }
}

void require(const void* pointer, std::string_view where, std::string_view what) {
  if (pointer == nullptr) detail::invalid(where, what, " must not be null");
}

// A structure of the given size, as the program knows it, in the library's form: fields that the
// program does not know are zero, those that the library does not know must be.
template <class T>
T read_struct(const void* from, size_t size, size_t smallest, std::string_view what) {
  if (size < smallest) {
    detail::invalid("normball_create", what, " is ", size, ", below ", smallest,
                    ": fill the options with normball_default_options()");
  }
  const auto* bytes = static_cast<const unsigned char*>(from);
  for (size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) {
      detail::invalid("normball_create", what, " is ", size, ": the program uses a field that ",
                      "version ", NORMBALL_VERSION, " of the library does not know");
    }
  }
  T result{};
  std::memcpy(&result, from, std::min(size, sizeof(T)));
  return result;
}

template <class T>
void write_struct(const T& from, void* to, size_t size) {
  if (to == nullptr) return;
  std::memcpy(to, &from, std::min(size, sizeof(T)));
  if (size > sizeof(T)) std::memset(static_cast<char*>(to) + sizeof(T), 0, size - sizeof(T));
}

// The sizes of the first version, below which no program can be: up to its last fields.
constexpr size_t first_layer_size = offsetof(normball_layer, radius) + sizeof(double);
constexpr size_t first_options_size = offsetof(normball_options, report_weight_norms) + sizeof(int);
constexpr size_t first_report_size = offsetof(normball_report, stalled) + sizeof(int);
constexpr size_t first_layer_report_size =
    offsetof(normball_layer_report, weight_norm) + sizeof(double);

normball_options read_options(const normball_options* options) {
  require(options, "normball_create", "options");
  const auto result = read_struct<normball_options>(options, options->struct_size,
                                                    first_options_size, "options.struct_size");
  for (const auto& [flag, what] :
       {std::pair(result.overwrite_gradients, "overwrite_gradients"),
        std::pair(result.light, "light"), std::pair(result.skip_nonfinite, "skip_nonfinite"),
        std::pair(result.report_weight_norms, "report_weight_norms")}) {
    if (flag != 0 && flag != 1) {
      detail::invalid("normball_create", "options.", what, " must be 0 or 1, got ", flag);
    }
  }
  for (const auto& [size, smallest, what] :
       {std::tuple(result.layer_size, first_layer_size, "options.layer_size"),
        std::tuple(result.report_size, first_report_size, "options.report_size"),
        std::tuple(result.layer_report_size, first_layer_report_size,
                   "options.layer_report_size")}) {
    if (size < smallest || size > 4096) {
      detail::invalid("normball_create", what, " is ", size, ", not between ", smallest,
                      " and 4096: fill the options with normball_default_options()");
    }
  }
  return result;
}

std::vector<Layer> to_layers(const normball_layer* layers, size_t count, size_t size) {
  if (count > 0) require(layers, "normball_create", "layers");
  std::vector<Layer> result;
  for (size_t l = 0; l < count; ++l) {
    const auto in = read_struct<normball_layer>(reinterpret_cast<const char*>(layers) + l * size,
                                                size, first_layer_size, "options.layer_size");
    if (in.rank > 0) require(in.dimensions, "normball_create", "dimensions");
    result.push_back({.name = in.name ? in.name : "",
                      .shape = flatten({in.dimensions, in.rank}),
                      .norm = in.norm ? parse_norm(in.norm) : Auto{},
                      .radius = in.radius});
  }
  return result;
}

// A norm or radius of a layer's that the method would not use.
void require_used(const Method& method, const std::vector<Layer>& layers) {
  for (size_t l = 0; l < layers.size(); ++l) {
    const Layer& layer = layers[l];
    const auto refuse = [&](const auto& what, const auto& got, const auto& own,
                            const auto& neutral) {
      detail::invalid("normball_create", what, " of '",
                      layer.name.empty() ? "layer" + std::to_string(l) : layer.name, "' is ", got,
                      ", which has no effect: '", method.name, "' has ", own, " for every layer; ",
                      "give ", neutral);
    };
    if (method.norm && layer.norm != Norm(Auto{}) && layer.norm != *method.norm) {
      refuse("norm", to_string(layer.norm), to_string(*method.norm), "NULL");
    }
    // Not positive: the optimizer says so.
    if (method.radius && layer.radius > 0 && layer.radius != 1 && layer.radius != *method.radius) {
      refuse("radius", layer.radius, *method.radius, 1);
    }
  }
}

Method to_method(std::string_view name, const normball_options& in) {
  const auto given = [](double value) {
    return value == 0 ? std::optional<double>() : std::optional<double>(value);
  };
  MethodOptions options{
      .rho = given(in.rho), .beta = given(in.beta), .l0 = given(in.l0), .l1 = given(in.l1)};
  if (name == "adaptive_sd" && (options.l0 || options.l1)) {
    options.l0 = in.l0;
    options.l1 = in.l1;
  }
  if (in.short_step != nullptr) options.short_step = parse_short_step(in.short_step);
  if (in.lr != 0) options.lr = in.lr;
  if (in.alpha != 0) options.alpha = in.alpha;
  Method method = make_method(name, options);
  require_all_used("normball_create", name, options);
  if (options.lr) {  // as normball_set_lr() does, also of a method that has one of its own
    method.lr = *options.lr;
    validate(method);
  }
  return method;
}

Execution to_execution(const normball_options& in) {
  return {.threads = in.threads,
          .overwrite_gradients = in.overwrite_gradients != 0,
          .light = in.light != 0,
          .nonfinite = in.skip_nonfinite ? NonFinite::Skip : NonFinite::Throw,
          .report_weight_norms = in.report_weight_norms != 0};
}

// Calls body with a null pointer of the element type that dtype names.
template <class Body>
auto with_type(normball_dtype dtype, const Body& body) {
  if (dtype == NORMBALL_F32) return body(static_cast<float*>(nullptr));
  if (dtype == NORMBALL_F64) return body(static_cast<double*>(nullptr));
  detail::invalid("normball", "dtype must be NORMBALL_F32 or NORMBALL_F64, got ", dtype);
}

// value(matrix view) for a read-only matrix of the given type.
template <class Value>
double evaluate(normball_dtype dtype, const void* x, int64_t rows, int64_t cols,
                const Value& value) {
  return with_type(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    return value(ConstMatrixView<T>(static_cast<const T*>(x), rows, cols));
  });
}

template <class T>
struct Handle {
  Optimizer<T> optimizer;
  std::vector<Parameter<T>> parameters = {};  // of the last step, for their memory
  const StepReport* report = nullptr;         // of the last step

  void set_parameters(void* const* weights, void* const* gradients) {
    parameters.clear();
    for (size_t l = 0; l < optimizer.layers().size(); ++l) {
      const Shape& shape = optimizer.layers()[l].shape;
      const MatrixView<T> weight(static_cast<T*>(weights[l]), shape.rows, shape.cols);
      void* const gradient = gradients ? gradients[l] : nullptr;
      parameters.push_back(
          gradient ? Parameter<T>{weight, {static_cast<T*>(gradient), shape.rows, shape.cols}}
                   : Parameter<T>::without_gradient(weight));
    }
  }
};

}  // namespace
}  // namespace normball

struct normball_optimizer {
  std::variant<normball::Handle<float>, normball::Handle<double>> handle;
  size_t report_size, layer_report_size;  // as the program knows them
  std::vector<std::string> names = {};  // of the state's buffers; the caller holds pointers to them
};

namespace normball {
namespace {

normball_report to_c(const StepReport& report) {
  return {.step = report.step,
          .pairing = report.pairing,
          .eta = report.eta,
          .gamma = report.gamma,
          .lr = report.lr,
          .wolfe_gap = report.wolfe_gap,
          .clipped = report.clipped,
          .skipped = report.skipped,
          .stalled = report.stalled};
}

// body(optimizer) for the type of the elements, whatever it is.
template <class Body>
normball_status with_optimizer(normball_optimizer* optimizer, const char* where, const Body& body) {
  return guarded([&] {
    require(optimizer, where, "optimizer");
    std::visit([&](auto& handle) { body(handle); }, optimizer->handle);
  });
}

}  // namespace
}  // namespace normball

using namespace normball;

extern "C" {

const char* normball_last_error(void) { return last_error.c_str(); }

const char* normball_version(void) { return NORMBALL_VERSION; }

normball_status normball_create(const char* method, normball_dtype dtype,
                                const normball_layer* layers, size_t layer_count,
                                const normball_options* options, normball_optimizer** out) {
  return guarded([&] {
    require(out, "normball_create", "out");
    *out = nullptr;
    require(method, "normball_create", "method");
    const normball_options given = read_options(options);
    const Method made = to_method(method, given);
    const auto read = to_layers(layers, layer_count, given.layer_size);
    require_used(made, read);
    *out = with_type(dtype, [&](auto* type) {
      using T = std::remove_pointer_t<decltype(type)>;
      return new normball_optimizer{Handle<T>{Optimizer<T>(made, read, to_execution(given))},
                                    given.report_size, given.layer_report_size};
    });
  });
}

void normball_destroy(normball_optimizer* optimizer) { delete optimizer; }

normball_status normball_step(normball_optimizer* optimizer, void* const* weights,
                              void* const* gradients, normball_report* report) {
  return with_optimizer(optimizer, "normball_step", [&](auto& handle) {
    require(weights, "normball_step", "weights");
    require(gradients, "normball_step", "gradients");
    handle.set_parameters(weights, gradients);
    handle.report = &handle.optimizer.step(handle.parameters);
    write_struct(to_c(*handle.report), report, optimizer->report_size);
  });
}

normball_status normball_get_layer_report(const normball_optimizer* optimizer, size_t layer,
                                          normball_layer_report* report) {
  return guarded([&] {
    require(optimizer, "normball_get_layer_report", "optimizer");
    require(report, "normball_get_layer_report", "report");
    std::visit(
        [&](const auto& handle) {
          const auto& layers = handle.optimizer.layers();
          if (layer >= layers.size()) {
            detail::invalid("normball_get_layer_report", "layer must be below ", layers.size(),
                            ", got ", layer);
          }
          const LayerReport in = handle.report ? handle.report->layers[layer] : LayerReport{};
          write_struct(normball_layer_report{.name = layers[layer].name.c_str(),
                                             .pairing = in.pairing,
                                             .dual_norm = in.dual_norm,
                                             .weight_norm = in.weight_norm},
                       report, optimizer->layer_report_size);
        },
        optimizer->handle);
  });
}

normball_status normball_set_lr(normball_optimizer* optimizer, double lr) {
  return with_optimizer(optimizer, "normball_set_lr", [&](auto& h) { h.optimizer.set_lr(lr); });
}

normball_status normball_set_alpha(normball_optimizer* optimizer, double alpha) {
  return with_optimizer(optimizer, "normball_set_alpha",
                        [&](auto& h) { h.optimizer.set_alpha(alpha); });
}

normball_status normball_set_rho(normball_optimizer* optimizer, double rho) {
  return with_optimizer(optimizer, "normball_set_rho", [&](auto& h) { h.optimizer.set_rho(rho); });
}

normball_status normball_scale_into_balls(normball_optimizer* optimizer, void* const* weights,
                                          double* before) {
  return with_optimizer(optimizer, "normball_scale_into_balls", [&](auto& handle) {
    require(weights, "normball_scale_into_balls", "weights");
    handle.set_parameters(weights, nullptr);
    const double size = handle.optimizer.scale_into_balls(handle.parameters);
    if (before != nullptr) *before = size;
  });
}

normball_status normball_state_count(normball_optimizer* optimizer, size_t* count) {
  return guarded([&] {
    require(optimizer, "normball_state_count", "optimizer");
    require(count, "normball_state_count", "count");
    *count = std::visit([](auto& h) { return h.optimizer.state().size(); }, optimizer->handle);
  });
}

normball_status normball_state_buffer(normball_optimizer* optimizer, size_t index,
                                      const char** name, void** data, size_t* elements) {
  return guarded([&] {
    require(optimizer, "normball_state_buffer", "optimizer");
    std::visit(
        [&](auto& h) {
          const auto state = h.optimizer.state();
          if (index >= state.size()) {
            detail::invalid("normball_state_buffer", "index must be below ", state.size(), ", got ",
                            index);
          }
          if (optimizer->names.empty()) {
            for (const auto& buffer : state) optimizer->names.push_back(buffer.name);
          }
          if (name != nullptr) *name = optimizer->names[index].c_str();
          if (data != nullptr) *data = state[index].view.data;
          if (elements != nullptr) *elements = static_cast<size_t>(state[index].view.size());
        },
        optimizer->handle);
  });
}

normball_status normball_get_steps(const normball_optimizer* optimizer, int64_t* steps) {
  return guarded([&] {
    require(optimizer, "normball_get_steps", "optimizer");
    require(steps, "normball_get_steps", "steps");
    *steps = std::visit([](const auto& h) { return h.optimizer.steps_taken(); }, optimizer->handle);
  });
}

normball_status normball_set_steps(normball_optimizer* optimizer, int64_t steps) {
  return guarded([&] {
    require(optimizer, "normball_set_steps", "optimizer");
    std::visit([&](auto& h) { h.optimizer.set_steps_taken(steps); }, optimizer->handle);
  });
}

normball_status normball_lmo(const char* norm, normball_dtype dtype, const void* d, int64_t rows,
                             int64_t cols, void* out, double* value) {
  return guarded([&] {
    require(norm, "normball_lmo", "norm");
    const Norm parsed = parse_norm(norm);
    const double dual = evaluate(dtype, d, rows, cols, [&]<class T>(MatrixView<const T> view) {
      return lmo(parsed, view, MatrixView<T>(static_cast<T*>(out), rows, cols));
    });
    if (value != nullptr) *value = dual;
  });
}

normball_status normball_norm(const char* norm, normball_dtype dtype, const void* x, int64_t rows,
                              int64_t cols, double* value) {
  return guarded([&] {
    require(norm, "normball_norm", "norm");
    require(value, "normball_norm", "value");
    const Norm parsed = parse_norm(norm);
    *value =
        evaluate(dtype, x, rows, cols, [&](auto view) { return normball::norm(parsed, view); });
  });
}

normball_status normball_dual_norm(const char* norm, normball_dtype dtype, const void* d,
                                   int64_t rows, int64_t cols, double* value) {
  return guarded([&] {
    require(norm, "normball_dual_norm", "norm");
    require(value, "normball_dual_norm", "value");
    const Norm parsed = parse_norm(norm);
    *value = evaluate(dtype, d, rows, cols,
                      [&](auto view) { return normball::dual_norm(parsed, view); });
  });
}

}  // extern "C"
