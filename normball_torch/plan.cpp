#include "normball_torch/plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "normball/base/error.h"
#include "normball/routed.h"

namespace normball::optim {
namespace {

using ::torch::Tensor;

// The parameters of all groups, for routing.
class Listing {
 public:
  std::vector<ParameterInfo> infos;

  void add(const Tensor& tensor, const Assignment& given, std::string name,
           const std::string& kind) {
    if (name.empty()) name = "param" + std::to_string(infos.size());
    require_supported(name, tensor);
    ParameterInfo info{.name = name, .dimensions = tensor.sizes().vec()};
    if (!kind.empty()) info.kind = parse_kind(kind);
    info.identity = tensor.data_ptr();
    info.requires_grad = tensor.requires_grad();
    info.given = given;
    if (info.identity != nullptr) require_apart(tensor, name);
    infos.push_back(std::move(info));
  }

 private:
  struct Holder {
    const void* tensor;
    const char* end;  // of dense memory; views that are not may interleave
    std::string name;
  };

  void require_apart(const Tensor& tensor, const std::string& name) {
    const auto* const begin = static_cast<const char*>(tensor.data_ptr());
    const auto bytes = tensor.is_contiguous() ? static_cast<size_t>(tensor.nbytes()) : 1;
    const Holder own{tensor.unsafeGetTensorImpl(), begin + bytes, name};
    const auto [at, is_new] = memory_.emplace(begin, own);
    const auto fail = [](const Holder& a, const Holder& b) {
      normball::throw_invalid("NormBall", "'", a.name, "' and '", b.name,
                              "' share memory but not their gradient: tie weights by using ",
                              "one tensor");
    };
    if (!is_new) {
      if (at->second.tensor != own.tensor) fail(at->second, own);
      return;
    }
    if (at != memory_.begin() && std::prev(at)->second.end > begin)
      fail(std::prev(at)->second, own);
    if (std::next(at) != memory_.end() && std::next(at)->first < own.end) {
      fail(own, std::next(at)->second);
    }
  }

