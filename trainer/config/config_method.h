// From the configuration to the core's values: schedule, method, and what routing gets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "normball/method.h"
#include "normball/routing.h"
#include "trainer/config/config.h"

namespace normball::trainer::config {

// optimizer.lr, or 1 where the stepsize finds the scale of the steps itself.
double first_lr(const OptimizerConfig& options);
bool finds_scale(const OptimizerConfig& options);
// lr over a run of this many steps; the shares of the configuration become whole steps.
Schedule lr_schedule(const Config& config, std::int64_t steps);

// alpha and rho over the steps: a number or a schedule. No rho where there is none, or it is found.
Schedule alpha_schedule(const OptimizerConfig& options);
std::optional<Schedule> rho_schedule(const OptimizerConfig& options);
bool finds_rho(const OptimizerConfig& options);  // rho = "auto"
// Throws for an alpha or rho that falls to 0 before the run ends, naming its key.
void require_positive_schedules(const Config& config, std::int64_t steps);

// Whether the core has the method; the others are LibTorch's and Muon.
bool is_core_method(std::string_view name);
Method core_method(const Config& config, std::int64_t steps);

// The method of the core that steps, and the rule in place of its own, if so: rho = "auto" is the
// rule auto_clipped of the method whose steps are not clipped.
struct CoreMethod {
  std::string name;
  std::optional<std::string> stepsize = {};
};
CoreMethod core_choice(const OptimizerConfig& options);
// optimizer.line_search, where there is one and it counts.
std::optional<std::string> line_search_of(const Config& config);

// [norm] for the core's routing: norms and radii by role, routes as rules. What the method sets
// itself, whatever [norm] says, is left out.
RoutingOptions routing_options(const Config& config);

}  // namespace normball::trainer::config
