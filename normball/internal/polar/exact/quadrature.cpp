#include <algorithm>
#include <cmath>
#include <numbers>

#include "normball/internal/polar/exact/inverse_sqrt.h"

namespace normball::detail {
namespace {

struct Elliptic {
  double sn, cn, dn;
};

// Jacobi's functions for 0 <= u <= K/2 and the complementary parameter mc = 1 - k², by descending
// Landen steps.
Elliptic jacobi(double u, double mc) {
  constexpr int most_levels = 22;
  double a[most_levels + 1], c[most_levels + 1];
  double b = std::sqrt(mc);
  a[0] = 1;
  c[0] = std::sqrt(1 - mc);
  int level = 0;
  while (std::abs(c[level]) > 1e-17 * a[level] && level < most_levels) {
    a[level + 1] = (a[level] + b) / 2;
    c[level + 1] = (a[level] - b) / 2;
    b = std::sqrt(a[level] * b);
    ++level;
  }
  double phi = std::ldexp(a[level] * u, level);
  for (; level > 0; --level) phi = (phi + std::asin(c[level] / a[level] * std::sin(phi))) / 2;
  const double sn = std::sin(phi), cn = std::cos(phi);
  return {sn, cn, std::sqrt(cn * cn + mc * sn * sn)};
}

// The quarter period K by the arithmetic-geometric mean.
double complete_elliptic(double mc) {
  double a = 1, b = std::sqrt(mc);
  for (int i = 0; i < 40 && a - b > 1e-16 * a; ++i) {
    const double mean = (a + b) / 2;
    b = std::sqrt(a * b);
    a = mean;
  }
  return std::numbers::pi / (2 * a);
}

}  // namespace

Quadrature::Quadrature(double low, double high, double tolerance) {
  using std::numbers::pi;
  const double mc = std::min(low / high, 0.999), period = complete_elliptic(mc);
  const double wanted = std::log(4 / tolerance) * std::log(4 / std::sqrt(mc)) / (pi * pi);
  count = std::clamp(static_cast<int>(std::ceil(wanted)) + 1, 3, most_poles);
  for (int p = 0; p < count; ++p) {
    const double u = (p + 0.5) * period / count;
    Elliptic f = jacobi(std::min(u, period - u), mc);
    if (2 * u > period) {  // reflection about K/2 keeps cn accurate near K
      f = {f.cn / f.dn, std::sqrt(mc) * f.sn / f.dn, std::sqrt(mc) / f.dn};
    }
    weight[p] = 2 * std::sqrt(low) * period / (pi * count) * f.dn / (f.cn * f.cn);
    pole[p] = low * (f.sn / f.cn) * (f.sn / f.cn);
  }
}

Quadrature Quadrature::poles(int begin, int end) const {
  Quadrature part;
  part.count = end - begin;
  std::copy(weight + begin, weight + end, part.weight);
  std::copy(pole + begin, pole + end, part.pole);
  return part;
}

double Quadrature::operator()(double lambda) const {
  double sum = 0;
  for (int p = 0; p < count; ++p) sum += weight[p] / (lambda + pole[p]);
  return sum;
}

}  // namespace normball::detail
