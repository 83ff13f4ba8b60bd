#include "normball_torch/norm_ball.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "normball/error.h"
#include "normball_torch/clipped_scion.h"
#include "normball_torch/module_kinds.h"
#include "normball_torch/part.h"

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

bool same_but_lr(const NormBallOptions& a, const NormBallOptions& b) {
  const auto all = [](const NormBallOptions& o) {
    return std::tie(o.norm(), o.radius(), o.role(), o.split(), o.batch(), o.oracle(), o.names(),
                    o.kinds(), o.alpha(), o.rho(), o.beta(), o.l0(), o.l1(), o.constrained(),
                    o.short_step(), o.solver(), o.rules(), o.radii(), o.grad_clip(), o.threads(),
                    o.overwrite_gradients(), o.skip_nonfinite(), o.force_aten());
  };
  return all(a) == all(b);
}

void require_supported(const std::string& name, const Tensor& tensor) {
  if (tensor.layout() != ::torch::kStrided) {
    normball::detail::invalid(where, "'", name, "' is not a dense tensor");
  }
  if (!at::isFloatingType(tensor.scalar_type())) {
    normball::detail::invalid(where, "'", name, "' has the type ", tensor.scalar_type(),
                              "; parameters must be real floating-point numbers");
  }
}

}  // namespace

OptimizerParamGroup group_of(const ::torch::nn::Module& module, const NormBallOptions& options) {
  NormBallOptions own = options;
  own.kinds(kinds_of(module));
  return named_group(module.named_parameters(), std::move(own));
}

// Everything that stays the same from step to step.
struct NormBall::Plan {
  // What a tensor is to routing and to the choice of the part.
  struct Signature {
    const void* tensor;
    const void* data;
    ::torch::ScalarType type;
    ::torch::Device device;
    bool contiguous;
    bool requires_grad;
    std::vector<int64_t> sizes;

    explicit Signature(const Tensor& t)
        : tensor(t.unsafeGetTensorImpl()),
          data(t.layout() == ::torch::kStrided ? t.data_ptr() : nullptr),
          type(t.scalar_type()),
          device(t.device()),
          contiguous(t.layout() == ::torch::kStrided && t.is_contiguous()),
          requires_grad(t.requires_grad()),
          sizes(t.sizes().vec()) {}
    friend bool operator==(const Signature&, const Signature&) = default;

    bool fits_core() const {
      return device.is_cpu() && contiguous &&
             (type == ::torch::kFloat32 || type == ::torch::kFloat64);
    }
  };

  std::vector<Signature> signatures;
  std::vector<NormBallOptions> options;  // of the groups, then of the whole
  Method method;
  Routing routing;
  size_t layer_count = 0;
  std::vector<std::unique_ptr<Part>> parts;

  bool any_gradient() const {
    for (const auto& part : parts) {
      for (const auto& member : part->members()) {
        if (member.tensor.grad().defined()) return true;
      }
    }
    return false;
  }

  // With several parts, all gradients are looked at before the first one takes any into its state.
  std::string nonfinite() const {
    for (const auto& part : parts) {
      for (const auto& member : part->members()) {
        const Tensor gradient = gradient_of(member, member.tensor.scalar_type());
        if (gradient.defined() && !::torch::isfinite(gradient).all().item<bool>()) {
          return member.route->name;
        }
      }
    }
    return {};
  }
};

