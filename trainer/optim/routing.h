// What each parameter of a model is to its optimizer: [norm] in the words of the core's routing.
#pragma once

#include "normball/routing.h"
#include "trainer/config/config.h"
#include "trainer/models/model.h"

namespace normball::trainer::optim {

// Norms and radii of [norm] by role, its routes as rules; before those, as rules as well, what the
// model knows and no kind of parameter tells (which matrix is the first).
RoutingOptions routing_options(const config::Config& config,
                               const std::vector<models::ModelParameter>& parameters);

Routing route_parameters(const config::Config& config,
                         const std::vector<models::ModelParameter>& parameters);

// Of the routes of [norm] that match a parameter, the last one decides. Earlier versions took the
// first, and their checkpoints do not have this note.
inline constexpr const char* route_note = "norm.route";
inline constexpr const char* last_route_wins = "last";

// The parameters that the first matching route would give another norm or radius than the last.
std::vector<std::string> routed_otherwise_before(
    const config::Config& config, const std::vector<models::ModelParameter>& parameters);

}  // namespace normball::trainer::optim