  std::map<const char*, Holder> memory_;  // by its begin
};

// Groups of several modules may repeat names: then the later group's get its index in front.
template <class NamesOf>
std::vector<std::string> group_prefixes(size_t count, const NamesOf& names_of) {
  std::set<std::string> taken;
  std::vector<std::string> prefixes(count);
  for (size_t g = 0; g < count; ++g) {
    const auto& names = names_of(g);
    const bool repeats =
        std::ranges::any_of(names, [&](const auto& name) { return taken.contains(name); });
    if (repeats) prefixes[g] = "group" + std::to_string(g) + ".";
    for (const auto& name : names) taken.insert(prefixes[g] + name);
  }
  return prefixes;
}

const void* data_of(const Tensor& t) {
  return t.defined() && t.layout() == ::torch::kStrided ? t.data_ptr() : nullptr;
}

RoutingOptions routing_options(const NormBallOptions& whole, const Method& method) {
  RoutingOptions options;
  options.rules = whole.rules().value_or(std::vector<RoutingRule>{});
  options.norms = whole.norms().value_or(RoleNorms{});
  options.radii = whole.radii().value_or(RoleRadii{});
  options.auto_radii = whole.auto_radii().value_or(false);
  options.solver = parse_polar_solver(whole.solver().value_or("exact"));
  options.grad_clip = whole.grad_clip().value_or(0);
  options.method = method.name;
  options.method_norm = method.norm;
  options.method_radius = method.radius;
  options.method_sees_matrices = sees_matrices(method);
  return options;
}

}  // namespace

NormBall::Plan::Signature::Signature(const Tensor& t)
    : tensor(t.unsafeGetTensorImpl()),
      data(data_of(t)),
      type(t.defined() ? t.scalar_type() : ::torch::kFloat32),
      device(t.defined() ? t.device() : ::torch::kCPU),
      plain(is_plain(t)),
      requires_grad(t.defined() && t.requires_grad()),
      sizes(t.defined() ? t.sizes().vec() : std::vector<int64_t>{}) {}

// Every step asks: nothing is copied.
bool NormBall::Plan::Signature::is_of(const Tensor& t) const {
  if (!t.defined()) return tensor == t.unsafeGetTensorImpl();
  return tensor == t.unsafeGetTensorImpl() && data == data_of(t) && type == t.scalar_type() &&
         device == t.device() && plain == is_plain(t) && requires_grad == t.requires_grad() &&
         t.sizes() == sizes;
}

bool NormBall::Plan::Signature::fits_core() const {
  return device.is_cpu() && plain && (type == ::torch::kFloat32 || type == ::torch::kFloat64);
}

bool NormBall::Plan::any_gradient() const {
  bool any = false;
  for_each_member([&](const Member& member) { any |= member.tensor.grad().defined(); });
  return any;
}

void NormBall::Plan::require_apart() {
  spans.clear();
  const auto add = [&](const Tensor& tensor, const Member& member, const char* what, bool written) {
    if (!tensor.defined() || tensor.numel() == 0) return;
    const auto* const begin = static_cast<const char*>(data_of(tensor));
    const size_t bytes = tensor.is_contiguous() ? tensor.nbytes() : 1;  // views may interleave
    spans.push_back({begin, begin + bytes, &member.route->name, what, written});
  };
  for_each_member([&](const Member& member) {
    if (!member.tensor.grad().defined()) return;
    add(member.tensor, member, "weight", true);
    add(member.tensor.grad(), member, "gradient", false);
    add(member.state->momentum_buffer(), member, "momentum", true);
  });
  std::ranges::sort(spans, std::less{}, &Span::begin);
  for (auto one = spans.begin(); one != spans.end(); ++one) {
    for (auto other = std::next(one); other != spans.end() && other->begin < one->end; ++other) {
      const auto is = [&](std::string_view what) {
        return what == one->what || what == other->what;
      };
      const bool own_weight = one->name == other->name && one->begin == other->begin &&
                              is("weight") && is("gradient");  // as that of ‖x‖²/2
      if (!(one->written || other->written) || own_weight) continue;
      normball::throw_invalid("NormBall::step", "the ", one->what, " of '", *one->name,
                              "' and the ", other->what, " of '", *other->name,
                              "' share memory, which the step writes to: give each its own");
    }
  }
}

void NormBall::Plan::abandon() {
  for (const auto& part : parts) part->abandon();
}

// Which layer is the head is a guess about all layers. One that has been stepped as the head stays
// it, whoever joins.
void NormBall::Plan::keep_heads(std::vector<ParameterInfo>& infos,
                                const std::vector<Entry>& of) const {
  for (size_t i = 0; i < of.size(); ++i) {
    if (infos[i].kind != Kind::Unknown && infos[i].kind != Kind::Linear) continue;
    for (size_t k = 0; k < entries.size(); ++k) {
      if (entries[k].tensor.is_same(of[i].tensor) && routing.routes[k].kind == Kind::Output) {
        infos[i].kind = Kind::Output;
      }
    }
  }
}

bool NormBall::is_current() const {
  if (plan_->options.size() != param_groups_.size() + 1 ||
      !plan_->options.back().same_but_numbers(whole())) {
    return false;
  }
  size_t next = 0;
  for (size_t g = 0; g < param_groups_.size(); ++g) {
    const auto* own = dynamic_cast<const NormBallOptions*>(&param_groups_[g].options());
    if (own == nullptr || !plan_->options[g].same_but_lr(*own)) return false;
    for (const auto& tensor : param_groups_[g].params()) {
      if (next == plan_->signatures.size() || !plan_->signatures[next++].is_of(tensor))
        return false;
    }
  }
  bool states = true;
  plan_->for_each_member([&](const Member& member) { states &= member.state != nullptr; });
  return states && next == plan_->signatures.size();
}

NormBall::Plan& NormBall::plan() {
  if (!defaults_) {
    normball::throw_invalid("NormBall",
                            "this optimizer was moved from; use the one it was moved to");
  }
  if (plan_) find_states();
  if (plan_ && is_current()) {
    follow_numbers();
    return *plan_;
  }
  check_groups();
  if (plan_) {
    for (const auto& part : plan_->parts) part->store_bases();
  }
  if (state_.empty()) {  // a state that starts anew counts anew
    steps_ = 0;
    memory_.clear();
  }
  plan_ = make_plan();
  remember_for(stepsize());
  return *plan_;
}

// Another alpha or rho is no reason to make a new plan.
void NormBall::follow_numbers() {
  NormBallOptions& known = plan_->options.back();
  const NormBallOptions& now = whole();
  if (known.alpha() == now.alpha() && known.rho() == now.rho()) return;
  Method next = method();
  for (const auto& part : plan_->parts) part->set_method(next);
  known.alpha(now.alpha()).rho(now.rho());
  plan_->method = std::move(next);
}

// The routes, without a look at the state.
std::unique_ptr<NormBall::Plan> NormBall::make_routes() {
  auto next = std::make_unique<Plan>();
  next->method = method();
  next->search = stepsize().search();
  Listing listing;
  const auto add = [&](const Tensor& tensor, size_t group, const std::string& name,
                       const std::string& kind) {
    listing.add(tensor, group_options(group).assignment(whole()), name, kind);
    next->entries.push_back({tensor, group, !name.empty()});
  };
  const auto prefixes = group_prefixes(
      param_groups_.size(), [&](size_t g) -> const auto& { return group_options(g).names(); });
  const auto in_group = [&](size_t group, const std::string& name) {
    return name.empty() ? name : prefixes[group] + name;
  };
  for (size_t g = 0; g < param_groups_.size(); ++g) {
    const NormBallOptions& own = group_options(g);
    next->options.push_back(own);
    const auto& parameters = param_groups_[g].params();
    for (size_t i = 0; i < parameters.size(); ++i) {
      next->signatures.emplace_back(parameters[i]);
      add(parameters[i], g, own.names().empty() ? "" : in_group(g, own.names()[i]),
          own.kinds().empty() ? "" : own.kinds()[i]);
    }
  }
  next->options.push_back(whole());
  for (const auto& alias : aliases_) {
    add(alias.tensor, alias.group, in_group(alias.group, alias.name), alias.kind);
  }
  if (plan_ && steps_ > 0) plan_->keep_heads(listing.infos, next->entries);
  next->routing = route(listing.infos, routing_options(whole(), next->method));
  for (size_t i = 0; i < next->entries.size(); ++i) {
    const Route& own = next->routing.routes[i];
    lr_of(*next, next->entries[i].group, own);
    if (next->method.constrained) require_lmo("NormBall", own);
  }
  return next;
}

std::unique_ptr<NormBall::Plan> NormBall::make_plan() {
  auto next = make_routes();
  std::vector<Member> float_members, double_members, aten_members;
  for (size_t i = 0; i < next->entries.size(); ++i) {
    const Route& route = next->routing.routes[i];
    if (route.blocks.empty()) continue;
    const Tensor& tensor = next->entries[i].tensor;
    Member member{.tensor = tensor,
                  .route = &route,
                  .state = &state_of(tensor),
                  .key = state_key(tensor),
                  .group = next->entries[i].group,
                  .first_layer = next->layer_count};
    next->layer_count += route.blocks.size();
    const bool core = next->signatures[i].fits_core() && !whole().force_aten().value_or(false);
    auto& members = !core                                       ? aten_members
                    : tensor.scalar_type() == ::torch::kFloat32 ? float_members
                                                                : double_members;
    members.push_back(std::move(member));
  }
  const int parts = static_cast<int>(!float_members.empty()) +
                    static_cast<int>(!double_members.empty()) +
                    static_cast<int>(!aten_members.empty());
  const Execution execution{
      .threads = static_cast<int>(whole().threads().value_or(0)),
      .overwrite_gradients = whole().overwrite_gradients().value_or(false),
      // After one part's directions another's may fail, or a trial step.
      .undoable = parts > 1 || next->search.has_value(),
      .nonfinite = whole().skip_nonfinite().value_or(false) ? NonFinite::Skip : NonFinite::Throw};
  const auto add_part = [&](std::vector<Member>& members, auto make_part) {
    if (members.empty()) return;
    next->parts.push_back(make_part(std::move(members)));
  };
  const auto& ranks = whole().ranks();
  if (ranks && !aten_members.empty()) {
    normball::throw_invalid("NormBall", "'", aten_members.front().route->name, "' is stepped by ",
                            "tensor operations; several ranks share contiguous float32 and ",
                            "float64 tensors on the CPU only");
  }
  const auto core_part = [&]<class T>(T) {
    return [&](std::vector<Member> members) {
      return make_core_part<T>(std::move(members), next->method, execution, steps_, ranks);
    };
  };
  add_part(float_members, core_part(0.0F));
  add_part(double_members, core_part(0.0));
  add_part(aten_members, [&](std::vector<Member> members) {
    return make_aten_part(std::move(members), next->method, execution, steps_);
  });
  return next;
}

}  // namespace normball::optim
