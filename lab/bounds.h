// The right-hand sides of the statements, with all constants (docs/lab.md, sections 3 and 4). What
// the paper prints and we found wrong carries `printed` in its name.
#pragma once

#include <span>

namespace normball::lab {

struct Horizon {
  double delta = 0;  // Δ = f(x¹) − inf f, or more
  double gamma = 0;
  double rho = 0;
  int n = 1;
};

// Mean of ‖∇f(x^k)‖* over k <= n.
double ucg_smooth_bound(const Horizon& h, double l);  // Δ/(γρn) + Lγρ/2
double ucg_bound(const Horizon& h, double l0);        // 2Δ/(γρn) + 2 L0 γρ
double ggnc_bound(const Horizon& h);                  // √(2Δ/(γn)) + 2Δ/(γρn)
double ggnc_printed_bound(const Horizon& h);          // √(Δ/(γn)) + 2Δ/(γρn)

// Mean of the Wolfe gap over k <= n.
double short_step_bound(const Horizon& h, double beta);          // 2β√(2Δ/(γn)) + 2Δ/(γρn)
double short_step_printed_bound(const Horizon& h, double beta);  // 2β√(Δ/(γn)) + 2Δ/(γρn)

// √(b0² + Σ (c_k s_k)²) of AdaGrad and the distance-aware steps, with `start` its value after the
// first step and `scale` = K max c_k²:
//   2Δ + b0 where start >= scale, else 2Δ + 2 scale (1 + ln(scale / start));
// where f is only (L0, L1)-smooth: 4Δ + b0, or 4Δ + 4 scale (1 + ln(2 scale / start)).
double adaptive_bound(double delta, double scale, double b0, double start, bool generalized);
// Mean over k <= n of min{lr s_k, f(x^k) − f*}, γ = lr: Δ/n + K lr²/2; 4/3 of it for (L0, L1).
double momo_bound(const Horizon& h, double k, bool generalized);

// E‖λ^k‖₂² from the recursion u_k <= (1 − α/2) u_{k−1} + b, u_0 = ‖∇f(x¹)‖₂²:
// (1 − α/2)^k u_0 + 2b/α. The paper starts from u_0 = 0.
struct MomentumError {
  double initial = 0;  // ‖∇f(x¹)‖₂²
  double alpha = 1;
  double source = 0;  // b

  double at(int k) const;
  double printed() const;
};
// b = α²σ² + 4γ²ρ²ζ*²L²/α  and  α²σ² + 8ζ*²L²β²γ²ρ²/α
MomentumError ggnc_error(const Horizon& h, double alpha, double variance, double zeta_star,
                         double l, double initial);
MomentumError short_step_error(const Horizon& h, double alpha, double variance, double zeta_star,
                               double l, double beta, double initial);

// Mean over k <= n of E‖∇f(x^k)‖*, with u_k >= E‖λ^k‖₂² for k = 1 ... n:
// 2√(Δ/(γn)) + 4Δ/(γρn) + 2√ε + 4ε/ρ,  ε = mean of 2ρζ√u_k + ζ²u_k/2
double ggnc_stochastic_bound(const Horizon& h, double zeta, std::span<const double> errors);
// Mean over k <= n of the Wolfe gap's expectation, D₂ = 2βζ:
// 4β√(Δ/(γn)) + 2Δ/(γρn) + 4β√ε + 2ε/ρ,  ε = mean of 3ρD₂√u_k/2 + D₂²u_k/(8β²)
double short_step_stochastic_bound(const Horizon& h, double zeta, double beta,
                                   std::span<const double> errors);

}  // namespace normball::lab
