#include "lab/bounds.h"

#include <cmath>

namespace normball::lab {
namespace {

double per_step(const Horizon& h) { return h.delta / (h.gamma * h.n); }  // Δ/(γn)

template <class Term>
double mean_over(std::span<const double> errors, const Term& term) {
  double sum = 0;
  for (const double u : errors) sum += term(u);
  return sum / static_cast<double>(errors.size());
}

}  // namespace

double ucg_smooth_bound(const Horizon& h, double l) {
  return per_step(h) / h.rho + l * h.gamma * h.rho / 2;
}

double ucg_bound(const Horizon& h, double l0) {
  return 2 * per_step(h) / h.rho + 2 * l0 * h.gamma * h.rho;
}

double ggnc_bound(const Horizon& h) { return std::sqrt(2 * per_step(h)) + 2 * per_step(h) / h.rho; }

double ggnc_printed_bound(const Horizon& h) {
  return std::sqrt(per_step(h)) + 2 * per_step(h) / h.rho;
}

double short_step_bound(const Horizon& h, double beta) {
  return 2 * beta * std::sqrt(2 * per_step(h)) + 2 * per_step(h) / h.rho;
}

double short_step_printed_bound(const Horizon& h, double beta) {
  return 2 * beta * std::sqrt(per_step(h)) + 2 * per_step(h) / h.rho;
}

double adaptive_bound(double delta, double scale, double b0, double start, bool generalized) {
  const double factor = generalized ? 2 : 1;
  const double enough = factor * scale;  // from here on every step descends
  const double lost = start >= enough ? b0 : 2 * enough * (1 + std::log(enough / start));
  return 2 * factor * delta + lost;
}

double momo_bound(const Horizon& h, double k, bool generalized) {
  return (generalized ? 4.0 / 3 : 1) * (h.delta / h.n + k * h.gamma * h.gamma / 2);
}

double MomentumError::at(int k) const { return std::pow(1 - alpha / 2, k) * initial + printed(); }

double MomentumError::printed() const { return 2 * source / alpha; }

MomentumError ggnc_error(const Horizon& h, double alpha, double variance, double zeta_star,
                         double l, double initial) {
  const double step = h.gamma * h.rho * zeta_star * l;
  return {initial, alpha, alpha * alpha * variance + 4 * step * step / alpha};
}

MomentumError short_step_error(const Horizon& h, double alpha, double variance, double zeta_star,
                               double l, double beta, double initial) {
  const double step = h.gamma * h.rho * zeta_star * l * beta;
  return {initial, alpha, alpha * alpha * variance + 8 * step * step / alpha};
}

double ggnc_stochastic_bound(const Horizon& h, double zeta, std::span<const double> errors) {
  const double epsilon = mean_over(
      errors, [&](double u) { return 2 * h.rho * zeta * std::sqrt(u) + zeta * zeta * u / 2; });
  return 2 * std::sqrt(per_step(h)) + 4 * per_step(h) / h.rho + 2 * std::sqrt(epsilon) +
         4 * epsilon / h.rho;
}

double short_step_stochastic_bound(const Horizon& h, double zeta, double beta,
                                   std::span<const double> errors) {
  const double diameter = 2 * beta * zeta;
  const double epsilon = mean_over(errors, [&](double u) {
    return 1.5 * h.rho * diameter * std::sqrt(u) + diameter * diameter * u / (8 * beta * beta);
  });
  return 4 * beta * std::sqrt(per_step(h)) + 2 * per_step(h) / h.rho +
         4 * beta * std::sqrt(epsilon) + 2 * epsilon / h.rho;
}

}  // namespace normball::lab
