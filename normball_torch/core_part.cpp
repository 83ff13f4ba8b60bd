// Contiguous CPU tensors: the core works on their memory.
#include "normball/base/error.h"
#include "normball/routed.h"
#include "normball_torch/part.h"
#include "normball_torch/ranks/shared_directions.h"

namespace normball::optim {
namespace {

using ::torch::Tensor;

template <class T>
constexpr ::torch::ScalarType scalar_type =
    std::is_same_v<T, float> ? ::torch::kFloat32 : ::torch::kFloat64;

template <class T>
class CorePart final : public Part {
 public:
  CorePart(std::vector<Member> members, const Method& method, const Execution& execution,
           int64_t steps, const std::shared_ptr<ranks::Ranks>& ranks)
      : Part(std::move(members)),
        optimizer_(method, layers_of(members_), external(execution), peers_of(ranks)) {
    load(steps);
  }

  void set_lr(double lr) override { optimizer_.set_lr(lr); }

  void set_method(const Method& method) override {
    optimizer_.set_rule(method.rule);
    optimizer_.set_alpha(method.alpha);
  }

  const StepReport& prepare() override {
    parameters_.clear();
    gradients_.clear();
    for (auto& member : members_) {
      T* const weight = member.tensor.template data_ptr<T>();
      const Tensor gradient = gradient_of(member, scalar_type<T>);
      RoutedTensor<T> routed{.weight = weight, .has_gradient = gradient.defined()};
      if (needs_distance(optimizer_.method().rule)) {
        routed.start = member.state->start().template data_ptr<T>();
      }
      if (gradient.defined()) {
        Tensor& own = member.state->momentum_buffer();
        routed.gradient = gradient.template data_ptr<T>();
        if (member.owner == by_rows) {
          momentum_rows_of(member, scalar_type<T>);
        } else if (!member.elsewhere) {
          own = momentum_of(member, scalar_type<T>);
          routed.momentum = own.template data_ptr<T>();
        } else if (!is_elsewhere(own)) {
          own = momentum_elsewhere();
        }
        routed.lr_factor = member.lr_factor;
        gradients_.push_back(gradient);  // a copy must live until apply()
      }
      append_parameters(*member.route, routed, parameters_);
      if (member.owner == by_rows && gradient.defined()) {
        Tensor& rows = member.state->momentum_rows();
        parameters_.back().momentum = {rows.template data_ptr<T>(), rows.size(0), rows.size(1)};
      }
    }
    report_ = &optimizer_.prepare(parameters_);
    return *report_;
  }

  const StepReport& report() const override { return *report_; }

  void check(double eta) const override { optimizer_.require_step(eta); }

  void apply(double eta) override {
    optimizer_.apply(eta);
    for (const auto& member : members_) {
      // Autograd must know that the memory changed, as after any in-place operation.
      if (member.tensor.grad().defined()) member.tensor.unsafeGetTensorImpl()->bump_version();
    }
    gradients_.clear();
  }

  void abandon() override {
    optimizer_.revert();
    gradients_.clear();
  }

  std::vector<Tensor> directions() override {
    std::vector<Tensor> result = zeros_of(members_);
    std::vector<MatrixView<T>> views;
    for (size_t i = 0; i < members_.size(); ++i) {
      for (const auto& block : members_[i].route->blocks) {
        views.push_back(view_of(block, result[i].template data_ptr<T>()));
      }
    }
    optimizer_.direction(views);
    return result;
  }

  void store_bases() override {
    for (const auto& [name, buffer, member, offset] : bases()) {
      if (member->state == nullptr || member->elsewhere) continue;
      Tensor& basis = member->state->basis();
      if (!basis.defined()) basis = ::torch::zeros({basis_size(*member->route)}, scalar_type<T>);
      std::copy_n(buffer.data, buffer.size(), basis.template data_ptr<T>() + offset);
    }
  }

 private:
  struct Basis {
    std::string name;
    MatrixView<T> buffer;
    Member* member;
    Index offset;  // in the state's tensor
  };

  static Execution external(Execution execution) {
    execution.external_momentum = true;
    return execution;
  }

  // Marks the members whose directions other ranks find. A tensor's matrices stay together, since
  // its momentum does.
  std::shared_ptr<Peers<T>> peers_of(const std::shared_ptr<ranks::Ranks>& ranks) {
    if (ranks == nullptr) return nullptr;
    const auto layers = layers_of(members_);
    std::vector<size_t> tensors;
    for (size_t i = 0; i < members_.size(); ++i) {
      tensors.insert(tensors.end(), members_[i].route->blocks.size(), i);
    }
    auto owners = share_layers(layers, ranks->size(), tensors);
    for (size_t l = 0; l < owners.size(); ++l) {
      Member& member = members_[tensors[l]];
      member.owner = owners[l];
      member.elsewhere = owners[l] >= 0 && owners[l] != ranks->rank();
      if (owners[l] == by_rows) {
        member.rows = rows_of(layers[l].shape, ranks->rank(), ranks->size());
      }
    }
    return std::make_shared<ranks::SharedDirections<T>>(ranks, layers, std::move(owners));
  }

  // The core's state, which is the bases alone, beside the members it belongs to.
  std::vector<Basis> bases() {
    std::vector<Basis> result;
    const auto state = optimizer_.state();
    size_t next = 0;
    for (auto& member : members_) {
      Index offset = 0;
      for (const auto& block : member.route->blocks) {
        const Index own = basis_size(block, member.route->norm);
        if (own == 0) continue;
        result.push_back({state[next].name, state[next].view, &member, offset});
        offset += own;
        ++next;
      }
    }
    return result;
  }

  void load(int64_t steps) {
    std::vector<NamedBuffer<const T>> routed;
    for (const auto& [name, buffer, member, offset] : bases()) {
      Tensor& saved = member->state->basis();
      if (saved.defined()) saved = saved.to(::torch::kCPU, scalar_type<T>).contiguous();
      const bool fits = saved.defined() && saved.numel() == basis_size(*member->route);
      const T* data = fits ? saved.template data_ptr<T>() + offset : buffer.data;
      routed.push_back({name, {data, buffer.rows, buffer.cols}});
    }
    // The rule's memory is the joint step's.
    const std::vector<double> none(memory_size(optimizer_.method().rule));
    optimizer_.load_state(routed, steps, none);
  }

  Optimizer<T> optimizer_;
  std::vector<Parameter<T>> parameters_;
  std::vector<Tensor> gradients_;
  const StepReport* report_ = nullptr;
};

}  // namespace

template <class T>
std::unique_ptr<Part> make_core_part(std::vector<Member> members, const Method& method,
                                     const Execution& execution, int64_t steps,
                                     const std::shared_ptr<ranks::Ranks>& ranks) {
  return std::make_unique<CorePart<T>>(std::move(members), method, execution, steps, ranks);
}

template std::unique_ptr<Part> make_core_part<float>(std::vector<Member>, const Method&,
                                                     const Execution&, int64_t,
                                                     const std::shared_ptr<ranks::Ranks>&);
template std::unique_ptr<Part> make_core_part<double>(std::vector<Member>, const Method&,
                                                      const Execution&, int64_t,
                                                      const std::shared_ptr<ranks::Ranks>&);

}  // namespace normball::optim
