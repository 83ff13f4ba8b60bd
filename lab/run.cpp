#include "lab/run.h"

#include "normball/base/error.h"

namespace normball::lab {

Run::Run(const Problem& problem, const Method& method, Point start)
    : Run(problem, method, std::move(start), problem.space().layers()) {}

Run::Run(const Problem& problem, const Method& method, Point start, std::vector<Layer> layers)
    : problem_(problem),
      random_(0),
      x_(std::move(start)),
      before_(x_.size()),
      gradient_(x_.size()),
      estimate_(x_.size()),
      optimizer_(method, std::move(layers), Execution{.threads = 1}) {
  const auto weights = problem.space().views(x_), gradients = problem.space().views(estimate_);
  for (size_t l = 0; l < weights.size(); ++l) parameters_.push_back({weights[l], gradients[l]});
}

Run::Run(const Problem& problem, const Oracle& oracle, const Method& method, Point start,
         std::uint64_t seed)
    : Run(problem, method, std::move(start)) {
  oracle_ = &oracle;
  random_ = Random(seed);
}

void Run::step() {
  problem_.gradient(x_, gradient_);
  estimate_ = gradient_;
  if (oracle_ != nullptr) oracle_->perturb(x_, random_, estimate_);
  before_ = x_;
  const bool asks = needs_loss(optimizer_.method().rule);
  report_ = &optimizer_.step(parameters_, asks ? std::optional(problem_.value(x_)) : std::nullopt);
}

void Run::forget() {
  const StepRule rule = optimizer_.method().rule;
  optimizer_.set_rule(Normalized{});
  optimizer_.set_rule(rule);
}

double Run::dual_norm() const { return problem_.space().dual_norm(gradient_); }

double Run::wolfe_gap(double beta) const {
  return inner(gradient_, before_) + beta * problem_.space().dual_norm(gradient_);
}

Point Run::momentum_error() {
  Point lambda(x_.size());
  size_t at = 0;
  for (const auto& buffer : optimizer_.state()) {
    for (Index i = 0; i < buffer.view.size(); ++i, ++at) {
      lambda[at] = buffer.view.data[i] - gradient_[at];
    }
  }
  return lambda;
}

double ball_radius(const Space& space) { return space.equal_radii() ? 1.5 : 1; }

Method short_step(const Space& space, double gamma, double rho, double beta,
                  ShortStep::Variant variant, double alpha) {
  if (space.equal_radii()) return s3cg(gamma * rho, rho, beta, variant, alpha);
  if (beta != 1)
    throw_invalid("lab", "beta must be 1 if the layers have radii of their own, got ", beta);
  return clipped_scion(
      gamma * rho, alpha, rho,
      variant == ShortStep::Variant::ByNorm ? ShortStepForm::ByNorm : ShortStepForm::ByDiameter);
}

}  // namespace normball::lab
