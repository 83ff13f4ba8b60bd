// What an optimizer can do to the weights between steps. New values are found before the first is
// written: on an error nothing has changed.
#include "normball/base/error.h"
#include "normball/routed.h"
#include "normball_torch/aten_norms.h"
#include "normball_torch/plan.h"

namespace normball::optim {
namespace {

using ::torch::Tensor;

class Edits {
 public:
  // A copy of the weight to change: plain, in float64, on the CPU.
  const Tensor& copy(const Member& member) {
    const Tensor weight = member.tensor.detach().to(::torch::kCPU, ::torch::kFloat64);
    return edits_.emplace_back(member.tensor, plain(weight).clone()).second;
  }
  void write() const {
    const ::torch::NoGradGuard no_grad;
    for (const auto& [tensor, values] : edits_) tensor.copy_(values);
  }

 private:
  std::vector<std::pair<Tensor, Tensor>> edits_;
};

}  // namespace

void NormBall::initialize(uint64_t seed) {
  Random random(seed);
  Edits edits;
  plan().for_each_member([&](const Member& member) {
    const Route& route = *member.route;
    const bool vector = route.dimensions.size() <= 1 && route.kind != Kind::Bias;
    if (vector || route.kind == Kind::Gain || !member.tensor.requires_grad()) return;
    const Tensor values = edits.copy(member);
    for (const auto& block : route.blocks) {
      normball::initialize(route.norm, block.shape, route.radius,
                           view_of(block, values.data_ptr<double>()), random);
    }
    if (route.kind == Kind::Bias) values.zero_();
  });
  edits.write();
}

double NormBall::scale_into_balls() {
  double largest = 0;
  Edits edits;
  plan().for_each_member([&](const Member& member) {
    if (!member.tensor.requires_grad()) return;
    const Route& route = *member.route;
    const Tensor values = edits.copy(member);
    if (!values.isfinite().all().item<bool>()) {
      normball::throw_invalid("NormBall::scale_into_balls", "the weight of '", route.name,
                              "' has an entry that is not finite");
    }
    for (const auto& block : route.blocks) {
      const Tensor weight = block_view(values, block);
      const double norm =
          aten_norm(resolve(route.norm, block.shape), weight).item<double>() / route.radius;
      largest = std::max(largest, norm);
      if (norm > 1) weight.div_(norm);
    }
  });
  if (largest > 1) edits.write();
  return largest;
}

}  // namespace normball::optim
