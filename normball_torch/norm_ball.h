// Every method of the library as a torch::optim::Optimizer.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "normball/optimizer.h"
#include "normball_torch/options.h"

namespace normball::optim {

// The parameters of a module as one group, with their names and what their modules say they are.
::torch::optim::OptimizerParamGroup group_of(const ::torch::nn::Module& module,
                                             const NormBallOptions& options = {});

// s and η are of all groups together. Contiguous CPU tensors of float32 or float64 are updated in
// place by the core; all others by tensor operations (float32 for 16-bit types). Parameters are
// routed to norms at the first step, and again when a group or its options change.
class NormBall : public ::torch::optim::Optimizer {
 public:
  // `method` as in method_names(): "ggnc", "clipped_sign", ...
  NormBall(std::vector<::torch::optim::OptimizerParamGroup> groups, std::string_view method,
           const NormBallOptions& defaults);
  NormBall(std::vector<::torch::Tensor> parameters, std::string_view method,
           const NormBallOptions& defaults);
  // With names, so that rules and explain() can use them: module->named_parameters().
  NormBall(const ::torch::OrderedDict<std::string, ::torch::Tensor>& parameters,
           std::string_view method, const NormBallOptions& defaults);
  // With names and kinds.
  NormBall(const ::torch::nn::Module& module, std::string_view method,
           const NormBallOptions& defaults);
  NormBall(NormBall&&) noexcept;
  ~NormBall() override;

  ::torch::Tensor step(LossClosure closure = nullptr) override;
  void save(::torch::serialize::OutputArchive& archive) const override;
  void load(::torch::serialize::InputArchive& archive) override;

  // Of the last step; its layers are in the order of routing().layers().
  const StepReport& report() const { return report_; }
  int64_t steps_taken() const { return steps_; }

  const Routing& routing();
  std::string explain();
  // The module's parameters that no group has are listed as well, with a warning.
  std::string explain(const ::torch::nn::Module& module);

 private:
  struct Plan;
  // A tied weight's further mention: routing hears of it, the group holds the tensor once.
  struct Alias {
    ::torch::Tensor tensor;
    size_t group;
    std::string name, kind;
  };

  NormBallOptions& group_options(size_t group);
  const NormBallOptions& whole() const;
  Method make() const;
  void check_groups();
  void take_aliases(size_t group);
  Plan& plan();
  void step_with_gradients();
  NormBallParamState& state_of(const ::torch::Tensor& parameter);

  std::string method_;
  std::vector<Alias> aliases_;
  std::unique_ptr<Plan> plan_;
  StepReport report_;
  int64_t steps_ = 0;
};

}  // namespace normball::optim
