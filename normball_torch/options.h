// Options and state in LibTorch's form. One options type serves the optimizer and its groups.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "normball/method.h"
#include "normball/routing.h"

namespace normball::ranks {
class Ranks;
}

namespace normball::optim {

struct NormBallOptions : public ::torch::optim::OptimizerCloneableOptions<NormBallOptions> {
  NormBallOptions() = default;
  NormBallOptions(double lr);  // NOLINT: as in LibTorch, a number is an lr

  // Options of a group, or of all groups: a group inherits from the optimizer what it leaves out.
  // lr is γρ, the largest step relative to the balls. Text forms are those of the library.
  TORCH_ARG(std::optional<double>, lr) = {};
  TORCH_ARG(std::string, norm) = "auto";
  TORCH_ARG(std::optional<double>, radius) = {};
  TORCH_ARG(std::string, role) = "";   // input, onehot, hidden, output or bias
  TORCH_ARG(std::string, split) = "";  // "3", "rows(768, 256, 256)", "columns(12)"
  TORCH_ARG(std::optional<int64_t>, batch) = {};
  TORCH_ARG(std::shared_ptr<const NormOracle>, oracle) = {};  // a norm of your own
  TORCH_ARG(std::vector<std::string>, names) = {};  // of the group's parameters, in their order
  TORCH_ARG(std::vector<std::string>, kinds) = {};  // as parse_kind() reads them, or none

  // Options of the whole optimizer: a group with another value is an error.
  // alpha and rho may change from step to step, in the optimizer's defaults().
  TORCH_ARG(std::optional<double>, alpha) = {};
  TORCH_ARG(std::optional<double>, rho) = {};
  TORCH_ARG(std::optional<double>, beta) = {};
  TORCH_ARG(std::optional<double>, l0) = {};
  TORCH_ARG(std::optional<double>, l1) = {};
  TORCH_ARG(std::optional<bool>, constrained) = {};
  TORCH_ARG(std::optional<std::string>, short_step) = {};  // plain, norm or diameter
  // A rule that finds it, in place of that of a method whose steps all have the length lr:
  // "adagrad", "distance_aware(most=0.01)", "momo", "auto_clipped". See docs/stepsizes.md.
  TORCH_ARG(std::optional<std::string>, stepsize) = {};
  // Tries steps at every step(closure): "backtracking", "smoothness". See docs/stepsizes.md.
  TORCH_ARG(std::optional<std::string>, line_search) = {};
  TORCH_ARG(std::optional<std::string>, solver) = {};  // of spectral norms that name none
  TORCH_ARG(std::optional<std::vector<RoutingRule>>, rules) = {};
  TORCH_ARG(std::optional<RoleNorms>, norms) = {};  // by role, as radii
  TORCH_ARG(std::optional<RoleRadii>, radii) = {};
  TORCH_ARG(std::optional<bool>, auto_radii) = {};   // from the architecture instead
  TORCH_ARG(std::optional<double>, grad_clip) = {};  // what clip_grad_norm_ is called with, if so
  TORCH_ARG(std::optional<int64_t>, threads) = {};   // 0: OpenMP's default
  // Spectral layers store their direction in the gradient, which is lost; this saves a buffer.
  TORCH_ARG(std::optional<bool>, overwrite_gradients) = {};
  TORCH_ARG(std::optional<bool>, skip_nonfinite) = {};  // skip a step with NaN instead of throwing
  TORCH_ARG(std::optional<bool>, force_aten) = {};      // tensor operations on the CPU as well
  // Several processes with the same weights, and gradients averaged over them before every step (as
  // by DDP), share the LMOs: see normball_torch/ranks/. All call step() and
  // consolidate_state() together.
  TORCH_ARG(std::shared_ptr<::normball::ranks::Ranks>, ranks) = {};
  // With ranks: gradients are summed where NormBall::gradient_parts() says it, and elsewhere hold
  // anything. Halves what is sent of them. Not with a line search, which needs the whole gradient.
  TORCH_ARG(std::optional<bool>, gradients_in_parts) = {};

 public:
  void serialize(::torch::serialize::InputArchive& archive) override;
  void serialize(::torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override;
  void set_lr(const double lr) override;

  // What the group says to routing; what it leaves out is as in `whole`.
  Assignment assignment(const NormBallOptions& whole) const;
  // Throws for an option of the whole optimizer that is set here and differs from `whole`.
  void require_no_override(const NormBallOptions& whole, std::string_view where,
                           size_t group) const;
  // Forgets the options of the whole optimizer: a group then follows the optimizer's.
  void inherit();
  // All options but the lr.
  bool same_but_lr(const NormBallOptions& other) const;
  // All but lr, alpha and rho, which the parts of an optimizer follow from step to step.
  bool same_but_numbers(const NormBallOptions& other) const;
};

struct NormBallParamState
    : public ::torch::optim::OptimizerCloneableParamState<NormBallParamState> {
  TORCH_ARG(::torch::Tensor, momentum_buffer) = {};
  TORCH_ARG(::torch::Tensor, basis) = {};  // of power iteration, all matrices in a row
  TORCH_ARG(::torch::Tensor, start) = {};  // x_0, of a stepsize that measures the distance from it
  // The rows of the momentum that this rank has, where ranks divide it; momentum_buffer then is
  // that of another rank. Not in archives: consolidate_state() puts the whole together before.
  TORCH_ARG(::torch::Tensor, momentum_rows) = {};

 public:
  void serialize(::torch::serialize::InputArchive& archive) override;
  void serialize(::torch::serialize::OutputArchive& archive) const override;
};

}  // namespace normball::optim
