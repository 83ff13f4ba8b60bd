// Your own norm.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "normball/matrix_view.h"
#include "normball/norms/resolved_norm.h"

namespace normball {

// One required function. Called from several threads at once.
class NormOracle {
 public:
  virtual ~NormOracle() = default;

  // out <- a minimizer of <d, out> over the unit ball; 0 for d = 0.
  virtual void lmo(ConstMatrixView<double> d, MatrixView<double> out) const = 0;
  virtual void lmo(ConstMatrixView<float> d, MatrixView<float> out) const;  // converts to double

  // Needed only where a rule or a report asks for it; throws by default.
  virtual double norm(ConstMatrixView<double> x) const;

  virtual std::string name() const { return "custom"; }
};

// Throws for a user's x = lmo(d) with ⟨d, x⟩ > 0, which no ball around 0 can give.
template <class T>
void require_descent(const NormOracle& oracle, ConstMatrixView<T> d, ConstMatrixView<T> x);

struct Custom {
  std::shared_ptr<const NormOracle> oracle = nullptr;
  friend bool operator==(const Custom&, const Custom&) = default;

  static constexpr std::array<std::string_view, 0> names = {};  // it cannot be read from text
  static Custom parse(TextCall& call);
  std::string text() const;
  ResolvedNorm resolve(const Shape& shape) const;
};

}  // namespace normball
