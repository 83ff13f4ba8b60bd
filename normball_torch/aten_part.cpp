// Any other device, type or memory layout: the loop of Algorithms 3 and 4 in tensor operations.
#include <limits>
#include <map>

#include "normball/base/error.h"
#include "normball_torch/aten_norms.h"
#include "normball_torch/part.h"

namespace normball::optim {
namespace {

using ::torch::Tensor;

// Scalars on their devices as numbers: one transfer for each device.
std::vector<double> to_host(const std::vector<Tensor>& scalars) {
  std::map<std::string, std::pair<std::vector<size_t>, std::vector<Tensor>>> by_device;
  for (size_t i = 0; i < scalars.size(); ++i) {
    auto& [indices, tensors] = by_device[scalars[i].device().str()];
    indices.push_back(i);
    tensors.push_back(scalars[i].to(::torch::kFloat64).reshape({}));
  }
  std::vector<double> values(scalars.size());
  for (const auto& [device, entries] : by_device) {
    const Tensor host = ::torch::stack(entries.second).to(::torch::kCPU);
    for (size_t i = 0; i < entries.first.size(); ++i) {
      values[entries.first[i]] = host.data_ptr<double>()[i];
    }
  }
  return values;
}

double largest_of(const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case ::torch::kFloat64:
      return std::numeric_limits<double>::max();
    case ::torch::kFloat16:
      return std::numeric_limits<c10::Half>::max();
    case ::torch::kBFloat16:
      return std::numeric_limits<c10::BFloat16>::max();
    default:
      return std::numeric_limits<float>::max();
  }
}

// A matrix of a member during a step.
struct Piece {
  size_t layer;
  const Member* member;
  const Block* block;
  ResolvedNorm norm;
  double radius;
  Tensor weight;  // in the compute type; the parameter's own memory where that is possible
  Tensor u = {}, dual = {}, weight_pairing = {};
  double share = 1;

  double unit() const { return radius * norm.scale * share; }
};

// What a step will leave behind in a member.
struct Pending {
  Member* member;
  Tensor momentum, weight, basis = {};
};

class AtenPart final : public Part {
 public:
  AtenPart(std::vector<Member> members, Method method, const Execution& execution, int64_t steps)
      : Part(std::move(members)), method_(std::move(method)), execution_(execution), step_(steps) {
    for (const auto& layer : layers_of(members_)) {
      norms_.push_back(resolve(layer.norm, layer.shape));
      radii_.push_back(layer.radius);
      validate(layer);
    }
    report_.layers.resize(norms_.size());
  }

  void set_lr(double lr) override {
    Method changed = method_;
    changed.lr = lr;
    validate(changed);
    method_.lr = lr;
  }

  void set_method(const Method& method) override {
    method_.rule = method.rule;
    method_.alpha = method.alpha;
  }

  const StepReport& prepare() override {
    const auto gradients = find_gradients();
    report_.step = step_;
    report_.lr = method_.lr.at(step_);
    report_.gamma = report_.lr / rho(method_.rule);
    report_.pairing = report_.wolfe_gap = report_.direction_norm = report_.eta = 0;
    report_.distance = report_.slope = 0;
    report_.clipped = report_.stalled = report_.skipped = false;
    report_.nonfinite_layer.clear();
    std::ranges::fill(report_.layers, LayerReport{});
    if (!all_finite(gradients)) return report_;
    try {
      find_directions(gradients);
      combine();
      if (needs_direction_norm(method_.rule)) measure_direction();
      if (needs_distance(method_.rule)) measure_distance();
      check_pairing();
    } catch (...) {
      abandon();
      throw;
    }
    return report_;
  }

  const StepReport& report() const override { return report_; }

  void check(double eta) const override {
    for (const auto& piece : pieces_) {
      const double length = report_.gamma * eta * piece.member->lr_factor * piece.unit();
      if (length <= largest_of(piece.member->tensor)) continue;
      normball::throw_invalid("NormBall::step", "the step of '", piece.member->route->name, "' is ",
                              length, " long, beyond the range of its type: lower ",
                              "the lr or the radius");
    }
    check_narrow(eta);
  }

