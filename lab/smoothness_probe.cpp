#include "lab/smoothness_probe.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "normball/base/error.h"

namespace normball::lab {
namespace {

using Views = SmoothnessProbe::Views;
using Buffers = std::vector<std::vector<double>>;

template <class T>
Buffers copy_of(std::span<const MatrixView<T>> x) {
  Buffers copy;
  for (const auto& view : x) {
    auto& to = copy.emplace_back();
    for (Index i = 0; i < view.rows; ++i) to.insert(to.end(), view.row(i), view.row(i) + view.cols);
  }
  return copy;
}

Buffers zeros(const std::vector<Layer>& layers) {
  Buffers buffers;
  for (const auto& layer : layers) {
    buffers.emplace_back(static_cast<size_t>(layer.shape.size()));
  }
  return buffers;
}

// to <- a + factor b
void combine(const Buffers& a, double factor, const Buffers& b, Buffers& to) {
  for (size_t l = 0; l < a.size(); ++l) {
    for (size_t i = 0; i < a[l].size(); ++i) to[l][i] = a[l][i] + factor * b[l][i];
  }
}

}  // namespace

SmoothnessFit upper_envelope(std::span<const SmoothnessPair> pairs) {
  std::vector<SmoothnessPair> used;
  double weights = 0, weighted = 0;
  for (const auto& pair : pairs) {
    if (!(pair.ratio > 0 && std::isfinite(pair.ratio) && std::isfinite(pair.dual_norm))) continue;
    used.push_back(pair);
    weights += 1 / pair.ratio;
    weighted += pair.dual_norm / pair.ratio;
  }
  if (used.empty()) throw_invalid("upper_envelope", "there is no pair with a positive ratio");
  const double center = weighted / weights;  // minimize l0 + l1 center over the lines above all

  // For a given l1 the best l0 is max(0, max b − l1 a): convex and piecewise linear in l1.
  const auto height = [&](double l1) {
    double l0 = 0;
    for (const auto& pair : used) l0 = std::max(l0, pair.ratio - l1 * pair.dual_norm);
    return SmoothnessFit{l0, l1, used.size()};
  };
  double low = 0, high = 0;
  for (const auto& pair : used) {
    if (pair.dual_norm > 0) high = std::max(high, pair.ratio / pair.dual_norm);
  }
  const auto objective = [&](double l1) { return height(l1).l0 + l1 * center; };
  for (int k = 0; k < 200; ++k) {
    const double a = low + (high - low) / 3, b = high - (high - low) / 3;
    (objective(a) <= objective(b) ? high : low) = objective(a) <= objective(b) ? b : a;
  }
  // The minimum is often at l1 = 0; ties go to the flatter line.
  return height(objective(0) <= objective(low) ? 0 : (low + high) / 2);
}

Suggestion suggest(const SmoothnessFit& fit, double margin) {
  require_positive("suggest", "margin", margin);
  if (!(fit.l0 + fit.l1 > 0)) throw_invalid("suggest", "l0 and l1 are both 0");
  if (fit.l1 == 0) {
    const double gamma = 1 / (margin * fit.l0);
    return {std::numeric_limits<double>::infinity(), gamma, gamma};
  }
  // Without an l0 the step may grow as the gradient falls; a tiny one keeps rho positive.
  const double l0 = std::max(fit.l0, 1e-12 * fit.l1);
  const double rho = l0 / fit.l1, gamma = 1 / (margin * (l0 + rho * fit.l1));
  return {rho, gamma, gamma * rho};
}

SmoothnessProbe::SmoothnessProbe(std::vector<Layer> layers, Combination combination)
    : norm_(std::move(layers), combination) {}

std::vector<MatrixView<double>> SmoothnessProbe::views(Buffers& buffers) const {
  if (buffers.size() != norm_.layers().size()) {
    throw_invalid("SmoothnessProbe", "got ", buffers.size(), " layers, expected ",
                  norm_.layers().size());
  }
  std::vector<MatrixView<double>> result;
  for (size_t l = 0; l < buffers.size(); ++l) {
    const auto& [name, shape, norm, radius] = norm_.layers()[l];
    if (buffers[l].size() != static_cast<size_t>(shape.size())) {
      throw_invalid("SmoothnessProbe", "layer '", name, "' has ", buffers[l].size(),
                    " entries, expected ", shape.size());
    }
    result.emplace_back(buffers[l].data(), shape.rows, shape.cols);
  }
  return result;
}

template <class T>
void SmoothnessProbe::observe_any(std::span<const MatrixView<T>> x,
                                  std::span<const MatrixView<T>> gradient) {
  Buffers now = copy_of(x), slope = copy_of(gradient);
  const double dual = norm_.dual_norm<double>(views(slope));
  views(now);  // refuses other shapes before anything is kept
  if (!last_x_.empty()) {
    combine(now, -1, last_x_, last_x_);
    combine(slope, -1, last_gradient_, last_gradient_);
    const double distance = norm_.norm<double>(views(last_x_));
    if (distance > 0) {
      const double ratio = norm_.dual_norm<double>(views(last_gradient_)) / distance;
      pairs_.push_back({dual, ratio});
      pairs_.push_back({last_dual_, ratio});
    }
  }
  last_x_ = std::move(now);
  last_gradient_ = std::move(slope);
  last_dual_ = dual;
}

template void SmoothnessProbe::observe_any(std::span<const MatrixView<float>>,
                                           std::span<const MatrixView<float>>);
template void SmoothnessProbe::observe_any(std::span<const MatrixView<double>>,
                                           std::span<const MatrixView<double>>);

void SmoothnessProbe::forget_last() { last_x_.clear(); }

void SmoothnessProbe::explore(Views x, const GradientAt& gradient_at, double distance,
                              int directions, std::uint64_t seed) {
  require_positive("SmoothnessProbe::explore", "distance", distance);
  constexpr int climbs = 8;
  const Buffers center = copy_of<double>(x);
  Buffers gradient = zeros(norm_.layers()), moved = gradient, change = gradient, u = gradient;
  gradient_at(x, views(gradient));
  SmoothnessPair steepest{norm_.dual_norm<double>(views(gradient)), 0};
  Random random(seed);
  Buffers best = last_direction_;
  for (int k = -1; k <= directions; ++k) {
    if (k == -1) {
      if (last_direction_.empty()) continue;
      u = last_direction_;
    } else if (k == 0) {
      norm_.lmo<double>(views(gradient), views(u));
    } else {
      const auto out = views(u);
      for (size_t l = 0; l < out.size(); ++l) {
        const Layer& layer = norm_.layers()[l];
        sample_sphere(layer.norm, layer.shape, layer.radius, out[l], random);
      }
    }
    double reached = 0;
    for (int climb = 0; climb < climbs; ++climb) {
      const double length = norm_.norm<double>(views(u));
      if (!(length > 0)) break;
      combine(center, distance / length, u, moved);
      gradient_at(views(moved), views(change));
      combine(gradient, -1, change, change);  // −∇²f u up to a factor: its lmo climbs
      const double ratio = norm_.dual_norm<double>(views(change)) / distance;
      if (ratio > steepest.ratio) {
        steepest.ratio = ratio;
        best = u;
      }
      if (!(ratio > 1.001 * reached)) break;
      reached = ratio;
      norm_.lmo<double>(views(change), views(u));
    }
  }
  last_direction_ = std::move(best);
  pairs_.push_back(steepest);
}

}  // namespace normball::lab
