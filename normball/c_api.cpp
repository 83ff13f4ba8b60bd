// The C interface: types to C++ ones, exceptions to status codes. No mathematics.
#include <memory>
#include <new>
#include <string>
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
  } catch (const std::invalid_argument& error) {
    return fail(NORMBALL_INVALID_ARGUMENT, error.what());
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

std::vector<Layer> to_layers(const normball_layer* layers, size_t count) {
  if (count > 0) require(layers, "normball_create", "layers");
  std::vector<Layer> result;
  for (size_t l = 0; l < count; ++l) {
    const auto& in = layers[l];
    if (in.rank > 0) require(in.dimensions, "normball_create", "dimensions");
    result.push_back({.name = in.name ? in.name : "",
                      .shape = flatten({in.dimensions, in.rank}),
                      .norm = in.norm ? parse_norm(in.norm) : Auto{},
                      .radius = in.radius});
  }
  return result;
}

MethodOptions to_method_options(const normball_options& in) {
  const auto given = [](double value) {
    return value == 0 ? std::optional<double>() : std::optional<double>(value);
  };
  MethodOptions options{.rho = given(in.rho),
                        .beta = given(in.beta),
                        .short_step = parse_short_step(in.short_step ? in.short_step : "plain")};
  if (in.lr != 0) options.lr = in.lr;
  if (in.alpha != 0) options.alpha = in.alpha;
  if (in.l0 != 0 || in.l1 != 0) {
    options.l0 = in.l0;
    options.l1 = in.l1;
  }
  return options;
}

Execution to_execution(const normball_options& in) {
  return {.threads = in.threads,
          .overwrite_gradients = in.overwrite_gradients != 0,
          .light = in.light != 0,
          .nonfinite = in.skip_nonfinite ? NonFinite::Skip : NonFinite::Throw};
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

}  // namespace
}  // namespace normball

namespace normball {
namespace {

template <class T>
struct Handle {
  Optimizer<T> optimizer;
  std::vector<Parameter<T>> parameters = {};  // of the last step, for their memory
};

}  // namespace
}  // namespace normball

struct normball_optimizer {
  std::variant<normball::Handle<float>, normball::Handle<double>> handle;
  std::vector<std::string> names = {};  // of the state's buffers; the caller holds pointers to them
};

namespace normball {
namespace {

template <class T>
void step_with(Handle<T>& handle, void* const* weights, void* const* gradients,
               normball_report* out) {
  handle.parameters.clear();
  for (size_t l = 0; l < handle.optimizer.layers().size(); ++l) {
    const Shape& shape = handle.optimizer.layers()[l].shape;
    const MatrixView<T> weight(static_cast<T*>(weights[l]), shape.rows, shape.cols);
    const MatrixView<T> gradient(static_cast<T*>(gradients[l]), shape.rows, shape.cols);
    handle.parameters.push_back(gradients[l] ? Parameter<T>{weight, gradient}
                                             : Parameter<T>::without_gradient(weight));
  }
  const StepReport& report = handle.optimizer.step(handle.parameters);
  if (out == nullptr) return;
  *out = {.step = report.step,
          .pairing = report.pairing,
          .eta = report.eta,
          .gamma = report.gamma,
          .lr = report.lr,
          .wolfe_gap = report.wolfe_gap,
          .clipped = report.clipped,
          .skipped = report.skipped};
}

}  // namespace
}  // namespace normball

using namespace normball;

extern "C" {

const char* normball_last_error(void) { return last_error.c_str(); }

const char* normball_version(void) { return NORMBALL_VERSION; }

void normball_default_options(normball_options* options) {
  if (options != nullptr) *options = normball_options{};
}

normball_status normball_create(const char* method, normball_dtype dtype,
                                const normball_layer* layers, size_t layer_count,
                                const normball_options* options, normball_optimizer** out) {
  return guarded([&] {
    require(out, "normball_create", "out");
    *out = nullptr;
    require(method, "normball_create", "method");
    require(options, "normball_create", "options");
    const Method made = make_method(method, to_method_options(*options));
    *out = with_type(dtype, [&](auto* type) {
      using T = std::remove_pointer_t<decltype(type)>;
      return new normball_optimizer{
          Handle<T>{Optimizer<T>(made, to_layers(layers, layer_count), to_execution(*options))}};
    });
  });
}

void normball_destroy(normball_optimizer* optimizer) { delete optimizer; }

normball_status normball_step(normball_optimizer* optimizer, void* const* weights,
                              void* const* gradients, normball_report* report) {
  return guarded([&] {
    require(optimizer, "normball_step", "optimizer");
    require(weights, "normball_step", "weights");
    require(gradients, "normball_step", "gradients");
    std::visit([&](auto& h) { step_with(h, weights, gradients, report); }, optimizer->handle);
  });
}

normball_status normball_set_lr(normball_optimizer* optimizer, double lr) {
  return guarded([&] {
    require(optimizer, "normball_set_lr", "optimizer");
    std::visit([&](auto& h) { h.optimizer.set_lr(lr); }, optimizer->handle);
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