  void apply(double eta) override {
    for (auto& piece : pieces_) {
      const double step = report_.gamma * eta * piece.member->lr_factor;
      if (step == 0) continue;
      if (method_.constrained) piece.weight.mul_(1 - step);
      piece.weight.add_(piece.u, -step * piece.unit());
    }
    for (const auto& [member, momentum, weight, basis] : pending_) {
      if (!weight.is_same(member->tensor)) member->tensor.copy_(weight);
      member->state->momentum_buffer() = momentum;
      if (basis.defined()) member->state->basis() = basis;
    }
    ++step_;
    abandon();
  }

  std::vector<Tensor> directions() override {
    std::vector<Tensor> result = zeros_of(members_);
    for (const auto& piece : pieces_) {
      const Tensor& whole = result[static_cast<size_t>(piece.member - members_.data())];
      const Tensor v = block_view(whole, *piece.block);
      if (method_.constrained) v.copy_(piece.weight);
      v.add_(piece.u, piece.unit()).mul_(piece.member->lr_factor);
    }
    return result;
  }

  void abandon() override {
    pieces_.clear();
    pending_.clear();
  }

 private:
  // Steps that fit may add up to weights that do not, where those are stored in fewer bits than
  // they are computed in.
  void check_narrow(double eta) const {
    std::vector<const Piece*> narrow;
    std::vector<Tensor> sizes;
    for (const auto& piece : pieces_) {
      if (piece.weight.scalar_type() == piece.member->tensor.scalar_type()) continue;
      const double step = report_.gamma * eta * piece.member->lr_factor;
      const Tensor kept = method_.constrained ? piece.weight * (1 - step) : piece.weight;
      narrow.push_back(&piece);
      sizes.push_back(::torch::add(kept, piece.u, -step * piece.unit()).abs().max());
    }
    const auto values = to_host(sizes);
    for (size_t i = 0; i < values.size(); ++i) {
      const double most = largest_of(narrow[i]->member->tensor);
      if (values[i] <= most) continue;
      normball::throw_invalid("NormBall::step", "the step takes '", narrow[i]->member->route->name,
                              "' to ", values[i], ", beyond the range of its type, which ends at ",
                              most, ": lower the lr or the radius, or keep the weights in float32");
    }
  }

  std::vector<Tensor> find_gradients() const {
    std::vector<Tensor> gradients;
    for (const auto& member : members_) {
      gradients.push_back(gradient_of(member, compute_type(member.tensor.scalar_type())));
    }
    return gradients;
  }

  // Before anything is touched; as the core does, an error or a skipped step.
  bool all_finite(const std::vector<Tensor>& gradients) {
    std::vector<size_t> owners;
    std::vector<Tensor> flags;
    for (size_t i = 0; i < members_.size(); ++i) {
      if (!gradients[i].defined()) continue;
      owners.push_back(i);
      flags.push_back(::torch::isfinite(gradients[i]).all());
    }
    const auto finite = to_host(flags);
    const auto bad = std::ranges::find(finite, 0.0);
    if (bad == finite.end()) return true;
    refuse(members_[owners[static_cast<size_t>(bad - finite.begin())]], "the gradient of '");
    return false;
  }

  // NaN in a weight, from a user's norm, or an overflow.
  void check_pairing() {
    if (std::isfinite(report_.pairing + report_.direction_norm + report_.distance)) return;
    const Member* bad = &members_.front();
    for (const auto& piece : pieces_) {
      if (std::isfinite(report_.layers[piece.layer].pairing)) continue;
      bad = piece.member;
      break;
    }
    refuse(*bad, "the direction or the weight of '");
    abandon();
  }

  void refuse(const Member& member, std::string_view what) {
    report_.skipped = true;
    report_.nonfinite_layer = member.route->name;
    if (execution_.nonfinite == NonFinite::Throw) {
      throw NonFiniteError(normball::error_message("NormBall::step", what, member.route->name,
                                                   "' has an entry that is not finite"),
                           member.route->name);
    }
  }

