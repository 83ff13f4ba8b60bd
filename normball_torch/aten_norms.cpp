#include "normball_torch/aten_norms.h"

#include <algorithm>
#include <limits>

#include "normball/random.h"

namespace normball::optim {
namespace {

using ::torch::Tensor;

// x / length, and 0 where the length is 0.
Tensor safe_divide(const Tensor& x, const Tensor& length) {
  const auto own = length.to(x.scalar_type());
  return ::torch::where(own > 0, x / own, ::torch::zeros_like(x));
}

Tensor pairing(const Tensor& a, const Tensor& b) { return (a * b).sum(::torch::kFloat64); }

Tensor lengths(const Tensor& x, int64_t dim) {
  return ::torch::linalg_vector_norm(x, 2, ::torch::IntArrayRef(dim), /*keepdim=*/true,
                                     ::torch::kFloat64);
}

Tensor length(const Tensor& x) { return lengths(x.reshape({1, -1}), 1).squeeze(); }

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

Tensor newton_schulz(const NewtonSchulz& solver, const Tensor& matrix) {
  const bool tall = matrix.size(0) > matrix.size(1);
  Tensor x = tall ? matrix.t() : matrix;
  x = safe_divide(x, solver.safety * length(x));
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
  oracle.lmo(ConstMatrixView<double>(in.data_ptr<double>(), in.size(0), in.size(1)),
             MatrixView<double>(out.data_ptr<double>(), in.size(0), in.size(1)));
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

AtenDirection aten_direction(const ResolvedNorm& norm, const Tensor& d, const Tensor& basis) {
  switch (norm.geometry) {
    case Geometry::Frobenius: {
      const auto whole = length(d);
      return {safe_divide(d, whole), whole};
    }
    case Geometry::MaxAbs:
      return {d.sign(), d.abs().sum(::torch::kFloat64)};
    case Geometry::RowL2: {
      const auto rows = lengths(d, 1);
      return {safe_divide(d, rows), rows.sum()};
    }
    case Geometry::ColL2: {
      const auto columns = lengths(d, 0);
      return {safe_divide(d, columns), columns.sum()};
    }
    case Geometry::Operator: {
      const auto u = aten_polar(norm.solver, d, basis);
      return {u, pairing(d, u)};
    }
    case Geometry::Oracle: {
      const auto u = oracle_direction(*norm.oracle, d);
      return {u, pairing(d, u)};
    }
  }
  return {};
}

Tensor aten_norm(const ResolvedNorm& norm, const Tensor& x) {
  switch (norm.geometry) {
    case Geometry::Frobenius:
      return length(x) / norm.scale;
    case Geometry::MaxAbs:
      return x.abs().max().to(::torch::kFloat64) / norm.scale;
    case Geometry::RowL2:
      return lengths(x, 1).max() / norm.scale;
    case Geometry::ColL2:
      return lengths(x, 0).max() / norm.scale;
    case Geometry::Operator:
      return ::torch::linalg_svdvals(x).max().to(::torch::kFloat64) / norm.scale;
    case Geometry::Oracle:
      return oracle_norm(*norm.oracle, x);
  }
  return {};
}

}  // namespace normball::optim
