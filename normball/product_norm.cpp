#include "normball/product_norm.h"

#include <algorithm>
#include <cmath>

#include "normball/base/error.h"
#include "normball/internal/kernels/kernels.h"

namespace normball {
namespace {

double sum(std::span<const double> values) {
  double total = 0;
  for (const double value : values) total += value;
  return total;
}

// NaN where a value is.
double largest(std::span<const double> values) {
  double max = 0;
  for (const double value : values) {
    if (!(value <= max)) max = value;
    if (std::isnan(max)) break;
  }
  return max;
}

double l2(std::span<const double> values) {
  return l2_norm(values.data(), static_cast<Index>(values.size()));
}

void require_count(std::string_view where, size_t got, size_t expected) {
  if (got != expected) {
    throw_invalid(where, "got ", got, " matrices for ", expected, " layers");
  }
}

}  // namespace

double combine_norms(Combination combination, std::span<const double> norms) {
  switch (combination) {
    case Combination::Max:
      return largest(norms);
    case Combination::Sum:
      return sum(norms);
    case Combination::L2:
      return l2(norms);
  }
  return 0;
}

double combine_duals(Combination combination, std::span<const double> duals,
                     std::span<double> weights) {
  switch (combination) {
    case Combination::Max:
      std::ranges::fill(weights, 1.0);
      return sum(duals);
    case Combination::Sum: {
      std::ranges::fill(weights, 0.0);
      const auto top = std::ranges::max_element(duals);
      if (top != duals.end()) weights[static_cast<size_t>(top - duals.begin())] = 1;
      return largest(duals);
    }
    case Combination::L2: {
      const double dual = l2(duals);
      const auto [a, b] = reciprocal(dual);
      for (size_t l = 0; l < duals.size(); ++l) weights[l] = duals[l] * a * b;
      return dual;
    }
  }
  return 0;
}

void validate(const Layer& layer) {
  if (!(std::isfinite(layer.radius) && layer.radius > 0)) {
    throw_invalid("Layer", "radius of '", layer.name, "' must be positive and finite, got ",
                  layer.radius);
  }
  const std::string error = detail::shape_error(layer.shape);
  if (!error.empty()) throw_invalid("Layer", "shape of '", layer.name, "': ", error);
}

void require_lmo(std::string_view where, std::string_view layer, const ResolvedNorm& norm) {
  if (norm.geometry != Geometry::Operator || !std::holds_alternative<ClippedPolar>(norm.solver)) {
    return;
  }
  throw_invalid(where, "the norm of '", layer, "' clips singular values (", norm.solver,
                "), which is no LMO: a constrained method could stand still where it should not; "
                "choose an unconstrained method, or solver=exact");
}

ProductNorm::ProductNorm(std::vector<Layer> layers, Combination combination)
    : layers_(std::move(layers)), combination_(combination) {
  for (const auto& layer : layers_) validate(layer);
}

template <class T>
double ProductNorm::norm(std::span<const MatrixView<T>> x) const {
  require_count("ProductNorm::norm", x.size(), layers_.size());
  std::vector<double> norms(x.size());
  for (size_t l = 0; l < x.size(); ++l) {
    norms[l] = normball::norm(layers_[l].norm, x[l], &layers_[l].shape) / layers_[l].radius;
  }
  return combine_norms(combination_, norms);
}

template <class T>
double ProductNorm::dual_norm(std::span<const MatrixView<T>> d) const {
  require_count("ProductNorm::dual_norm", d.size(), layers_.size());
  std::vector<double> duals(d.size()), weights(d.size());
  for (size_t l = 0; l < d.size(); ++l) {
    duals[l] = normball::dual_norm(layers_[l].norm, d[l], &layers_[l].shape) * layers_[l].radius;
  }
  return combine_duals(combination_, duals, weights);
}

template <class T>
double ProductNorm::lmo(std::span<const MatrixView<T>> d,
                        std::span<const MatrixView<T>> out) const {
  require_count("ProductNorm::lmo", d.size(), layers_.size());
  require_count("ProductNorm::lmo", out.size(), layers_.size());
  std::vector<double> duals(d.size()), weights(d.size());
  for (size_t l = 0; l < d.size(); ++l) {
    duals[l] =
        normball::lmo<T>(layers_[l].norm, d[l], out[l], &layers_[l].shape) * layers_[l].radius;
  }
  const double dual = combine_duals(combination_, duals, weights);
  for (size_t l = 0; l < d.size(); ++l) {
    const double factor = weights[l] * layers_[l].radius;
    for_each_run(out[l],
                 [&](Index at, Index n) { kernels<T>().scale(out[l].data + at, factor, n); });
  }
  return dual;
}

#define NORMBALL_INSTANTIATE(T)                                                                    \
  template double ProductNorm::norm(std::span<const MatrixView<T>>) const;                         \
  template double ProductNorm::dual_norm(std::span<const MatrixView<T>>) const;                    \
  template double ProductNorm::lmo(std::span<const MatrixView<T>>, std::span<const MatrixView<T>>) \
      const;
NORMBALL_INSTANTIATE(float)
NORMBALL_INSTANTIATE(double)
#undef NORMBALL_INSTANTIATE

}  // namespace normball
