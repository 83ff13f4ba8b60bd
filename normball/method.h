// Every method of the paper is a choice of (norms and radii, constrained or not, rule, alpha, lr).
// The named methods are composed only here; the loop in optimizer.cpp does not know them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "normball/product_norm.h"
#include "normball/schedule.h"
#include "normball/step_rule.h"

namespace normball {

struct Method {
  std::string name = "custom";
  StepRule rule = Clipped{};
  bool constrained = false;  // v = W - r lmo(d) instead of v = -r lmo(d)
  Combination combination = Combination::Max;
  Schedule lr = 1e-3;                 // gamma rho, the largest step in product-norm units
  Schedule alpha = 1;                 // weight of the newest gradient in the average, in (0, 1]
  std::optional<Norm> norm = {};      // replaces the norm of every layer, whatever it is
  std::optional<double> radius = {};  // replaces the radius of every layer, which must be valid
};

// Throws std::invalid_argument for alpha outside (0, 1], a negative or non-finite lr, a bad rule,
// or a constrained method whose step gamma eta could exceed 1 and so leave the ball.
void validate(const Method& method);
// The same for an lr of the method's, that of a layer where its name is given.
void require_lr(std::string_view where, const Method& method, double lr,
                std::string_view layer = {});

// x <- x - lr d: the Euclidean norm of the whole model.
Method gd(Schedule lr);
// x <- x - lr d / ‖d‖₂
Method normalized_gd(Schedule lr);
// x <- x - (lr / rho) min(1, rho / ‖d‖₂) d
Method clipped_gd(Schedule lr, double rho);

// Steepest descent x <- x - lr d♯ in the layers' norms.
Method sd(Schedule lr);
// Steepest descent with the stepsize 1 / (l0 + l1 ‖d‖*).
Method adaptive_sd(double l0, double l1);
// Unconstrained conditional gradient x <- x + lr lmo(d) in the layers' norms.
Method ucg(Schedule lr);
// Algorithm 1 in the layers' norms.
Method ggnc(Schedule lr, double rho, Schedule alpha = 1);

// Classical Frank-Wolfe on the product ball with 2 / (k + 2).
Method cg();
// Algorithm 2 on the ball of radius beta in the layers' norms (every radius becomes beta).
Method s3cg(Schedule lr, double rho, double beta, ShortStep::Variant variant, Schedule alpha = 1);

// GGNC in the max-norm: x <- x - gamma min(rho, ‖d‖₁) sign(d).
Method clipped_sign(Schedule lr, double rho, Schedule alpha = 1);
// GGNC in the plain spectral norm: x <- x - gamma min(rho, ‖d‖_nuclear) UVᵀ.
Method clipped_spectral(Schedule lr, double rho, Schedule alpha = 1);
// Layer-wise normalized descent, and its clipped form with one threshold for the whole model.
Method lars(Schedule lr, Schedule alpha = 1);
Method clipped_lars(Schedule lr, double rho, Schedule alpha = 1);

// The deep-learning forms, in the layers' norms and radii.
Method scion(Schedule lr, Schedule alpha);                // constrained
Method unconstrained_scion(Schedule lr, Schedule alpha);  // no weight decay
// Algorithm 4. Plain clips s itself, as in the paper's experiments; the others are its
// variants 1 and 2 as printed.
enum class ShortStepForm { Plain, ByNorm, ByDiameter };
Method clipped_scion(Schedule lr, Schedule alpha, double rho,
                     ShortStepForm form = ShortStepForm::Plain);
// Algorithm 3.
Method unconstrained_clipped_scion(Schedule lr, Schedule alpha, double rho);

// The same by name, for configuration files and other languages. Options that a method does not use
// are ignored; a missing option that it needs is an error. s3cg has the short steps "norm", which
// is also what "plain" means there, and "diameter". A stepsize, a rule that finds it by what it has
// seen, replaces the rule of a method whose steps all have the length lr (takes_stepsize()); the
// method gives the rest: norms, ball, momentum.
struct MethodOptions {
  std::optional<Schedule> lr = {};
  std::optional<Schedule> alpha = {};
  std::optional<double> rho = {};
  std::optional<double> beta = {};
  std::optional<double> l0 = {}, l1 = {};
  std::optional<ShortStepForm> short_step = {};  // plain if not given
  std::optional<StepRule> stepsize = {};
};
Method make_method(std::string_view name, const MethodOptions& options);

// What a method by name takes: which options it reads, the short steps that it tells apart, and
// what of its layers. Found by making it, so that its line in method.cpp alone decides.
struct MethodUse {
  bool lr = false, alpha = false, rho = false, beta = false, l0 = false, l1 = false;
  std::span<const std::string_view> short_steps = {};
  bool layer_norms = true, layer_radii = true;  // false where the method sets them
  bool own_spectral_norm = false;               // which a solver can be chosen for
};
MethodUse method_use(std::string_view name);
// Throws if an option is given that the method ignores, so that mistakes are noticed. alpha = 1 is
// accepted, because it means no momentum; lr is not checked.
void require_all_used(std::string_view where, std::string_view name, const MethodOptions& options);
std::span<const std::string_view> method_names();
bool takes_stepsize(std::string_view name);
// Whether make_method() needs an lr: "cg" and "adaptive_sd" do not, nor does a stepsize that is in
// the units of the balls, such as distance_aware. Their steps are scaled by it if it is given.
bool needs_lr(std::string_view name, const MethodOptions& options);

// Sets the solver of a method that determines the norm, if that norm is spectral. For a method with
// another norm a solver would have no effect: throws, unless it is the exact one, the default.
void use_solver(std::string_view where, const PolarSolver& solver, Method& method);

// Whether it matters to the method which entries form a matrix: not where its norm is that of all
// entries together, as gd's and clipped_sign's are. A split would then have no effect.
bool sees_matrices(const Method& method);

// "plain", "norm" or "diameter".
ShortStepForm parse_short_step(std::string_view text);

}  // namespace normball