NormBall::NormBall(std::vector<OptimizerParamGroup> groups, std::string_view method,
                   const NormBallOptions& defaults)
    : Optimizer(std::move(groups), std::make_unique<NormBallOptions>(defaults)), method_(method) {
  make();
  check_groups();
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
    : NormBall(std::vector<OptimizerParamGroup>{group_of(module, defaults)}, method, defaults) {}

NormBall::NormBall(NormBall&&) noexcept = default;
NormBall::~NormBall() = default;

NormBallOptions& NormBall::group_options(size_t group) {
  auto* const options = dynamic_cast<NormBallOptions*>(&param_groups_[group].options());
  if (options == nullptr) {
    normball::detail::invalid(where, "the options of group ", group,
                              " are another optimizer's; they must be NormBallOptions");
  }
  return *options;
}

const NormBallOptions& NormBall::whole() const {
  return static_cast<const NormBallOptions&>(*defaults_);
}

Method NormBall::make() const {
  const NormBallOptions& options = whole();
  MethodOptions given{.rho = options.rho(),
                      .beta = options.beta(),
                      .l0 = options.l0(),
                      .l1 = options.l1(),
                      .short_step = parse_short_step(options.short_step().value_or("plain"))};
  if (options.lr()) given.lr = *options.lr();
  if (options.alpha()) given.alpha = *options.alpha();
  Method method = make_method(method_, given);
  if (options.constrained() && *options.constrained() != method.constrained) {
    normball::detail::invalid(where, "'", method_, "' is ", method.constrained ? "" : "un",
                              "constrained, but the options say otherwise");
  }
  if (options.lr()) method.lr = *options.lr();  // also where it has one of its own
  validate(method);
  return method;
}

// Groups may have joined since the last look; each gets an lr if it has none.
void NormBall::check_groups() {
  std::map<const void*, size_t> owner;
  for (size_t g = 0; g < param_groups_.size(); ++g) {
    NormBallOptions& options = group_options(g);
    const auto& parameters = param_groups_[g].params();
    options.require_no_override(whole(), where, g);
    if (!options.lr()) options.lr(make().lr.value);
    for (const auto* list : {&options.names(), &options.kinds()}) {
      if (!list->empty() && list->size() != parameters.size()) {
        normball::detail::invalid(where, "group ", g, " has ", parameters.size(),
                                  " parameters but ", list->size(),
                                  list == &options.names() ? " names" : " kinds");
      }
    }
    options.assignment();  // its texts must be readable
    for (const auto& kind : options.kinds()) parse_kind(kind);
    take_aliases(g);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto [found, is_new] = owner.emplace(parameters[i].unsafeGetTensorImpl(), g);
      if (!is_new && found->second != g) {
        normball::detail::invalid(where, "parameter ", i, " of group ", g, " is also in group ",
                                  found->second);
      }
    }
  }
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

NormBallParamState& NormBall::state_of(const Tensor& parameter) {
  auto& state = state_[key_of<std::decay_t<decltype(state_)>>(parameter)];
  if (!state) state = std::make_unique<NormBallParamState>();
  return static_cast<NormBallParamState&>(*state);
}

namespace {

// The parameters of all groups, for routing.
struct Listed {
  std::vector<ParameterInfo> infos;
  std::vector<Tensor> tensors;
  std::vector<size_t> groups;
  std::map<const void*, std::pair<const void*, std::string>> memory = {};  // data -> tensor, name

  void add(const Tensor& tensor, size_t group, const NormBallOptions& options, std::string name,
           const std::string& kind) {
    if (name.empty()) name = "param" + std::to_string(tensors.size());
    require_supported(name, tensor);
    ParameterInfo info{.name = name, .dimensions = tensor.sizes().vec()};
    if (!kind.empty()) info.kind = parse_kind(kind);
    info.identity = tensor.data_ptr();
    info.requires_grad = tensor.requires_grad();
    info.given = options.assignment();
    if (info.identity != nullptr) {
      const auto entry = std::pair<const void*, std::string>(tensor.unsafeGetTensorImpl(), name);
      const auto [found, is_new] = memory.emplace(info.identity, entry);
      if (!is_new && found->second.first != entry.first) {
        normball::detail::invalid(where, "'", found->second.second, "' and '", name,
                                  "' share memory but not their gradient: tie weights by using ",
                                  "one tensor");
      }
    }
    infos.push_back(std::move(info));
    tensors.push_back(tensor);
    groups.push_back(group);
  }
};

RoutingOptions routing_options(const NormBallOptions& whole) {
  RoutingOptions options;
  options.rules = whole.rules().value_or(std::vector<RoutingRule>{});
  options.radii = whole.radii().value_or(RoleRadii{});
  options.solver = parse_polar_solver(whole.solver().value_or("exact"));
  options.grad_clip = whole.grad_clip().value_or(0);
  return options;
}

}  // namespace

NormBall::Plan& NormBall::plan() {
  std::vector<Plan::Signature> signatures;
  bool same = plan_ != nullptr && plan_->options.size() == param_groups_.size() + 1 &&
              same_but_lr(plan_->options.back(), whole());
  for (size_t g = 0; g < param_groups_.size(); ++g) {
    same = same && same_but_lr(plan_->options[g], group_options(g));
    for (const auto& tensor : param_groups_[g].params()) signatures.emplace_back(tensor);
  }
  if (same && plan_->signatures == signatures) return *plan_;

  check_groups();
  auto next = std::make_unique<Plan>();
  next->method = make();
  Listed listed;
  for (size_t g = 0; g < param_groups_.size(); ++g) {
    next->options.push_back(group_options(g));
    const NormBallOptions& own = group_options(g);
    const auto& parameters = param_groups_[g].params();
    for (size_t i = 0; i < parameters.size(); ++i) {
      next->signatures.emplace_back(parameters[i]);
      listed.add(parameters[i], g, own, own.names().empty() ? "" : own.names()[i],
                 own.kinds().empty() ? "" : own.kinds()[i]);
    }
  }
  next->options.push_back(whole());
  for (const auto& alias : aliases_) {
    listed.add(alias.tensor, alias.group, group_options(alias.group), alias.name, alias.kind);
  }
  next->routing = route(listed.infos, routing_options(whole()));
  if (plan_) {
    for (const auto& part : plan_->parts) part->store_bases();
  }

  std::vector<Member> float_members, double_members, aten_members;
  size_t layer = 0;
  for (size_t i = 0; i < listed.tensors.size(); ++i) {
    const Route& route = next->routing.routes[i];
    if (route.blocks.empty()) continue;
    const Tensor& tensor = listed.tensors[i];
    Member member{.tensor = tensor,
                  .route = &route,
                  .state = &state_of(tensor),
                  .group = listed.groups[i],
                  .first_layer = layer};
    layer += route.blocks.size();
    const bool core = next->signatures[i].fits_core() && !whole().force_aten().value_or(false);
    auto& members = !core                                       ? aten_members
                    : tensor.scalar_type() == ::torch::kFloat32 ? float_members
                                                                : double_members;
    members.push_back(std::move(member));
  }
  next->layer_count = layer;
  const Execution execution{
      .threads = static_cast<int>(whole().threads().value_or(0)),
      .overwrite_gradients = whole().overwrite_gradients().value_or(false),
      .nonfinite = whole().skip_nonfinite().value_or(false) ? NonFinite::Skip : NonFinite::Throw};
  const auto add = [&](std::vector<Member>& members, auto make_part) {
    if (members.empty()) return;
    next->parts.push_back(make_part(std::move(members), next->method, execution, steps_));
  };
  add(float_members, make_core_part<float>);
  add(double_members, make_core_part<double>);
  add(aten_members, make_aten_part);
  plan_ = std::move(next);
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

  double lr = 0;
  for (size_t g = 0; g < param_groups_.size(); ++g) {
    const double own = group_options(g).get_lr();
    if (!(std::isfinite(own) && own >= 0)) {
      normball::detail::invalid("NormBall::step", "the lr of group ", g,
                                " must be finite and not negative, got ", own);
    }
    lr = std::max(lr, own);
  }
  for (const auto& part : plan.parts) {
    part->set_lr(lr);
    for (auto& member : part->members()) {
      member.lr_factor = lr == 0 ? 1 : group_options(member.group).get_lr() / lr;
    }
  }
  if (plan.parts.size() > 1) {
    const std::string bad = plan.nonfinite();
    if (!bad.empty()) {
      if (!whole().skip_nonfinite().value_or(false)) {
        throw NonFiniteError(normball::detail::message("NormBall::step", "the gradient of '", bad,
                                                       "' has an entry that is not finite"));
      }
      report_ = {};
      report_.step = steps_;
      report_.lr = lr;
      report_.skipped = true;
      report_.nonfinite_layer = bad;
      return;
    }
  }

  // Pass one: every v_l and its pairing. Then one η. Pass two: the weights.
  const Combination combination = plan.method.combination;
  std::vector<const StepReport*> reports;
  std::vector<double> pairings, norms;
  try {
    for (const auto& part : plan.parts) {
      reports.push_back(&part->prepare());
      pairings.push_back(reports.back()->pairing);
      norms.push_back(reports.back()->direction_norm);
    }
    StepReport report = *reports.front();
    if (report.skipped) {
      report_ = std::move(report);
      return;
    }
    // Max: the parts' pairings add up. L2 (unconstrained): they are the parts' dual norms, whose
    // share in the whole is each part's share in the step.
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
    report.layers.assign(plan.layer_count, {});
    for (size_t p = 0; p < plan.parts.size(); ++p) {
      size_t from = 0;
      for (const auto& member : plan.parts[p]->members()) {
        for (size_t b = 0; b < member.route->blocks.size(); ++b) {
          report.layers[member.first_layer + b] = reports[p]->layers[from++];
        }
      }
      plan.parts[p]->apply(report.eta * shares[p]);
    }
    report_ = std::move(report);
  } catch (...) {
    for (const auto& part : plan.parts) part->abandon();
    throw;
  }
  ++steps_;
}

const Routing& NormBall::routing() { return plan().routing; }

std::string NormBall::explain() { return routing().explain(); }

std::string NormBall::explain(const ::torch::nn::Module& module) {
  plan();
  std::map<const void*, size_t> group;
  for (size_t g = 0; g < param_groups_.size(); ++g) {
    for (const auto& tensor : param_groups_[g].params()) group[tensor.unsafeGetTensorImpl()] = g;
  }
  const auto parameters = module.named_parameters();
  const auto kinds = kinds_of(module);
  std::vector<ParameterInfo> infos;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& tensor = parameters[i].value();
    ParameterInfo info{.name = parameters[i].key(),
                       .dimensions = tensor.sizes().vec(),
                       .kind = parse_kind(kinds[i])};
    info.identity = tensor.data_ptr();
    info.requires_grad = tensor.requires_grad();
    const auto found = group.find(tensor.unsafeGetTensorImpl());
    info.in_group = found != group.end();
    if (info.in_group) info.given = group_options(found->second).assignment();
    infos.push_back(std::move(info));
  }
  return route(infos, routing_options(whole())).explain();
}

