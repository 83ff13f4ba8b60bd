#include "normball_torch/aten_norms.h"

#include <algorithm>
#include <limits>

#include "normball/random.h"

namespace normball::optim {
namespace {

using ::torch::Tensor;

// Squares of the entries must neither overflow nor vanish: every length is that of x divided by its
// largest entries, times those.
Tensor safe_divide(const Tensor& x, const Tensor& length) {
  return ::torch::where(length > 0, x / length, ::torch::zeros_like(x));
}

struct Lengths {
  Tensor unit;    // the rows or columns divided by their lengths, 0 where that is 0
  Tensor length;  // float64
};

Lengths lengths(const Tensor& x, int64_t dim) {
  if (x.size(dim) == 0) {
    return {x, ::torch::zeros_like(x.sum(dim, /*keepdim=*/true), ::torch::kFloat64)};
  }
  const Tensor largest = x.abs().amax(dim, /*keepdim=*/true);
  const Tensor scaled = safe_divide(x, largest);
  const Tensor length = ::torch::linalg_vector_norm(scaled, 2, ::torch::IntArrayRef(dim),
                                                    /*keepdim=*/true, ::torch::kFloat64);
  return {safe_divide(scaled, length.to(x.scalar_type())), length * largest.to(::torch::kFloat64)};
}

// Of all entries together.
Lengths length(const Tensor& x) {
  const auto [unit, length] = lengths(x.reshape({1, -1}), 1);
  return {unit.reshape(x.sizes()), length.squeeze()};
}

// Directions of singular values at rounding level are left out: they have no meaning.
Tensor svd_polar(const Tensor& x) {
  const auto [u, sigma, v] = ::torch::linalg_svd(x, /*full_matrices=*/false);
  const double eps = x.scalar_type() == ::torch::kFloat64 ? std::numeric_limits<double>::epsilon()
                                                          : std::numeric_limits<float>::epsilon();
  const double cut = eps * static_cast<double>(std::max(x.size(0), x.size(1)));
  const auto kept = (sigma > cut * sigma.max()).to(x.scalar_type());
  return ::torch::matmul(u * kept, v);
}

Tensor damped_polar(const DampedPolar& solver, const Tensor& x) {
  const auto [u, sigma, v] = ::torch::linalg_svd(x, /*full_matrices=*/false);
  const auto damped = ::torch::hypot(sigma, solver.damping * sigma.max());
  return ::torch::matmul(u * safe_divide(sigma, damped), v);
}

// x is d / scale: a threshold is of d.
Tensor clipped_polar(const ClippedPolar& solver, const Tensor& x, const Tensor& scale) {
  const auto [u, sigma, v] = ::torch::linalg_svd(x, /*full_matrices=*/false);
  const auto values = sigma.to(::torch::kFloat64);
  const auto tau =
      solver.tau == 0 ? solver.share * values.max() : solver.tau / scale.to(::torch::kFloat64);
  const auto cut = safe_divide(values, tau).clamp_max(1).to(x.scalar_type());
  return ::torch::matmul(u * cut, v);
}

Tensor newton_schulz(const NewtonSchulz& solver, const Tensor& matrix) {
  const bool tall = matrix.size(0) > matrix.size(1);
  Tensor x = tall ? matrix.t() : matrix;
  x = length(x).unit / solver.safety;
  if (solver.rescale_rows) {
    const auto sums = ::torch::matmul(x, x.t()).abs().sum(1, /*keepdim=*/true);
    x = safe_divide(x, sums.sqrt());
  }
  for (const auto& [a, b, c] : solver.steps) {
    const auto gram = ::torch::matmul(x, x.t());
    x = a * x + ::torch::matmul(b * gram + c * ::torch::matmul(gram, gram), x);
  }
  return tall ? x.t() : x;
}

// The same start as the core's.
void random_start(const Tensor& basis) {
  Random random(static_cast<std::uint64_t>(basis.numel()));
  auto start = ::torch::empty({basis.numel()}, ::torch::kFloat64);
  for (int64_t i = 0; i < basis.numel(); ++i) start.data_ptr<double>()[i] = random.normal();
  basis.copy_(start.view_as(basis));
}

Tensor power_iteration(const PowerIteration& solver, const Tensor& matrix, const Tensor& state) {
  const bool tall = matrix.size(0) > matrix.size(1);
  const Tensor x = tall ? matrix.t() : matrix;
  const int64_t rank = std::min<int64_t>(solver.rank, x.size(0));
  Tensor basis = state.defined() ? state.view({rank, x.size(1)})
                                 : ::torch::zeros({rank, x.size(1)}, x.options());
  if (basis.abs().max().item<double>() == 0) random_start(basis);
  const auto [q, r] = ::torch::linalg_qr(::torch::matmul(x, basis.t()));
  basis.copy_(svd_polar(::torch::matmul(q.t(), x)));
  const auto result = ::torch::matmul(q, basis);
  return tall ? result.t() : result;
}

// A user's norm works on the CPU in double.
Tensor oracle_direction(const NormOracle& oracle, const Tensor& d) {
  const auto in = d.to(::torch::kCPU, ::torch::kFloat64).contiguous();
  const auto out = ::torch::zeros_like(in);
  const ConstMatrixView<double> from(in.data_ptr<double>(), in.size(0), in.size(1));
  const MatrixView<double> to(out.data_ptr<double>(), in.size(0), in.size(1));
  oracle.lmo(from, to);
  require_descent<double>(oracle, from, to);
  return out.neg().to(d.device(), d.scalar_type());
}

Tensor oracle_norm(const NormOracle& oracle, const Tensor& x) {
  const auto in = x.to(::torch::kCPU, ::torch::kFloat64).contiguous();
  return ::torch::full(
      {}, oracle.norm(ConstMatrixView<double>(in.data_ptr<double>(), in.size(0), in.size(1))),
      ::torch::dtype(::torch::kFloat64).device(x.device()));
}

}  // namespace

::torch::ScalarType compute_type(::torch::ScalarType type) {
  return type == ::torch::kHalf || type == ::torch::kBFloat16 ? ::torch::kFloat32 : type;
}

Tensor aten_polar(const PolarSolver& solver, const Tensor& x, const Tensor& basis) {
  if (const auto* steps = std::get_if<NewtonSchulz>(&solver)) return newton_schulz(*steps, x);
  if (const auto* damped = std::get_if<DampedPolar>(&solver)) return damped_polar(*damped, x);
  if (const auto* power = std::get_if<PowerIteration>(&solver)) {
    return power_iteration(*power, x, basis);
  }
  return svd_polar(x);
}

Tensor aten_pairing(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0) return ::torch::zeros({}, a.options().dtype(::torch::kFloat64));
  const Tensor largest = a.abs().max();
  return (safe_divide(a, largest) * b).sum(::torch::kFloat64) * largest.to(::torch::kFloat64);
}

