// Any other device, type or memory layout: the loop of Algorithms 3 and 4 in tensor operations.
#include <map>

#include "normball/error.h"
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

Tensor block_view(const Tensor& contiguous, const Block& block) {
  return contiguous.as_strided({block.shape.rows, block.shape.cols}, {block.stride, 1},
                               contiguous.storage_offset() + block.offset);
}

// A matrix of a member during a step.
struct Piece {
  size_t layer;
  const Member* member;
  ResolvedNorm norm;
  double radius;
  Tensor weight;  // in the compute type; the parameter's own memory where that is possible
  Tensor u = {}, dual = {}, weight_pairing = {};
  double share = 1;

  double unit() const { return radius * norm.scale * share; }
};

class AtenPart final : public Part {
 public:
  AtenPart(std::vector<Member> members, Method method, const Execution& execution, int64_t steps)
      : Part(std::move(members)), method_(std::move(method)), execution_(execution), step_(steps) {
    for (const auto& layer : layers_of(members_)) {
      norms_.push_back(resolve(method_.norm.value_or(layer.norm), layer.shape));
      radii_.push_back(method_.radius.value_or(layer.radius));
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

  const StepReport& prepare() override {
    const auto gradients = find_gradients();
    report_.step = step_;
    report_.lr = method_.lr.at(step_);
    report_.gamma = report_.lr / rho(method_.rule);
    report_.pairing = report_.wolfe_gap = report_.direction_norm = report_.eta = 0;
    report_.clipped = report_.skipped = false;
    report_.nonfinite_layer.clear();
    std::ranges::fill(report_.layers, LayerReport{});
    if (!all_finite(gradients)) return report_;
    find_directions(gradients);
    combine();
    if (needs_direction_norm(method_.rule)) measure_direction();
    return report_;
  }

  void apply(double eta) override {
    for (auto& piece : pieces_) {
      const double step = report_.gamma * eta * piece.member->lr_factor;
      if (step == 0) continue;
      if (method_.constrained) piece.weight.mul_(1 - step);
      piece.weight.add_(piece.u, -step * piece.unit());
    }
    for (const auto& [member, weight] : weights_) {
      if (!weight.is_same(member->tensor)) member->tensor.copy_(weight);
    }
    ++step_;
    abandon();
  }

  void abandon() override {
    pieces_.clear();
    weights_.clear();
  }

 private:
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
    const size_t owner = owners[static_cast<size_t>(bad - finite.begin())];
    report_.skipped = true;
    report_.nonfinite_layer = members_[owner].route->name;
    if (execution_.nonfinite == NonFinite::Throw) {
      throw NonFiniteError(normball::detail::message("NormBall::step", "the gradient of '",
                                                     report_.nonfinite_layer,
                                                     "' has an entry that is not finite"));
    }
    return false;
  }

  // d ← α g + (1−α) d and u = −lmo(d) for every matrix.
  void find_directions(const std::vector<Tensor>& gradients) {
    const double alpha = method_.alpha.at(step_);
    size_t layer = 0;
    for (size_t i = 0; i < members_.size(); ++i) {
      const Member& member = members_[i];
      const size_t first = layer;
      layer += member.route->blocks.size();
      if (!gradients[i].defined() || member.tensor.numel() == 0) continue;
      const auto type = compute_type(member.tensor.scalar_type());
      const Tensor& momentum = momentum_of(member, type).mul_(1 - alpha).add_(gradients[i], alpha);
      const Tensor weight = member.tensor.to(type).contiguous();
      weights_.emplace_back(&member, weight);
      Index offset = 0;
      for (size_t b = 0; b < member.route->blocks.size(); ++b) {
        const Block& block = member.route->blocks[b];
        Piece piece{.layer = first + b,
                    .member = &member,
                    .norm = norms_[first + b],
                    .radius = radii_[first + b],
                    .weight = block_view(weight, block)};
        const Tensor d = block_view(momentum, block);
        const Tensor basis = take_basis(piece, d, offset);
        const AtenDirection found = aten_direction(piece.norm, d, basis);
        piece.u = found.u;
        piece.dual = found.dual;
        if (method_.constrained) {
          piece.weight_pairing = (d * piece.weight).sum(::torch::kFloat64);
        }
        pieces_.push_back(std::move(piece));
      }
    }
  }

  // The block's own part of the member's basis, which the step changes in place.
  Tensor take_basis(const Piece& piece, const Tensor& d, Index& offset) const {
    if (piece.norm.geometry != Geometry::Operator) return {};
    const auto size = [&](const Block& block) {
      return polar_state_size(piece.norm.solver, block.shape.rows, block.shape.cols);
    };
    const Index own = polar_state_size(piece.norm.solver, d.size(0), d.size(1));
    if (own == 0) return {};
    Index total = 0;
    for (const auto& block : piece.member->route->blocks) total += size(block);
    Tensor& basis = piece.member->state->basis();
    if (!basis.defined() || basis.numel() != total) basis = ::torch::zeros({total}, d.options());
    basis = basis.to(d.device(), d.scalar_type()).contiguous();
    const Tensor part = basis.narrow(0, offset, own);
    offset += own;
    return part;
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
      report_.layers[pieces_[i].layer].pairing = weight_pairings[i] + shares[i] * duals[i];
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

  Method method_;
  Execution execution_;
  int64_t step_;
  std::vector<ResolvedNorm> norms_;
  std::vector<double> radii_;
  std::vector<Piece> pieces_;
  std::vector<std::pair<const Member*, Tensor>> weights_;
  StepReport report_;
};

}  // namespace

std::unique_ptr<Part> make_aten_part(std::vector<Member> members, const Method& method,
                                     const Execution& execution, int64_t steps) {
  return std::make_unique<AtenPart>(std::move(members), method, execution, steps);
}

}  // namespace normball::optim
