// The norms in tensor operations, for devices and types that the core does not know. Internal.
#pragma once

#include <torch/torch.h>

#include "normball/norms.h"

namespace normball::optim {

// The type to compute in: float32 for 16-bit types, else the tensor's own.
::torch::ScalarType compute_type(::torch::ScalarType type);

// UVᵀ of a matrix. `basis` is for power iteration, as in polar().
::torch::Tensor aten_polar(const PolarSolver& solver, const ::torch::Tensor& x,
                           const ::torch::Tensor& basis = {});

// u = -lmo_geometry(d), and ⟨d, u⟩ as a float64 scalar on d's device.
struct AtenDirection {
  ::torch::Tensor u;
  ::torch::Tensor dual;
};
AtenDirection aten_direction(const ResolvedNorm& norm, const ::torch::Tensor& d,
                             const ::torch::Tensor& basis = {});

// ⟨a, b⟩ as a float64 scalar on their device, also where a is very large or small.
::torch::Tensor aten_pairing(const ::torch::Tensor& a, const ::torch::Tensor& b);

// ‖x‖ as a float64 scalar on x's device.
::torch::Tensor aten_norm(const ResolvedNorm& norm, const ::torch::Tensor& x);

}  // namespace normball::optim