  // d ← α g + (1−α) d and u = −lmo(d) for every matrix.
  void find_directions(const std::vector<Tensor>& gradients) {
    const double alpha = method_.alpha.at(step_);
    size_t layer = 0;
    for (size_t i = 0; i < members_.size(); ++i) {
      Member& member = members_[i];
      const size_t first = layer;
      layer += member.route->blocks.size();
      if (!gradients[i].defined() || member.tensor.numel() == 0) continue;
      const auto type = compute_type(member.tensor.scalar_type());
      Pending& pending = pending_.emplace_back(
          Pending{.member = &member,
                  .momentum = momentum_of(member, type).mul(1 - alpha).add_(gradients[i], alpha),
                  .weight = plain(member.tensor.to(type))});
      copy_basis(pending);
      Index offset = 0;
      for (size_t b = 0; b < member.route->blocks.size(); ++b) {
        const Block& block = member.route->blocks[b];
        Piece piece{.layer = first + b,
                    .member = &member,
                    .block = &block,
                    .norm = norms_[first + b],
                    .radius = radii_[first + b],
                    .weight = block_view(pending.weight, block)};
        const Tensor d = block_view(pending.momentum, block);
        Tensor basis;
        if (const Index own = basis_size(block, member.route->norm); own > 0) {
          basis = pending.basis.narrow(0, offset, own);
          offset += own;
        }
        const AtenDirection found = aten_direction(piece.norm, d, basis);
        piece.u = found.u;
        piece.dual = found.dual;
        if (method_.constrained) piece.weight_pairing = aten_pairing(d, piece.weight);
        pieces_.push_back(std::move(piece));
      }
    }
  }

  // Power iteration changes its basis in place: a copy, until the step is taken.
  static void copy_basis(Pending& pending) {
    const Index total = basis_size(*pending.member->route);
    if (total == 0) return;
    const Tensor& saved = pending.member->state->basis();
    pending.basis = ::torch::zeros({total}, pending.momentum.options());
    if (saved.defined() && saved.numel() == total) pending.basis.copy_(saved.reshape({total}));
  }

  // s and the layers' shares, as Optimizer has them.
  void combine() {
    std::vector<Tensor> scalars;
    for (const auto& piece : pieces_) {
      scalars.push_back(piece.dual);
      if (method_.constrained) scalars.push_back(piece.weight_pairing);
    }
    const auto values = to_host(scalars);
    std::vector<double> duals, weight_pairings, shares(pieces_.size());
    size_t next = 0;
    for (const auto& piece : pieces_) {
      duals.push_back(values[next++] * piece.norm.scale * piece.radius);
      weight_pairings.push_back(method_.constrained ? values[next++] : 0);
      report_.pairing += weight_pairings.back();
    }
    report_.pairing += combine_duals(method_.combination, duals, shares);
    report_.wolfe_gap = method_.constrained ? report_.pairing : 0;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      pieces_[i].share = shares[i];
      report_.layers[pieces_[i].layer].dual_norm = duals[i];
      const double pairing = weight_pairings[i] + shares[i] * duals[i];
      report_.layers[pieces_[i].layer].pairing = pairing;
      report_.slope += pieces_[i].member->lr_factor * pairing;
    }
  }

  void measure_direction() {
    std::vector<Tensor> norms;
    for (const auto& piece : pieces_) {
      Tensor v = piece.unit() * piece.u;
      if (method_.constrained) v = v + piece.weight;
      norms.push_back(aten_norm(piece.norm, v) / piece.radius);
    }
    report_.direction_norm = combine_norms(method_.combination, to_host(norms));
  }

  // Of all weights, also of those that take no part in the step.
  void measure_distance() {
    std::vector<Tensor> norms;
    size_t layer = 0;
    for (const auto& member : members_) {
      const auto type = compute_type(member.tensor.scalar_type());
      const Tensor moved = plain(member.tensor.to(type)) - member.state->start();
      for (const auto& block : member.route->blocks) {
        if (moved.numel() > 0) {
          norms.push_back(aten_norm(norms_[layer], block_view(moved, block)) / radii_[layer]);
        }
        ++layer;
      }
    }
    report_.distance = combine_norms(method_.combination, to_host(norms));
  }

  Method method_;
  Execution execution_;
  int64_t step_;
  std::vector<ResolvedNorm> norms_;
  std::vector<double> radii_;
  std::vector<Piece> pieces_;
  std::vector<Pending> pending_;
  StepReport report_;
};

}  // namespace

std::unique_ptr<Part> make_aten_part(std::vector<Member> members, const Method& method,
                                     const Execution& execution, int64_t steps) {
  return std::make_unique<AtenPart>(std::move(members), method, execution, steps);
}

}  // namespace normball::optim
