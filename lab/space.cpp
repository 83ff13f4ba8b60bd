#include "lab/space.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "normball/base/error.h"
#include "normball/base/text.h"

namespace normball::lab {
namespace {

constexpr Shape single{.rows = 5, .cols = 3};
constexpr std::array<std::string_view, 5> names = {"euclidean", "sign", "spectral", "row",
                                                   "product"};

ConstMatrixView<double> view(const Point& x, size_t offset, const Shape& shape) {
  return {x.data() + offset, shape.rows, shape.cols};
}

// Norms are asked for in every step of every run: the scratch memory stays.
Workspace& scratch() {
  thread_local Workspace workspace;
  return workspace;
}

}  // namespace

double inner(const Point& a, const Point& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double euclidean_norm(const Point& a) { return std::sqrt(inner(a, a)); }

Point difference(const Point& a, const Point& b) {
  Point c(a.size());
  std::ranges::transform(a, b, c.begin(), std::minus{});
  return c;
}

Space::Space(std::string name, std::vector<Layer> layers)
    : name_(std::move(name)), layers_(std::move(layers)) {
  for (const auto& layer : layers_) {
    validate(layer);
    norms_.push_back(resolve(layer.norm, layer.shape));
    if (norms_.back().geometry == Geometry::Oracle) {
      throw_invalid("Space", "the constants of a custom norm are not known to the lab");
    }
    offsets_.push_back(size_);
    size_ += static_cast<size_t>(layer.shape.size());
  }
}

std::vector<MatrixView<double>> Space::views(Point& x) const {
  std::vector<MatrixView<double>> result;
  for (size_t l = 0; l < layers_.size(); ++l) {
    result.emplace_back(x.data() + offsets_[l], layers_[l].shape.rows, layers_[l].shape.cols);
  }
  return result;
}

double Space::norm(const Point& x) const {
  double largest = 0;
  for (size_t l = 0; l < layers_.size(); ++l) {
    const double n = norm_of<double>(norms_[l], view(x, offsets_[l], layers_[l].shape), scratch());
    largest = std::max(largest, n / layers_[l].radius);
  }
  return largest;
}

double Space::dual_norm(const Point& d) const {
  double sum = 0;
  for (size_t l = 0; l < layers_.size(); ++l) {
    sum += layers_[l].radius *
           dual_norm_of<double>(norms_[l], view(d, offsets_[l], layers_[l].shape), scratch());
  }
  return sum;
}

void Space::ascent_direction(const Point& d, Point& direction) const {
  direction.resize(size_);
  const auto out = views(direction);
  for (size_t l = 0; l < layers_.size(); ++l) {
    lmo<double>(layers_[l].norm, view(d, offsets_[l], layers_[l].shape), out[l], &layers_[l].shape);
    for (size_t i = 0; i < static_cast<size_t>(layers_[l].shape.size()); ++i) {
      direction[offsets_[l] + i] *= -layers_[l].radius;
    }
  }
}

Point Space::sphere(Random& random) const {
  Point x(size_);
  const auto out = views(x);
  for (size_t l = 0; l < layers_.size(); ++l) {
    sample_sphere(layers_[l].norm, layers_[l].shape, layers_[l].radius, out[l], random);
  }
  return x;
}

double Space::unit(size_t layer) const { return norms_[layer].scale * layers_[layer].radius; }

double Space::largest_unit() const {
  double largest = 0;
  for (size_t l = 0; l < layers_.size(); ++l) largest = std::max(largest, unit(l));
  return largest;
}

bool Space::equal_radii() const {
  return std::ranges::all_of(layers_, [](const Layer& layer) { return layer.radius == 1; });
}

double Space::zeta() const {
  double sum = 0;
  for (size_t l = 0; l < layers_.size(); ++l) {
    sum += unit(l) * unit(l) * square_width(geometry(l), layers_[l].shape);
  }
  return std::sqrt(sum);
}

double Space::zeta_star() const {
  double smallest = INFINITY;
  for (size_t l = 0; l < layers_.size(); ++l) smallest = std::min(smallest, unit(l));
  return 1 / smallest;
}

double square_width(Geometry geometry, const Shape& shape) {
  switch (geometry) {
    case Geometry::MaxAbs:
      return static_cast<double>(shape.size());
    case Geometry::RowL2:
      return static_cast<double>(shape.rows);
    case Geometry::ColL2:
      return static_cast<double>(shape.cols);
    case Geometry::Operator:
      return static_cast<double>(std::min(shape.rows, shape.cols));
    case Geometry::Frobenius:
    case Geometry::Oracle:
      break;
  }
  return 1;
}

double operator_width(Geometry geometry, const Shape& shape) {
  return geometry == Geometry::Operator ? 1 : std::sqrt(square_width(geometry, shape));
}

double diagonal_curvature(Geometry geometry, const Shape& shape, std::span<const double> c) {
  const double total = std::accumulate(c.begin(), c.end(), 0.0);
  const double largest = *std::ranges::max_element(c);
  const auto cols = static_cast<double>(shape.cols);
  switch (geometry) {
    case Geometry::MaxAbs:
      return cols * total;
    case Geometry::RowL2:
      return total;
    case Geometry::ColL2:
      return cols * largest;
    case Geometry::Operator: {  // rows of length <= 1, and ‖U‖_F² <= min(rows, cols)
      std::vector<double> sorted(c.begin(), c.end());
      std::ranges::sort(sorted, std::greater{});
      sorted.resize(static_cast<size_t>(std::min(shape.rows, shape.cols)));
      return std::accumulate(sorted.begin(), sorted.end(), 0.0);
    }
    case Geometry::Frobenius:
    case Geometry::Oracle:
      break;
  }
  return largest;
}

Space make_space(std::string_view name) {
  if (name == "product") {
    return {"product",
            {{.name = "hidden", .shape = {.rows = 4, .cols = 3}, .norm = Spectral{}, .radius = 0.8},
             {.name = "output", .shape = {.rows = 3, .cols = 2}, .norm = Sign{}, .radius = 1.5},
             {.name = "bias", .shape = {.rows = 3, .rank = 1}, .norm = Rms{}, .radius = 0.5}}};
  }
  try {
    return {std::string(name), {{.name = "x", .shape = single, .norm = parse_norm(name)}}};
  } catch (const std::invalid_argument& error) {
    // "[parse_norm] unknown norm ..." becomes one text with the lab's own name in it.
    if (std::string_view(error.what()).find("unknown norm") == std::string_view::npos) throw;
    std::vector<std::string_view> known(names.begin(), names.end());
    known.insert(known.end(), {"col", "rms"});
    throw_invalid("lab", unknown_name("norm", name, known),
                  ", or any norm by its text, such as spectral(unit)");
  }
}

std::span<const std::string_view> space_names() { return names; }

}  // namespace normball::lab
