// Every method of the library as a torch::optim::Optimizer.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "normball/optimizer.h"
#include "normball/search_rule.h"
#include "normball_torch/options.h"

namespace normball {
struct JointStep;
}  // namespace normball

namespace normball::optim {

struct Member;
class Stepsize;

// The parameters of a module as one group, with their names and what their modules say they are.
// The prefix tells the parameters of several modules apart: "encoder" makes "encoder.fc.weight".
::torch::optim::OptimizerParamGroup group_of(const ::torch::nn::Module& module,
                                             const NormBallOptions& options = {},
                                             const std::string& prefix = "");

// s and η belong to all groups together. Contiguous CPU tensors of float32 or float64 are updated
// in place by the core, all others by tensor operations (float32 for 16-bit types). Parameters are
// routed to norms when the optimizer is constructed, and again when a group or its options change.
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

  // LibTorch's, with all options of the group. Not virtual there: LibTorch from 2.13 on loses most
  // of them in a call through torch::optim::Optimizer&, which the next step refuses.
  void add_param_group(const ::torch::optim::OptimizerParamGroup& group);
  // All or nothing: after an exception weights and state are as before. The closure's loss is that
  // of the next function. With a line search the closure computes everything, as for torch's LBFGS,
  // and is called at every trial: zero_grad(), the loss, backward(), the loss returned. One that
  // does not call backward() is called with gradients once, and its trials are forward passes.
  ::torch::Tensor step(LossClosure closure = nullptr) override;
  // With f at these weights, on the batch of the gradients; with ranks, that of all of them
  // together. Stepsizes that need it (momo) refuse a step without it, others do not look at it.
  void step(double loss);
  // With a line search: evaluate() is the same loss of the weights as they are then, on the same
  // batch, in a forward pass alone.
  void step(double loss, const std::function<double()>& evaluate);
  void save(::torch::serialize::OutputArchive& archive) const override;
  void load(::torch::serialize::InputArchive& archive) override;

  // The state by layer, in place, for checkpoints of one's own: "momentum.<layer>", of power
  // iteration "basis.<layer>" and, where the stepsize needs it, "start.<layer>", the same from
  // before the first step on. Valid until the next step.
  std::vector<std::pair<std::string, ::torch::Tensor>> layer_state();
  // What the stepsize (or the line search) has seen: a few numbers, or none for most. Zeros before
  // it has seen anything.
  const std::vector<double>& rule_memory();
  // After the tensors of layer_state() were overwritten: with the count and the memory of the
  // stepsize, which may be left out where it has none or before the first step, they are the whole
  // state.
  void set_steps_taken(int64_t steps, std::span<const double> rule_memory = {});

  // With ranks: how many elements of the parameter's gradient each rank needs, rank 0 the first so
  // many, the next those that follow. Empty where all ranks need all of it, and without ranks. For
  // Ranks::reduce_parts(), with the option gradients_in_parts. Other parameters may change it.
  std::vector<int64_t> gradient_parts(const ::torch::Tensor& parameter);
  // With ranks, called by all together: brings every momentum from its owner to all ranks, until
  // the next step. Needed before save(), layer_state() and changes of the parameters.
  void consolidate_state();

  // As the options have it now; its lr is that of groups without one.
  Method method() const;

  // Of the last step; its layers are in the order of routing().layers().
  const StepReport& report() const { return report_; }
  int64_t steps_taken() const { return steps_; }
  // What the line search of the last step did; nothing without one.
  const std::optional<SearchReport>& search_report() const { return search_report_; }

  const Routing& routing();
  // The routing that step() uses, as a table.
  std::string explain();
  // The same with the module's names where the groups have none, and with the parameters of the
  // module that are in no group.
  std::string explain(const ::torch::nn::Module& module);

  // Initializes the weights in place according to their routes: matrices at random on the spheres
  // of their norms and radii, biases at 0. Gains, vectors that are not biases, and frozen
  // parameters do not change.
  void initialize(uint64_t seed = 0);
  // Scales every weight outside its ball back to the sphere: for constrained methods, which may be
  // unable to move there. Frozen parameters do not change. Returns the previous product norm of the
  // others, max ‖W_l‖ / r_l.
  double scale_into_balls();

 private:
  struct Plan;
  // A tied weight's further mention: routing hears of it, the group holds the tensor once.
  struct Alias {
    ::torch::Tensor tensor;
    size_t group;
    std::string name, kind;
  };
  // What a group's names and kinds were given for.
  struct Named {
    std::vector<std::string> names, kinds;
    std::vector<const void*> tensors;
  };

  NormBallOptions& group_options(size_t group);
  const NormBallOptions& whole() const;
  void check_groups();
  void check_joined(size_t group);
  void check_names(size_t group);
  void take_aliases(size_t group);
  Plan& plan();
  bool is_current() const;
  void follow_numbers();
  std::unique_ptr<Plan> make_routes();
  std::unique_ptr<Plan> make_plan();
  void find_states() const;
  NormBallParamState* find_state(const Member& member) const;
  NormBallParamState& state_of(const ::torch::Tensor& parameter);

  using GivenLoss = std::function<std::optional<double>()>;
  void step_with_gradients(const GivenLoss& loss);
  bool get_ready(const GivenLoss& loss);
  bool take_loss(Plan& plan, const GivenLoss& loss, double lr);
  void remember_for(const Stepsize& stepsize);
  Stepsize stepsize() const;
  ::torch::Tensor step_by_closure(const LossClosure& closure);
  void search(Plan& plan, JointStep& joint);
  void take_starts(Plan& plan);
  void require_all_ready(bool ready, const std::exception_ptr& failure);
  void compare_ranks(ranks::Ranks& ranks, Plan& plan);
  void require_whole_state(std::string_view where) const;
  double lr_of(const Plan& plan, size_t group, const Route& route);
  double set_lrs(Plan& plan);
  void combine(Plan& plan);
  void write_report(const Plan& plan, const JointStep& step);
  void skip(Plan& plan, const StepReport& because);
  void warn_of_a_stall(Plan& plan);

  std::string method_;
  std::set<const void*> joined_;  // the tensors that came through add_param_group()
  std::vector<Alias> aliases_;
  std::vector<Named> named_;
  std::vector<double> first_lrs_;  // of the groups: rules with an lr are relative to them
  std::unique_ptr<Plan> plan_;
  StepReport report_;
  int64_t steps_ = 0;
  std::optional<SearchReport> search_report_;
  std::function<double()> evaluate_;  // during a step with a line search
  std::string remembering_;           // the stepsize that has this memory:
  std::vector<double> memory_;        // empty before the first step
  bool warned_ = false;
};

}  // namespace normball::optim