AtenDirection aten_direction(const ResolvedNorm& norm, const Tensor& d, const Tensor& basis) {
  switch (norm.geometry) {
    case Geometry::Frobenius: {
      const auto [unit, whole] = length(d);
      return {unit, whole};
    }
    case Geometry::MaxAbs:
      return {d.sign(), d.abs().sum(::torch::kFloat64)};
    case Geometry::RowL2: {
      const auto [unit, rows] = lengths(d, 1);
      return {unit, rows.sum()};
    }
    case Geometry::ColL2: {
      const auto [unit, columns] = lengths(d, 0);
      return {unit, columns.sum()};
    }
    case Geometry::Operator: {
      // UVᵀ does not depend on the scale of d; clipped singular values may.
      const Tensor largest = d.abs().max(), x = safe_divide(d, largest);
      const auto* clipped = std::get_if<ClippedPolar>(&norm.solver);
      const auto u = clipped != nullptr ? clipped_polar(*clipped, x, largest)
                                        : aten_polar(norm.solver, x, basis);
      return {u, aten_pairing(d, u)};
    }
    case Geometry::Oracle: {
      const auto u = oracle_direction(*norm.oracle, d);
      return {u, aten_pairing(d, u)};
    }
  }
  return {};
}

Tensor aten_norm(const ResolvedNorm& norm, const Tensor& x) {
  if (x.numel() == 0) return ::torch::zeros({}, x.options().dtype(::torch::kFloat64));
  switch (norm.geometry) {
    case Geometry::Frobenius:
      return length(x).length / norm.scale;
    case Geometry::MaxAbs:
      return x.abs().max().to(::torch::kFloat64) / norm.scale;
    case Geometry::RowL2:
      return lengths(x, 1).length.max() / norm.scale;
    case Geometry::ColL2:
      return lengths(x, 0).length.max() / norm.scale;
    case Geometry::Operator: {
      const Tensor largest = x.abs().max();
      const Tensor sigma = ::torch::linalg_svdvals(safe_divide(x, largest)).max();
      return sigma.to(::torch::kFloat64) * largest.to(::torch::kFloat64) / norm.scale;
    }
    case Geometry::Oracle:
      return oracle_norm(*norm.oracle, x);
  }
  return {};
}

}  // namespace normball::optim
