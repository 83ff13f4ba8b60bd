// The parameters that are updated in one way: by the core in float32 or float64, or by tensor
// operations. An optimizer has up to three parts, and only s and η pass between them. Internal.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "normball/optimizer.h"
#include "normball/routing.h"
#include "normball_torch/options.h"

namespace normball::optim {

// A parameter with its matrices, its state, and what changes from step to step.
struct Member {
  ::torch::Tensor tensor;
  const Route* route = nullptr;
  NormBallParamState* state = nullptr;
  size_t group = 0;
  size_t first_layer = 0;  // of its first block in the whole report
  double lr_factor = 1;    // set before every step
};

class Part {
 public:
  virtual ~Part() = default;

  // As in Optimizer: prepare() finds the directions, apply() moves the weights, one of apply() and
  // abandon() follows. The report's layers are those of the members, in order.
  virtual void set_lr(double lr) = 0;
  virtual const StepReport& prepare() = 0;
  virtual void apply(double eta) = 0;
  virtual void abandon() = 0;
  // The bases of power iteration into the members' states.
  virtual void store_bases() {}

  std::vector<Member>& members() { return members_; }

 protected:
  explicit Part(std::vector<Member> members) : members_(std::move(members)) {}
  std::vector<Member> members_;
};

std::vector<Layer> layers_of(const std::vector<Member>& members);

// The gradient as the step needs it: dense, contiguous, in the given type. Undefined if none.
::torch::Tensor gradient_of(const Member& member, ::torch::ScalarType type);
// The state's momentum in that type, made if it is not there yet.
::torch::Tensor& momentum_of(const Member& member, ::torch::ScalarType type);

// T is float or double.
template <class T>
std::unique_ptr<Part> make_core_part(std::vector<Member> members, const Method& method,
                                     const Execution& execution, int64_t steps);
std::unique_ptr<Part> make_aten_part(std::vector<Member> members, const Method& method,
                                     const Execution& execution, int64_t steps);

}  // namespace normball::optim
