#include "normball/internal/c_structs.h"

#include <cstddef>
#include <optional>
#include <string>
#include <tuple>

namespace normball::detail {
namespace {

// A structure of the given size, as the program knows it, in the library's form.
template <class T>
T read_struct(const void* from, size_t size, size_t smallest, std::string_view what) {
  if (size < smallest) {
    throw_invalid("normball_create", what, " is ", size, ", below ", smallest,
                  ": fill the options with normball_default_options()");
  }
  const auto* bytes = static_cast<const unsigned char*>(from);
  for (size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) {
      throw_invalid("normball_create", what, " is ", size, ": the program uses a field that ",
                    "version ", NORMBALL_VERSION, " of the library does not know");
    }
  }
  T result{};
  std::memcpy(&result, from, std::min(size, sizeof(T)));
  return result;
}

// The sizes of the first version, below which no program can be: up to its last fields.
constexpr size_t first_layer_size = offsetof(normball_layer, radius) + sizeof(double);
constexpr size_t first_options_size = offsetof(normball_options, report_weight_norms) + sizeof(int);
constexpr size_t first_report_size = offsetof(normball_report, stalled) + sizeof(int);
constexpr size_t first_layer_report_size =
    offsetof(normball_layer_report, weight_norm) + sizeof(double);

constexpr size_t most_dimensions = 64;  // as many as PyTorch allows

}  // namespace

void require_pointer(const void* pointer, std::string_view where, std::string_view what) {
  if (pointer == nullptr) throw_invalid(where, what, " must not be null");
}

normball_options read_options(const normball_options* options) {
  require_pointer(options, "normball_create", "options");
  const auto result = read_struct<normball_options>(options, options->struct_size,
                                                    first_options_size, "options.struct_size");
  for (const auto& [flag, what] :
       {std::pair(result.overwrite_gradients, "overwrite_gradients"),
        std::pair(result.light, "light"), std::pair(result.skip_nonfinite, "skip_nonfinite"),
        std::pair(result.report_weight_norms, "report_weight_norms")}) {
    if (flag != 0 && flag != 1) {
      throw_invalid("normball_create", "options.", what, " must be 0 or 1, got ", flag);
    }
  }
  for (const auto& [size, smallest, what] :
       {std::tuple(result.layer_size, first_layer_size, "options.layer_size"),
        std::tuple(result.report_size, first_report_size, "options.report_size"),
        std::tuple(result.layer_report_size, first_layer_report_size,
                   "options.layer_report_size")}) {
    if (size < smallest || size > 4096) {
      throw_invalid("normball_create", what, " is ", size, ", not between ", smallest,
                    " and 4096: fill the options with normball_default_options()");
    }
  }
  return result;
}

std::vector<Layer> to_layers(const normball_layer* layers, size_t count, size_t size) {
  if (count > 0) require_pointer(layers, "normball_create", "layers");
  std::vector<Layer> result;
  for (size_t l = 0; l < count; ++l) {
    const auto in = read_struct<normball_layer>(reinterpret_cast<const char*>(layers) + l * size,
                                                size, first_layer_size, "options.layer_size");
    if (in.rank > most_dimensions) {
      throw_invalid("normball_create", "layer ", l, " has rank ", in.rank, ", more than ",
                    most_dimensions);
    }
    if (in.rank > 0) require_pointer(in.dimensions, "normball_create", "dimensions");
    result.push_back({.name = in.name ? in.name : "",
                      .shape = flatten({in.dimensions, in.rank}),
                      .norm = in.norm ? parse_norm(in.norm) : Auto{},
                      .radius = in.radius});
  }
  return result;
}

void require_used(const Method& method, const std::vector<Layer>& layers) {
  for (size_t l = 0; l < layers.size(); ++l) {
    const Layer& layer = layers[l];
    const auto refuse = [&](const auto& what, const auto& got, const auto& own,
                            const auto& neutral) {
      throw_invalid("normball_create", what, " of '",
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
  if ((options.l0 || options.l1) && method_use(name).l0) {  // 0 is a value of the other
    options.l0 = in.l0;
    options.l1 = in.l1;
  }
  if (in.short_step != nullptr) options.short_step = parse_short_step(in.short_step);
  if (in.stepsize != nullptr) options.stepsize = parse_stepsize(in.stepsize);
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

normball_report to_c(const StepReport& report) {
  return {.step = report.step,
          .pairing = report.pairing,
          .eta = report.eta,
          .gamma = report.gamma,
          .lr = report.lr,
          .wolfe_gap = report.wolfe_gap,
          .clipped = report.clipped,
          .skipped = report.skipped,
          .stalled = report.stalled,
          .rho = report.threshold};
}

}  // namespace normball::detail
