#include "normball_torch/norm_ball.h"

#include <map>
#include <set>

#include "normball/base/error.h"
#include "normball_torch/plan.h"

namespace normball::optim {
namespace {

using ::torch::Tensor;
using ::torch::optim::OptimizerParamGroup;

OptimizerParamGroup named_group(const ::torch::OrderedDict<std::string, Tensor>& parameters,
                                NormBallOptions options) {
  if (!options.names().empty()) {
    normball::throw_invalid("NormBall",
                            "the parameters have names of their own: leave names() out");
  }
  options.names(parameters.keys());
  return {parameters.values(), std::make_unique<NormBallOptions>(std::move(options))};
}

// For groups that have taken theirs.
NormBallOptions without_names(NormBallOptions options) {
  options.names({});
  options.kinds({});
  return options;
}

}  // namespace

NormBall::NormBall(std::vector<OptimizerParamGroup> groups, std::string_view method,
                   const NormBallOptions& defaults)
    : Optimizer(std::vector<OptimizerParamGroup>{}, std::make_unique<NormBallOptions>(defaults)),
      method_(method) {
  bool some_inherit = false;
  for (const auto& group : groups) {
    some_inherit |= !group.has_options();
    add_param_group(group);
  }
  if (!some_inherit && !(defaults.names().empty() && defaults.kinds().empty())) {
    normball::throw_invalid("NormBall", "the optimizer's options have ",
                            defaults.names().empty() ? "kinds" : "names",
                            ", but every group has options of its own: give them there");
  }
  this->method();  // what is wrong with it should be known now
  check_groups();
  // Names and kinds are those of the groups there are, not of one that joins later.
  auto& common = static_cast<NormBallOptions&>(*defaults_);
  common.names().clear();
  common.kinds().clear();
  make_routes();  // what is wrong with them should be known now
}

NormBall::NormBall(std::vector<Tensor> parameters, std::string_view method,
                   const NormBallOptions& defaults)
    : NormBall(std::vector<OptimizerParamGroup>{OptimizerParamGroup(std::move(parameters))}, method,
               defaults) {}

NormBall::NormBall(const ::torch::OrderedDict<std::string, Tensor>& parameters,
                   std::string_view method, const NormBallOptions& defaults)
    : NormBall(std::vector<OptimizerParamGroup>{named_group(parameters, defaults)}, method,
               without_names(defaults)) {}

NormBall::NormBall(const ::torch::nn::Module& module, std::string_view method,
                   const NormBallOptions& defaults)
    : NormBall(std::vector<OptimizerParamGroup>{group_of(module, defaults)}, method, defaults) {
  if (param_groups_[0].params().empty()) {
    normball::throw_invalid("NormBall", "the module '", module.name(), "' has no parameters");
  }
}

NormBall::NormBall(NormBall&&) noexcept = default;
NormBall::~NormBall() = default;

Tensor NormBall::step(LossClosure closure) {
  if (closure != nullptr && defaults_ && whole().line_search()) return step_by_closure(closure);
  Tensor loss = {};
  if (closure != nullptr) {
    ::torch::AutoGradMode enable_grad(true);
    loss = closure();
  }
  const ::torch::NoGradGuard no_grad;
  step_with_gradients([&loss]() -> std::optional<double> {  // asked for only if it is needed
    if (!loss.defined()) return {};
    if (loss.numel() == 1) return loss.item<double>();
    normball::throw_invalid("NormBall::step", "the closure must return the loss, one number; got ",
                            "a tensor of the shape ", loss.sizes());
  });
  return loss;
}

void NormBall::step(double loss) {
  const ::torch::NoGradGuard no_grad;
  step_with_gradients([loss] { return std::optional(loss); });
}

const Routing& NormBall::routing() { return plan().routing; }

std::string NormBall::explain() { return routing().explain(); }

std::string NormBall::explain(const ::torch::nn::Module& module) {
  const Plan& plan = this->plan();
  Routing shown = plan.routing;
  std::map<const void*, size_t> index;
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    index.emplace(plan.entries[i].tensor.unsafeGetTensorImpl(), i);
  }
  std::set<const void*> seen;
  for (const auto& item : module.named_parameters()) {
    const void* const tensor = item.value().unsafeGetTensorImpl();
    if (!seen.insert(tensor).second) continue;  // tied
    const auto found = index.find(tensor);
    if (found == index.end()) {
      shown.add_ungrouped(item.key(), item.value().sizes().vec());
    } else if (!plan.entries[found->second].named) {
      shown.rename(found->second, item.key());
    }
  }
  return shown.explain();
}

}  // namespace normball::optim
