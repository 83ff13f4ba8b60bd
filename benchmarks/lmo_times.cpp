#include "benchmarks/lmo_times.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>

#include "benchmarks/measure.h"
#include "normball/base/error.h"

namespace normball::benchmarks {
namespace {

double work_of(const Shape& shape) {
  const auto n = static_cast<double>(std::min(shape.rows, shape.cols));
  return n * n * static_cast<double>(std::max(shape.rows, shape.cols));
}

// Of one thread its processor time: other programs on its core leave that alone.
double undisturbed_seconds(int threads, int rounds, const std::function<void()>& body) {
  if (threads > 1) return best_seconds(rounds, body);
  const auto processor = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  double best = HUGE_VAL;
  for (int round = 0; round < rounds; ++round) {
    const double start = processor();
    body();
    best = std::min(best, processor() - start);
  }
  return best;
}

bool is_or_transposes(const Shape& a, const Shape& b) {
  return std::minmax(a.rows, a.cols) == std::minmax(b.rows, b.cols);
}

}  // namespace

void LmoTimes::add(const Shape& shape, double seconds) {
  if (!(seconds > 0) || !std::isfinite(seconds)) {
    throw_invalid("bench ranks", "the LMO of ", shape.rows, "x", shape.cols, " takes ", seconds,
                  " s, which is no time");
  }
  known_.emplace_back(shape, seconds);
}

double LmoTimes::seconds(const Shape& shape) const {
  if (known_.empty()) throw_invalid("bench ranks", "no time of any spectral LMO is known");
  const auto distance = [&](const auto& known) {
    return is_or_transposes(known.first, shape)
               ? -1.0
               : std::abs(std::log(work_of(known.first) / work_of(shape)));
  };
  const auto nearest = std::ranges::min_element(known_, std::less{}, distance);
  if (distance(*nearest) < 0) return nearest->second;
  return nearest->second * work_of(shape) / work_of(nearest->first);
}

std::vector<double> LmoTimes::seconds(std::span<const Layer> layers) const {
  std::vector<double> result;
  for (const auto& layer : layers) {
    const bool spectral = std::holds_alternative<Spectral>(layer.norm);
    result.push_back(spectral ? seconds(layer.shape) : 0);
  }
  return result;
}

std::vector<Shape> shapes_to_measure(std::span<const Layer> layers, Index largest_side) {
  std::vector<Shape> shapes;
  for (const auto& layer : layers) {
    if (!std::holds_alternative<Spectral>(layer.norm)) continue;
    const bool known = std::ranges::any_of(
        shapes, [&](const Shape& shape) { return is_or_transposes(shape, layer.shape); });
    if (!known) shapes.push_back(layer.shape);
  }
  std::ranges::stable_sort(shapes, std::less{}, work_of);
  const auto large = std::ranges::find_if(
      shapes, [&](const Shape& shape) { return std::min(shape.rows, shape.cols) > largest_side; });
  if (!shapes.empty()) {
    shapes.resize(std::max<size_t>(1, static_cast<size_t>(large - shapes.begin())));
  }
  return shapes;
}

LmoTimes measure_lmos(std::span<const Shape> shapes, const PolarSolver& solver, int threads,
                      int rounds) {
  LmoTimes times;
  for (const auto& shape : shapes) {
    LmoTask task(shape.rows, shape.cols, solver, threads);
    times.add(shape, undisturbed_seconds(threads, rounds, [&] { task.run(); }));
  }
  return times;
}

}  // namespace normball::benchmarks
