// Parameter groups: what may be in them, their names and kinds, and tensors that are listed twice.
#include <algorithm>
#include <map>
#include <set>

#include "normball/base/error.h"
#include "normball_torch/module_kinds.h"
#include "normball_torch/norm_ball.h"

namespace normball::optim {
namespace {

using ::torch::Tensor;
using ::torch::optim::OptimizerParamGroup;

constexpr std::string_view where = "NormBall";

// Whether this LibTorch leaves a group's options as they are.
bool base_keeps_options() {
  struct Probe final : ::torch::optim::Optimizer {
    Probe()
        : Optimizer(std::vector<OptimizerParamGroup>{}, std::make_unique<NormBallOptions>(1.0)) {}
    Tensor step(LossClosure) override { return {}; }
  } probe;
  probe.add_param_group({std::vector<Tensor>{::torch::zeros({1})},
                         std::make_unique<NormBallOptions>(NormBallOptions().norm("sign"))});
  const auto* const kept =
      dynamic_cast<const NormBallOptions*>(&probe.param_groups().back().options());
  return kept != nullptr && kept->norm() == "sign";
}

}  // namespace

OptimizerParamGroup group_of(const ::torch::nn::Module& module, const NormBallOptions& options,
                             const std::string& prefix) {
  const auto parameters = module.named_parameters();
  if (!options.names().empty() || !options.kinds().empty()) {
    normball::throw_invalid("group_of", "names and kinds are the module's here: leave ",
                            options.names().empty() ? "kinds()" : "names()",
                            " out, or give tensors instead of the module");
  }
  NormBallOptions own = options;
  own.kinds(kinds_of(module));
  own.names(parameters.keys());
  if (!prefix.empty()) {
    for (auto& name : own.names()) name.insert(0, prefix + ".");
  }
  return {parameters.values(), std::make_unique<NormBallOptions>(std::move(own))};
}

// Newer LibTorch (2.13) gives a group the optimizer's options and keeps of its own only those that
// it knows from its own optimizers.
void NormBall::add_param_group(const OptimizerParamGroup& group) {
  Optimizer::add_param_group(group);
  for (const auto& tensor : group.params()) joined_.insert(tensor.unsafeGetTensorImpl());
  if (group.has_options()) param_groups_.back().set_options(group.options().clone());
  auto* const own = dynamic_cast<NormBallOptions*>(&param_groups_.back().options());
  if (own != nullptr && !own->lr()) own->lr(method().lr.value);  // schedulers ask for it at once
}

NormBallOptions& NormBall::group_options(size_t group) {
  auto* const options = dynamic_cast<NormBallOptions*>(&param_groups_[group].options());
  if (options == nullptr) {
    normball::throw_invalid(where, "the options of group ", group,
                            " belong to another optimizer; they must be NormBallOptions");
  }
  return *options;
}

const NormBallOptions& NormBall::whole() const {
  return static_cast<const NormBallOptions&>(*defaults_);
}

// Groups may have joined through torch::optim::Optimizer& since the last look; each gets an lr if
// it has none.
void NormBall::check_groups() {
  std::map<const void*, size_t> owner;
  named_.resize(param_groups_.size());
  first_lrs_.resize(std::min(first_lrs_.size(), param_groups_.size()));
  for (size_t g = 0; g < param_groups_.size(); ++g) {
    NormBallOptions& options = group_options(g);
    options.require_no_override(whole(), where, g);
    check_joined(g);
    options.inherit();  // or a change of defaults() would meet the group's copy of before
    if (!options.lr()) options.lr(method().lr.value);
    if (first_lrs_.size() == g) first_lrs_.push_back(*options.lr());
    options.assignment(whole());  // its texts must be readable
    for (const auto& kind : options.kinds()) parse_kind(kind);
    check_names(g);
    const auto& parameters = param_groups_[g].params();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto [found, is_new] = owner.emplace(parameters[i].unsafeGetTensorImpl(), g);
      if (!is_new && found->second != g) {
        normball::throw_invalid(where, "parameter ", i, " of group ", g, " is also in group ",
                                found->second, "; list it in only one group");
      }
    }
  }
}

// A group that came another way and says just what the optimizer says has probably been robbed of
// its options.
void NormBall::check_joined(size_t group) {
  const auto& parameters = param_groups_[group].params();
  if (parameters.empty() || joined_.contains(parameters[0].unsafeGetTensorImpl()) ||
      !group_options(group).same_but_lr(whole())) {
    return;
  }
  static const bool kept = base_keeps_options();
  if (!kept) {
    throw_invalid(where, "group ", group, " was added through torch::optim::Optimizer&, where ",
                  "this LibTorch drops a group's options: call add_param_group() of the NormBall ",
                  "itself");
  }
}

// Names and kinds belong to the tensors they were given for: they must not slide along when a
// tensor joins or leaves the group.
void NormBall::check_names(size_t group) {
  NormBallOptions& options = group_options(group);
  const auto& parameters = param_groups_[group].params();
  for (const auto* list : {&options.names(), &options.kinds()}) {
    if (!list->empty() && list->size() != parameters.size()) {
      const bool names = list == &options.names();
      normball::throw_invalid(where, "group ", group, " has ", parameters.size(),
                              " parameters but ", list->size(), names ? " names" : " kinds",
                              "; when parameters join or leave a group, change its ",
                              names ? "names()" : "kinds()", " as well, or clear them");
    }
  }
  take_aliases(group);
  Named now{.names = options.names(), .kinds = options.kinds(), .tensors = {}};
  for (const auto& tensor : parameters) now.tensors.push_back(tensor.unsafeGetTensorImpl());
  Named& before = named_[group];
  const bool given = !now.names.empty() || !now.kinds.empty();
  if (given && !before.tensors.empty() && now.tensors != before.tensors &&
      now.names == before.names && now.kinds == before.kinds) {
    normball::throw_invalid(where, "the parameters of group ", group, " changed, but not its ",
                            "names() and kinds(), which were given for the others");
  }
  before = std::move(now);
}

// LibTorch's loader would lose the state of a tensor that a group holds twice.
void NormBall::take_aliases(size_t group) {
  NormBallOptions& options = group_options(group);
  auto& parameters = param_groups_[group].params();
  std::set<const void*> seen;
  for (size_t i = 0; i < parameters.size();) {
    if (seen.insert(parameters[i].unsafeGetTensorImpl()).second) {
      ++i;
      continue;
    }
    const auto at = static_cast<std::ptrdiff_t>(i);
    const auto take = [&](std::vector<std::string>& list) {
      if (list.empty()) return std::string();
      std::string taken = list[i];
      list.erase(list.begin() + at);
      return taken;
    };
    std::string name = take(options.names()), kind = take(options.kinds());
    aliases_.push_back({parameters[i], group, std::move(name), std::move(kind)});
    parameters.erase(parameters.begin() + at);
  }
}

}  // namespace normball::optim
