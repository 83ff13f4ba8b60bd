#include "normball_torch/norm_ball.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "normball/base/error.h"
#include "normball_torch/module_kinds.h"
#include "normball_torch/plan.h"

namespace normball::optim {
namespace {

using ::torch::Tensor;
using ::torch::optim::OptimizerParamGroup;

constexpr std::string_view where = "NormBall";

// LibTorch 1 keys its state by the tensor's address as text, LibTorch 2 by the address.
template <class Map>
typename Map::key_type key_of(const Tensor& tensor) {
  auto* const address = tensor.unsafeGetTensorImpl();
  if constexpr (std::is_same_v<typename Map::key_type, std::string>) {
    std::ostringstream text;
    text << address;
    return text.str();
  } else {
    return address;
  }
}

OptimizerParamGroup named_group(const ::torch::OrderedDict<std::string, Tensor>& parameters,
                                NormBallOptions options) {
  options.names(parameters.keys());
  return {parameters.values(), std::make_unique<NormBallOptions>(std::move(options))};
}

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
  NormBallOptions own = options;
  own.kinds(kinds_of(module));
  own.names(parameters.keys());
  if (!prefix.empty()) {
    for (auto& name : own.names()) name.insert(0, prefix + ".");
  }
  return {parameters.values(), std::make_unique<NormBallOptions>(std::move(own))};
}

NormBall::NormBall(std::vector<OptimizerParamGroup> groups, std::string_view method,
                   const NormBallOptions& defaults)
    : Optimizer(std::vector<OptimizerParamGroup>{}, std::make_unique<NormBallOptions>(defaults)),
      method_(method) {
  for (const auto& group : groups) add_param_group(group);
  make();
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
               defaults) {}

NormBall::NormBall(const ::torch::nn::Module& module, std::string_view method,
                   const NormBallOptions& defaults)
    : NormBall(std::vector<OptimizerParamGroup>{group_of(module, defaults)}, method, defaults) {
  if (param_groups_[0].params().empty()) {
    normball::throw_invalid(where, "the module '", module.name(), "' has no parameters");
  }
}

// Newer LibTorch (2.13) gives a group the optimizer's options and keeps of its own only those that
// it knows from its own optimizers.
void NormBall::add_param_group(const OptimizerParamGroup& group) {
  Optimizer::add_param_group(group);
  for (const auto& tensor : group.params()) joined_.insert(tensor.unsafeGetTensorImpl());
  if (group.has_options()) param_groups_.back().set_options(group.options().clone());
}

NormBall::NormBall(NormBall&&) noexcept = default;
NormBall::~NormBall() = default;

NormBallOptions& NormBall::group_options(size_t group) {
  auto* const options = dynamic_cast<NormBallOptions*>(&param_groups_[group].options());
  if (options == nullptr) {
    normball::throw_invalid(where, "the options of group ", group,
                            " are another optimizer's; they must be NormBallOptions");
  }
  return *options;
}

const NormBallOptions& NormBall::whole() const {
  return static_cast<const NormBallOptions&>(*defaults_);
}

// Groups may have joined since the last look; each gets an lr if it has none.
void NormBall::check_groups() {
  std::map<const void*, size_t> owner;
  named_.resize(param_groups_.size());
  first_lrs_.resize(std::min(first_lrs_.size(), param_groups_.size()));
  for (size_t g = 0; g < param_groups_.size(); ++g) {
    NormBallOptions& options = group_options(g);
    options.require_no_override(whole(), where, g);
    check_joined(g);
    if (!options.lr()) options.lr(make().lr.value);
    if (first_lrs_.size() == g) first_lrs_.push_back(*options.lr());
    options.assignment(whole());  // its texts must be readable
    for (const auto& kind : options.kinds()) parse_kind(kind);
    check_names(g);
    const auto& parameters = param_groups_[g].params();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto [found, is_new] = owner.emplace(parameters[i].unsafeGetTensorImpl(), g);
      if (!is_new && found->second != g) {
        normball::throw_invalid(where, "parameter ", i, " of group ", g, " is also in group ",
                                found->second, "; list it in one of them");
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
    normball::throw_invalid(where, "group ", group, " was added through torch::optim::Optimizer&, ",
                            "where this LibTorch drops a group's options: call add_param_group() ",
                            "of the NormBall itself");
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
                              "; where parameters join or leave a group, change its ",
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

NormBallParamState* NormBall::find_state(const Tensor& parameter) const {
  const auto found = state_.find(key_of<std::decay_t<decltype(state_)>>(parameter));
  return found == state_.end() ? nullptr : static_cast<NormBallParamState*>(found->second.get());
}

NormBallParamState& NormBall::state_of(const Tensor& parameter) {
  auto& state = state_[key_of<std::decay_t<decltype(state_)>>(parameter)];
  if (!state) state = std::make_unique<NormBallParamState>();
  return static_cast<NormBallParamState&>(*state);
}

// The state belongs to the user as well, who may have cleared it.
void NormBall::find_states() const {
  plan_->for_each_member([&](Member& member) {
    if (find_state(member.tensor) != member.state) member.state = nullptr;
  });
}

bool NormBall::is_current() const {
  if (plan_->options.size() != param_groups_.size() + 1 ||
      !plan_->options.back().same_but_lr(whole())) {
    return false;
  }
  std::vector<Plan::Signature> signatures;
  for (size_t g = 0; g < param_groups_.size(); ++g) {
    const auto* own = dynamic_cast<const NormBallOptions*>(&param_groups_[g].options());
    if (own == nullptr || !plan_->options[g].same_but_lr(*own)) return false;
    for (const auto& tensor : param_groups_[g].params()) signatures.emplace_back(tensor);
  }
  bool states = true;
  plan_->for_each_member([&](const Member& member) { states &= member.state != nullptr; });
  return states && plan_->signatures == signatures;
}

NormBall::Plan& NormBall::plan() {
  if (plan_) find_states();
  if (plan_ && is_current()) return *plan_;
  check_groups();
  if (plan_) {
    for (const auto& part : plan_->parts) part->store_bases();
  }
  if (state_.empty()) steps_ = 0;  // a state that starts anew counts anew
  plan_ = make_plan();
  return *plan_;
}

Tensor NormBall::step(LossClosure closure) {
  Tensor loss = {};
  if (closure != nullptr) {
    ::torch::AutoGradMode enable_grad(true);
    loss = closure();
  }
  const ::torch::NoGradGuard no_grad;
  step_with_gradients();
  return loss;
}

void NormBall::step_with_gradients() {
  Plan& plan = this->plan();
  if (!plan.any_gradient()) return;
  plan.for_each_member(require_fitting);
  const double lr = set_lrs(plan);
  for (const auto& part : plan.parts) part->set_lr(lr);
  try {
    combine(plan);
  } catch (...) {
    plan.abandon();
    throw;
  }
  if (report_.skipped) return;
  ++steps_;
  warn_of_a_stall(plan);
}

// A rule's lr keeps its ratio to the group's.
double NormBall::lr_of(const Plan& plan, size_t group, const Route& route) {
  double own = group_options(group).get_lr();
  if (route.lr) {
    const double first = first_lrs_[group];
    if (first == 0) {
      normball::throw_invalid(where, "a rule gives '", route.name, "' the lr ", *route.lr,
                              ", which follows its group's; that started at 0, so there is no ",
                              "ratio to keep");
    }
    own *= *route.lr / first;
  }
  if (!std::isfinite(own)) {
    normball::throw_invalid(where, "the lr of '", route.name, "' must be finite, got ", own);
  }
  if (plan.method.constrained && own > 1) {
    normball::throw_invalid(where, "the lr of '", route.name,
                            "' must be at most 1 where constrained, got ", own);
  }
  return own;
}

// Every member's lr as a factor of the largest of the groups', which is returned.
double NormBall::set_lrs(Plan& plan) {
  double lr = 0;
  for (size_t g = 0; g < param_groups_.size(); ++g) {
    const double own = group_options(g).get_lr();
    if (!(std::isfinite(own) && own >= 0)) {
      normball::throw_invalid("NormBall::step", "the lr of group ", g,
                              " must be finite and not negative, got ", own);
    }
    lr = std::max(lr, own);
  }
  plan.for_each_member([&](Member& member) {
    const double own = lr_of(plan, member.group, *member.route);
    member.lr_factor = lr == 0 ? 1 : own / lr;
  });
  return lr;
}

// Pass one: every v_l and its pairing. Then one η. Pass two: the weights.
void NormBall::combine(Plan& plan) {
  std::vector<const StepReport*> reports;
  std::vector<double> pairings, norms;
  for (const auto& part : plan.parts) {
    reports.push_back(&part->prepare());
    if (reports.back()->skipped) return skip(plan, *reports.back());
    pairings.push_back(reports.back()->pairing);
    norms.push_back(reports.back()->direction_norm);
  }
  StepReport report = *reports.front();
  // Max: the parts' pairings add up. L2 (unconstrained): they are the parts' dual norms, whose
  // share in the whole is each part's share in the step.
  const Combination combination = plan.method.combination;
  std::vector<double> shares(pairings.size(), 1.0);
  if (combination == Combination::Max) {
    report.pairing = 0;
    for (const double pairing : pairings) report.pairing += pairing;
  } else {
    report.pairing = combine_duals(combination, pairings, shares);
  }
  report.direction_norm = combine_norms(combination, norms);
  report.wolfe_gap = plan.method.constrained ? report.pairing : 0;
  report.eta =
      eta(plan.method.rule,
          {.pairing = report.pairing, .direction_norm = report.direction_norm, .step = steps_});
  report.clipped = is_clipped(plan.method.rule, report.eta);
  report.stalled = plan.method.constrained && report.eta == 0 && report.pairing < 0;
  try {
    if (!std::isfinite(report.pairing)) {
      normball::throw_invalid("NormBall::step", "it is not finite");
    }
    for (size_t p = 0; p < plan.parts.size(); ++p) plan.parts[p]->check(report.eta * shares[p]);
  } catch (const std::invalid_argument& error) {
    if (whole().skip_nonfinite().value_or(false)) return skip(plan, report);
    throw NonFiniteError(normball::error_message("NormBall::step", "at s = ", report.pairing, ": ",
                                                 error.what(), "; nothing was changed"));
  }
  report.layers.assign(plan.layer_count, {});
  for (size_t p = 0; p < plan.parts.size(); ++p) {
    size_t from = 0;
    for (const auto& member : plan.parts[p]->members()) {
      for (size_t b = 0; b < member.route->blocks.size(); ++b) {
        report.layers[member.first_layer + b] = reports[p]->layers[from++];
      }
    }
  }
  for (size_t p = 0; p < plan.parts.size(); ++p) plan.parts[p]->apply(report.eta * shares[p]);
  report_ = std::move(report);
}

void NormBall::skip(Plan& plan, const StepReport& because) {
  StepReport report;
  report.step = steps_;
  report.lr = because.lr;
  report.gamma = because.gamma;
  report.skipped = true;
  report.nonfinite_layer = because.nonfinite_layer;
  plan.abandon();
  report_ = std::move(report);
}

// Once: a run that stands still would say it at every step.
void NormBall::warn_of_a_stall(Plan& plan) {
  if (!report_.stalled || warned_) return;
  warned_ = true;
  const auto worst = std::ranges::min_element(report_.layers, {}, &LayerReport::pairing);
  const auto index = static_cast<size_t>(worst - report_.layers.begin());
  TORCH_WARN("[NormBall::step] s = ", report_.pairing,
             " is negative: weights lie outside of their ", "balls (above all '",
             plan.routing.layers()[index].name, "'), and the constrained ",
             "step has length 0. Nothing moves. Call scale_into_balls() once, start from ",
             "initialize(), or give larger radii.");
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
