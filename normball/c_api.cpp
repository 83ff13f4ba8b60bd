// The C interface: exceptions to status codes, and a handle to the optimizer of either type.
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "normball/internal/c_structs.h"

namespace normball {
namespace {

using detail::require_pointer;
using detail::write_struct;

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

// Calls body with a null pointer of the element type that dtype names.
template <class Body>
auto with_type(normball_dtype dtype, const Body& body) {
  if (dtype == NORMBALL_F32) return body(static_cast<float*>(nullptr));
  if (dtype == NORMBALL_F64) return body(static_cast<double*>(nullptr));
  throw_invalid("normball", "dtype must be NORMBALL_F32 or NORMBALL_F64, got ", dtype);
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

  // With the rest of the state as it is.
  void set_memory(std::span<const double> numbers) {
    std::vector<std::vector<T>> copies;
    std::vector<NamedBuffer<const T>> state;
    for (const auto& [name, view] : optimizer.state()) {
      const auto& own = copies.emplace_back(view.data, view.data + view.size());
      state.push_back({name, {own.data(), view.rows, view.cols}});
    }
    optimizer.load_state(state, optimizer.steps_taken(), numbers);
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

// body(optimizer) for the type of the elements, whatever it is.
template <class Body>
normball_status with_optimizer(normball_optimizer* optimizer, const char* where, const Body& body) {
  return guarded([&] {
    require_pointer(optimizer, where, "optimizer");
    std::visit([&](auto& handle) { body(handle); }, optimizer->handle);
  });
}

normball_status step(normball_optimizer* optimizer, const char* where, void* const* weights,
                     void* const* gradients, std::optional<double> loss, normball_report* report) {
  return with_optimizer(optimizer, where, [&](auto& handle) {
    require_pointer(weights, where, "weights");
    require_pointer(gradients, where, "gradients");
    handle.set_parameters(weights, gradients);
    handle.report = nullptr;  // until the step is done
    handle.report = &handle.optimizer.step(handle.parameters, loss);
    write_struct(detail::to_c(*handle.report), report, optimizer->report_size);
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
    require_pointer(out, "normball_create", "out");
    *out = nullptr;
    require_pointer(method, "normball_create", "method");
    const normball_options given = detail::read_options(options);
    const Method made = detail::to_method(method, given);
    const auto read = detail::to_layers(layers, layer_count, given.layer_size);
    detail::require_used(made, read);
    *out = with_type(dtype, [&](auto* type) {
      using T = std::remove_pointer_t<decltype(type)>;
      return new normball_optimizer{
          Handle<T>{Optimizer<T>(made, read, detail::to_execution(given))}, given.report_size,
          given.layer_report_size};
    });
  });
}

void normball_destroy(normball_optimizer* optimizer) { delete optimizer; }

normball_status normball_step(normball_optimizer* optimizer, void* const* weights,
                              void* const* gradients, normball_report* report) {
  return step(optimizer, "normball_step", weights, gradients, {}, report);
}

normball_status normball_step_with_loss(normball_optimizer* optimizer, void* const* weights,
                                        void* const* gradients, double loss,
                                        normball_report* report) {
  return step(optimizer, "normball_step_with_loss", weights, gradients, loss, report);
}

normball_status normball_get_layer_report(const normball_optimizer* optimizer, size_t layer,
                                          normball_layer_report* report) {
  return guarded([&] {
    require_pointer(optimizer, "normball_get_layer_report", "optimizer");
    require_pointer(report, "normball_get_layer_report", "report");
    std::visit(
        [&](const auto& handle) {
          const auto& layers = handle.optimizer.layers();
          if (layer >= layers.size()) {
            throw_invalid("normball_get_layer_report", "layer must be below ", layers.size(),
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
    require_pointer(weights, "normball_scale_into_balls", "weights");
    handle.set_parameters(weights, nullptr);
    const double size = handle.optimizer.scale_into_balls(handle.parameters);
    if (before != nullptr) *before = size;
  });
}

normball_status normball_state_count(normball_optimizer* optimizer, size_t* count) {
  return guarded([&] {
    require_pointer(optimizer, "normball_state_count", "optimizer");
    require_pointer(count, "normball_state_count", "count");
    *count = std::visit([](auto& h) { return h.optimizer.state().size(); }, optimizer->handle);
  });
}

normball_status normball_state_buffer(normball_optimizer* optimizer, size_t index,
                                      const char** name, void** data, size_t* elements) {
  return guarded([&] {
    require_pointer(optimizer, "normball_state_buffer", "optimizer");
    std::visit(
        [&](auto& h) {
          const auto state = h.optimizer.state();
          if (index >= state.size()) {
            throw_invalid("normball_state_buffer", "index must be below ", state.size(), ", got ",
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
    require_pointer(optimizer, "normball_get_steps", "optimizer");
    require_pointer(steps, "normball_get_steps", "steps");
    *steps = std::visit([](const auto& h) { return h.optimizer.steps_taken(); }, optimizer->handle);
  });
}

normball_status normball_set_steps(normball_optimizer* optimizer, int64_t steps) {
  return guarded([&] {
    require_pointer(optimizer, "normball_set_steps", "optimizer");
    std::visit([&](auto& h) { h.optimizer.set_steps_taken(steps); }, optimizer->handle);
  });
}

normball_status normball_get_memory(const normball_optimizer* optimizer, const double** numbers,
                                    size_t* count) {
  return guarded([&] {
    require_pointer(optimizer, "normball_get_memory", "optimizer");
    require_pointer(count, "normball_get_memory", "count");
    const auto memory =
        std::visit([](const auto& h) { return h.optimizer.rule_memory(); }, optimizer->handle);
    *count = memory.size();
    if (numbers != nullptr) *numbers = memory.data();
  });
}

normball_status normball_set_memory(normball_optimizer* optimizer, const double* numbers,
                                    size_t count) {
  return with_optimizer(optimizer, "normball_set_memory", [&](auto& h) {
    if (count > 0) require_pointer(numbers, "normball_set_memory", "numbers");
    h.set_memory({numbers, count});
  });
}

normball_status normball_lmo(const char* norm, normball_dtype dtype, const void* d, int64_t rows,
                             int64_t cols, void* out, double* value) {
  return guarded([&] {
    require_pointer(norm, "normball_lmo", "norm");
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
    require_pointer(norm, "normball_norm", "norm");
    require_pointer(value, "normball_norm", "value");
    const Norm parsed = parse_norm(norm);
    *value =
        evaluate(dtype, x, rows, cols, [&](auto view) { return normball::norm(parsed, view); });
  });
}

normball_status normball_dual_norm(const char* norm, normball_dtype dtype, const void* d,
                                   int64_t rows, int64_t cols, double* value) {
  return guarded([&] {
    require_pointer(norm, "normball_dual_norm", "norm");
    require_pointer(value, "normball_dual_norm", "value");
    const Norm parsed = parse_norm(norm);
    *value = evaluate(dtype, d, rows, cols,
                      [&](auto view) { return normball::dual_norm(parsed, view); });
  });
}

}  // extern "C"