void NormBall::save(::torch::serialize::OutputArchive& archive) const {
  if (plan_) {
    for (const auto& part : plan_->parts) part->store_bases();
  }
  ::torch::optim::serialize<NormBallParamState, NormBallOptions>(archive, *this);
  archive.write("steps", ::torch::IValue(steps_));
}

// On an error nothing has changed.
void NormBall::load(::torch::serialize::InputArchive& archive) {
  check_groups();
  auto before = std::move(state_);
  state_.clear();
  try {
    ::torch::IValue steps;
    archive.read("steps", steps);
    ::torch::optim::serialize<NormBallParamState, NormBallOptions>(archive, *this);
    for (const auto& group : param_groups_) {
      for (const auto& tensor : group.params()) {
        const Tensor momentum = state_of(tensor).momentum_buffer();
        if (momentum.defined() && momentum.sizes() != tensor.sizes()) {
          normball::detail::invalid("NormBall::load", "a saved momentum has the shape ",
                                    momentum.sizes(), ", its parameter ", tensor.sizes());
        }
      }
    }
    steps_ = steps.toInt();
  } catch (...) {
    state_ = std::move(before);
    throw;
  }
  plan_.reset();  // it points into the state of before
}

namespace detail {

std::string_view clipped_scion_method(const NormBallOptions& options) {
  const bool constrained = options.constrained().value_or(false);
  if (!constrained && options.short_step().value_or("plain") != "plain") {
    normball::detail::invalid("ClippedScion", "short_step '", *options.short_step(),
                              "' is for constrained(true)");
  }
  return constrained ? "clipped_scion" : "unconstrained_clipped_scion";
}

std::string_view scion_method(const NormBallOptions& options) {
  if (options.rho()) {
    normball::detail::invalid("Scion", "there is no rho: its steps are not clipped; use ",
                              "ClippedScion");
  }
  if (options.short_step()) {
    normball::detail::invalid("Scion", "there is no short_step; use ClippedScion");
  }
  return options.constrained().value_or(false) ? "scion" : "unconstrained_scion";
}

}  // namespace detail
}  // namespace normball::optim
