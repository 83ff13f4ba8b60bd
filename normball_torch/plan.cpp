#include "normball_torch/plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "normball/error.h"

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
    if (info.identity != nullptr) {
      const auto entry = std::pair<const void*, std::string>(tensor.unsafeGetTensorImpl(), name);
      const auto [found, is_new] = memory_.emplace(info.identity, entry);
      if (!is_new && found->second.first != entry.first) {
        normball::detail::invalid("NormBall", "'", found->second.second, "' and '", name,
                                  "' share memory but not their gradient: tie weights by using ",
                                  "one tensor");
      }
    }
    infos.push_back(std::move(info));
  }

 private:
  std::map<const void*, std::pair<const void*, std::string>> memory_;  // data -> tensor, name
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

RoutingOptions routing_options(const NormBallOptions& whole, const Method& method) {
  RoutingOptions options;
  options.rules = whole.rules().value_or(std::vector<RoutingRule>{});
  options.radii = whole.radii().value_or(RoleRadii{});
  options.solver = parse_polar_solver(whole.solver().value_or("exact"));
  options.grad_clip = whole.grad_clip().value_or(0);
  options.method = method.name;
  options.method_norm = method.norm;
  options.method_radius = method.radius;
  return options;
}

}  // namespace

NormBall::Plan::Signature::Signature(const Tensor& t)
    : tensor(t.unsafeGetTensorImpl()),
      data(nullptr),
      type(t.defined() ? t.scalar_type() : ::torch::kFloat32),
      device(t.defined() ? t.device() : ::torch::kCPU),
      plain(t.defined() && t.layout() == ::torch::kStrided && t.is_contiguous() && !t.is_neg() &&
            !t.is_conj()),
      requires_grad(t.defined() && t.requires_grad()) {
  if (!t.defined()) return;
  sizes = t.sizes().vec();
  if (t.layout() == ::torch::kStrided) data = t.data_ptr();
}

bool NormBall::Plan::Signature::fits_core() const {
  return device.is_cpu() && plain && (type == ::torch::kFloat32 || type == ::torch::kFloat64);
}

bool NormBall::Plan::any_gradient() const {
  bool any = false;
  for_each_member([&](const Member& member) { any |= member.tensor.grad().defined(); });
  return any;
}

void NormBall::Plan::abandon() {
  for (const auto& part : parts) part->abandon();
}

std::unique_ptr<NormBall::Plan> NormBall::make_plan() {
  auto next = std::make_unique<Plan>();
  next->method = make();
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
  next->routing = route(listing.infos, routing_options(whole(), next->method));

  std::vector<Member> float_members, double_members, aten_members;
  for (size_t i = 0; i < next->entries.size(); ++i) {
    const Route& route = next->routing.routes[i];
    if (route.blocks.empty()) continue;
    const Tensor& tensor = next->entries[i].tensor;
    Member member{.tensor = tensor,
                  .route = &route,
                  .state = &state_of(tensor),
                  .group = next->entries[i].group,
                  .first_layer = next->layer_count};
    next->layer_count += route.blocks.size();
    const bool core = next->signatures[i].fits_core() && !whole().force_aten().value_or(false);
    auto& members = !core                                       ? aten_members
                    : tensor.scalar_type() == ::torch::kFloat32 ? float_members
                                                                : double_members;
    members.push_back(std::move(member));
  }
  const Execution execution{
      .threads = static_cast<int>(whole().threads().value_or(0)),
      .overwrite_gradients = whole().overwrite_gradients().value_or(false),
      .nonfinite = whole().skip_nonfinite().value_or(false) ? NonFinite::Skip : NonFinite::Throw};
  const auto add_part = [&](std::vector<Member>& members, auto make_part) {
    if (members.empty()) return;
    next->parts.push_back(make_part(std::move(members), next->method, execution, steps_));
  };
  add_part(float_members, make_core_part<float>);
  add_part(double_members, make_core_part<double>);
  add_part(aten_members, make_aten_part);
  return next;
}

}  // namespace normball::optim
