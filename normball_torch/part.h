// The parameters that are updated in one way: by the core in float32 or float64, or by tensor
// operations. An optimizer has up to three parts, and only s and η pass between them. Internal.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "normball/optimizer.h"
#include "normball/peers.h"
#include "normball/routing.h"
#include "normball_torch/options.h"
#include "normball_torch/state_key.h"

namespace normball::optim {

// A parameter with its matrices, its state, and what changes from step to step.
struct Member {
  ::torch::Tensor tensor;
  const Route* route = nullptr;
  NormBallParamState* state = nullptr;  // null once the user has taken it out of the optimizer
  StateKey key = {};
  size_t group = 0;
  size_t first_layer = 0;     // of its first block in the whole report
  double lr_factor = 1;       // set before every step
  int owner = every_process;  // the rank that finds its direction and has its momentum
  bool elsewhere = false;     // it is another than this
  Rows rows = {};             // those of this rank, where owner is by_rows
};

class Part {
 public:
  virtual ~Part() = default;

  // As in Optimizer: prepare() finds the directions and touches nothing, apply() moves the weights,
  // one of apply() and abandon() follows. The report's layers are those of the members, in order.
  virtual void set_lr(double lr) = 0;
  virtual void set_method(const Method& method) = 0;  // another alpha or rho, and else the same
  virtual const StepReport& prepare() = 0;
  virtual const StepReport& report() const = 0;  // of the last prepare()
  // Throws std::invalid_argument for an η that apply() could not do; changes nothing.
  virtual void check(double eta) const = 0;
  virtual void apply(double eta) = 0;
  virtual void abandon() = 0;
  // After prepare(), of a part that is undoable: v of every member times its lr factor, contiguous
  // and in the type that it is computed in; 0 without a gradient.
  virtual std::vector<::torch::Tensor> directions() = 0;
  // The bases of power iteration into the members' states.
  virtual void store_bases() {}

  std::vector<Member>& members() { return members_; }

 protected:
  explicit Part(std::vector<Member> members) : members_(std::move(members)) {}
  std::vector<Member> members_;
};

std::vector<Layer> layers_of(const std::vector<Member>& members);
// Zeros for every member, in the type that it is computed in.
std::vector<::torch::Tensor> zeros_of(const std::vector<Member>& members);

// The gate to a step. Throws, naming the parameter, for a gradient or a momentum that does not fit.
void require_fitting(const Member& member);
// Throws for what cannot be a parameter.
void require_supported(const std::string& name, const ::torch::Tensor& tensor);

// Whether the tensor's memory reads as the tensor does: dense, contiguous, without a pending sign
// or conjugation.
bool is_plain(const ::torch::Tensor& tensor);
// The tensor itself where it is plain, or else a copy.
::torch::Tensor plain(const ::torch::Tensor& tensor);
// The gradient as the step needs it: plain, in the given type. Undefined if none.
::torch::Tensor gradient_of(const Member& member, ::torch::ScalarType type);
// In place of a momentum that another rank has, so that it cannot be taken for one of zeros.
::torch::Tensor momentum_elsewhere();
bool is_elsewhere(const ::torch::Tensor& momentum);  // whether it is that
// The state's momentum in that type; zeros if there is none yet.
::torch::Tensor momentum_of(const Member& member, ::torch::ScalarType type);
// The rows that this rank has of a divided momentum, as a matrix; from now on the state has no
// more.
::torch::Tensor& momentum_rows_of(Member& member, ::torch::ScalarType type);
// The state's x_0 in that type; the weight, as a copy, if there is none yet. The joint step puts it
// in the state before parts prepare, where the rule needs it.
::torch::Tensor start_of(const Member& member, ::torch::ScalarType type);
// Entries of the basis that power iteration keeps for a matrix, or for all of a parameter; else 0.
Index basis_size(const Block& block, const Norm& norm);
Index basis_size(const Route& route);
// A matrix of a plain tensor.
::torch::Tensor block_view(const ::torch::Tensor& tensor, const Block& block);

// T is float or double. The execution is undoable where another part may fail after this one.
template <class T>
std::unique_ptr<Part> make_core_part(std::vector<Member> members, const Method& method,
                                     const Execution& execution, int64_t steps,
                                     const std::shared_ptr<ranks::Ranks>& ranks);
std::unique_ptr<Part> make_aten_part(std::vector<Member> members, const Method& method,
                                     const Execution& execution, int64_t steps);

}  // namespace normball::optim
