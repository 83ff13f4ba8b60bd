// From the configuration to the core's values: schedule, method, and each parameter's norm.
#pragma once

#include <cstdint>
#include <string_view>

#include "normball/method.h"
#include "normball/norms.h"
#include "trainer/config/config.h"

namespace normball::trainer::config {

// lr over a run of this many steps; the shares of the configuration become whole steps.
Schedule lr_schedule(const Config& config, std::int64_t steps);

// Whether the core has the method; the others are LibTorch's and Muon.
bool is_core_method(std::string_view name);
Method core_method(const Config& config, std::int64_t steps);

// What a parameter is to its model.
enum class ParameterRole { Input, Embedding, Hidden, Output, Vector };

struct NormChoice {
  Norm norm;
  double radius = 1;
};

// The role's norm and radius in [norm], changed by the first route whose pattern fits the name. A
// spectral norm without a solver of its own gets optimizer.solver.
NormChoice norm_of(const Config& config, ParameterRole role, std::string_view parameter);

}  // namespace normball::trainer::config
