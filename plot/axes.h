// The ranges that the curves of a figure cover, and their ticks. Internal to this folder.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plot/plot.h"

namespace normball::plot {

class Axes {
 public:
  explicit Axes(const Figure& figure);

  bool drawable(const Curve& curve, size_t k) const;
  static double x_of(const Curve& curve, size_t k) {
    return curve.x.empty() ? static_cast<double>(k) : curve.x[k];
  }
  // Shares of the width and the height, 0 to 1 from the left and from the top.
  double across(double x) const;
  double down(double y) const;
  double right() const { return right_; }
  // Where numbers stand on the y axis, about so many, from the top: powers of ten unless
  // linear_y().
  std::vector<double> y_ticks(int wanted) const;
  bool linear_y() const { return linear_y_; }
  // Where numbers stand on the x axis, about so many.
  std::vector<double> x_ticks(int wanted) const;

 private:
  bool log_x_, linear_y_;
  double left_ = 0, right_ = 1;
  int low_ = 0, high_ = 1;       // decades of y
  double bottom_ = 0, top_ = 1;  // where it is linear
};

// 1, 2 or 5 times a power of ten, so that about `wanted` of them fit into the length.
double tick_distance(double length, int wanted);
// Without a fraction where it has none.
std::string tick_text(double value);

}  // namespace normball::plot
