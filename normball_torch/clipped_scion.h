// ClippedScion and Scion as LibTorch optimizers:
//
//   normball::optim::ClippedScion optimizer(
//       *model, normball::optim::ClippedScionOptions(0.01).alpha(0.1).rho(600));
#pragma once

#include "normball_torch/norm_ball.h"

namespace normball::optim {

using ClippedScionOptions = NormBallOptions;
using ClippedScionParamState = NormBallParamState;
using ScionOptions = NormBallOptions;
using ScionParamState = NormBallParamState;

// The method's name for the options; throws if they do not belong to it.
std::string_view clipped_scion_method(const NormBallOptions& options);
std::string_view scion_method(const NormBallOptions& options);

// Algorithm 3, or Algorithm 4 if constrained. Needs lr and rho.
class ClippedScion : public NormBall {
 public:
  // Groups, tensors, module->named_parameters(), or a module.
  template <class Parameters>
  ClippedScion(Parameters&& parameters, const ClippedScionOptions& defaults)
      : NormBall(std::forward<Parameters>(parameters), clipped_scion_method(defaults), defaults) {}
  ClippedScion(std::vector<::torch::optim::OptimizerParamGroup> groups,
               const ClippedScionOptions& defaults)
      : NormBall(std::move(groups), clipped_scion_method(defaults), defaults) {}
  ClippedScion(std::vector<::torch::Tensor> parameters, const ClippedScionOptions& defaults)
      : NormBall(std::move(parameters), clipped_scion_method(defaults), defaults) {}
};

// Every step has the full length: ClippedScion without the threshold. Needs lr.
class Scion : public NormBall {
 public:
  template <class Parameters>
  Scion(Parameters&& parameters, const ScionOptions& defaults)
      : NormBall(std::forward<Parameters>(parameters), scion_method(defaults), defaults) {}
  Scion(std::vector<::torch::optim::OptimizerParamGroup> groups, const ScionOptions& defaults)
      : NormBall(std::move(groups), scion_method(defaults), defaults) {}
  Scion(std::vector<::torch::Tensor> parameters, const ScionOptions& defaults)
      : NormBall(std::move(parameters), scion_method(defaults), defaults) {}
};

}  // namespace normball::optim
