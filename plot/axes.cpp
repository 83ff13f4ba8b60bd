#include "plot/axes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace normball::plot {
namespace {

constexpr double rounding = 1e-9;  // of the distance of ticks, whose multiples are rounded

}  // namespace

Axes::Axes(const Figure& figure) : log_x_(figure.log_x), linear_y_(figure.linear_y) {
  double smallest = INFINITY, largest = -INFINITY, first = INFINITY, last = 0;
  for (const auto& curve : figure.curves) {
    if (!log_x_ && curve.x.empty()) {
      first = 0;
      last = std::max(last, static_cast<double>(curve.values.size()) - 1);
    }
    for (size_t k = 0; k < curve.values.size(); ++k) {
      if (!drawable(curve, k)) continue;
      smallest = std::min(smallest, curve.values[k]);
      largest = std::max(largest, curve.values[k]);
      first = std::min(first, x_of(curve, k));
      last = std::max(last, x_of(curve, k));
    }
  }
  if (std::isfinite(first)) {
    left_ = first;
    right_ = last > first ? last : log_x_ ? 10 * first : first + 1;
  }
  if (largest < smallest) return;
  if (linear_y_) {
    const double length =
        largest > smallest ? largest - smallest : std::max(1.0, std::abs(largest));
    const double distance = tick_distance(length, 4);
    bottom_ = distance * std::floor(smallest / distance + rounding);
    top_ = std::max(bottom_ + distance, distance * std::ceil(largest / distance - rounding));
    return;
  }
  low_ = static_cast<int>(std::floor(std::log10(smallest)));
  high_ = std::max(low_ + 1, static_cast<int>(std::ceil(std::log10(largest))));
}

bool Axes::drawable(const Curve& curve, size_t k) const {
  const double x = x_of(curve, k), y = curve.values[k];
  return (y > 0 || linear_y_) && std::isfinite(y) && std::isfinite(x) && (!log_x_ || x > 0);
}

double Axes::across(double x) const {
  if (log_x_) return std::log(x / left_) / std::log(right_ / left_);
  return (x - left_) / (right_ - left_);
}

double Axes::down(double y) const {
  if (linear_y_) return (top_ - y) / (top_ - bottom_);
  return (high_ - std::log10(y)) / (high_ - low_);
}

std::vector<double> Axes::y_ticks(int wanted) const {
  std::vector<double> ticks;
  if (linear_y_) {
    const double distance = tick_distance(top_ - bottom_, wanted);
    for (double k = std::floor(top_ / distance + rounding); k >= bottom_ / distance - rounding;
         --k) {
      ticks.push_back(k * distance);
    }
    return ticks;
  }
  const auto decades = static_cast<int>(std::max(1.0, tick_distance(high_ - low_, wanted)));
  for (int decade = high_; decade >= low_; decade -= decades) ticks.push_back(std::pow(10, decade));
  return ticks;
}

std::vector<double> Axes::x_ticks(int wanted) const {
  std::vector<double> ticks;
  if (!log_x_) {
    const double distance = std::max(1.0, tick_distance(right_ - left_, wanted));
    for (double x = std::ceil(left_ / distance) * distance; x <= right_; x += distance) {
      ticks.push_back(x);
    }
    return ticks;
  }
  const double decades = std::log10(right_ / left_);
  for (double power = std::pow(10, std::floor(std::log10(left_))); power <= right_; power *= 10) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const bool shown = factor == 1 || 3 * decades <= wanted + 1;
      const double x = factor * power;
      if (shown && x >= left_ * (1 - 1e-9) && x <= right_ * (1 + 1e-9)) ticks.push_back(x);
    }
  }
  return ticks;
}

double tick_distance(double length, int wanted) {
  const double raw = length / wanted;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * (1 - 1e-12)) return factor * power;
  }
  return 10 * power;
}

std::string tick_text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.12g", value);
  return buffer;
}

}  // namespace normball::plot
