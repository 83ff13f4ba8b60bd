// Contiguous CPU tensors: the core works on their memory.
#include "normball/base/error.h"
#include "normball_torch/part.h"

namespace normball::optim {
namespace {

using ::torch::Tensor;

template <class T>
constexpr ::torch::ScalarType scalar_type =
    std::is_same_v<T, float> ? ::torch::kFloat32 : ::torch::kFloat64;

template <class T>
MatrixView<T> view(T* data, const Block& block) {
  return {data + block.offset, block.shape.rows, block.shape.cols, block.stride};
}

template <class T>
class CorePart final : public Part {
 public:
  CorePart(std::vector<Member> members, const Method& method, const Execution& execution,
           int64_t steps)
      : Part(std::move(members)), optimizer_(method, layers_of(members_), external(execution)) {
    load(steps);
  }

  void set_lr(double lr) override { optimizer_.set_lr(lr); }

  const StepReport& prepare() override {
    parameters_.clear();
    gradients_.clear();
    for (const auto& member : members_) {
      T* const weight = member.tensor.template data_ptr<T>();
      const Tensor gradient = gradient_of(member, scalar_type<T>);
      T* momentum = nullptr;
      if (gradient.defined()) {
        Tensor& own = member.state->momentum_buffer();
        own = momentum_of(member, scalar_type<T>);
        momentum = own.template data_ptr<T>();
        gradients_.push_back(gradient);  // a copy must live until apply()
      }
      for (const auto& block : member.route->blocks) {
        if (!gradient.defined()) {
          parameters_.push_back(Parameter<T>::without_gradient(view(weight, block)));
          continue;
        }
        parameters_.push_back({.weight = view(weight, block),
                               .gradient = view(gradient.template data_ptr<T>(), block),
                               .momentum = view(momentum, block),
                               .lr_factor = member.lr_factor});
      }
    }
    return optimizer_.prepare(parameters_);
  }

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

  void store_bases() override {
    for (const auto& [name, buffer, member, offset] : bases()) {
      if (member->state == nullptr) continue;
      Tensor& basis = member->state->basis();
      if (!basis.defined()) basis = ::torch::zeros({total(*member)}, scalar_type<T>);
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

  static Index size(const Block& block, const Norm& norm) {
    const auto resolved = resolve(norm, block.shape);
    return resolved.geometry == Geometry::Operator
               ? polar_state_size(resolved.solver, block.shape.rows, block.shape.cols)
               : 0;
  }

  static Index total(const Member& member) {
    Index sum = 0;
    for (const auto& block : member.route->blocks) sum += size(block, member.route->norm);
    return sum;
  }

  // The core's state, which is the bases alone, beside the members it belongs to.
  std::vector<Basis> bases() {
    std::vector<Basis> result;
    const auto state = optimizer_.state();
    size_t next = 0;
    for (auto& member : members_) {
      Index offset = 0;
      for (const auto& block : member.route->blocks) {
        const Index own = size(block, member.route->norm);
        if (own == 0) continue;
        result.push_back({state[next].name, state[next].view, &member, offset});
        offset += own;
        ++next;
      }
    }
    return result;
  }

  void load(int64_t steps) {
    std::vector<NamedBuffer<const T>> buffers;
    for (const auto& [name, buffer, member, offset] : bases()) {
      Tensor& saved = member->state->basis();
      if (saved.defined()) saved = saved.to(::torch::kCPU, scalar_type<T>).contiguous();
      const bool fits = saved.defined() && saved.numel() == total(*member);
      const T* data = fits ? saved.template data_ptr<T>() + offset : buffer.data;
      buffers.push_back({name, {data, buffer.rows, buffer.cols}});
    }
    optimizer_.load_state(buffers, steps);
  }

  Optimizer<T> optimizer_;
  std::vector<Parameter<T>> parameters_;
  std::vector<Tensor> gradients_;
};

}  // namespace

template <class T>
std::unique_ptr<Part> make_core_part(std::vector<Member> members, const Method& method,
                                     const Execution& execution, int64_t steps) {
  return std::make_unique<CorePart<T>>(std::move(members), method, execution, steps);
}

template std::unique_ptr<Part> make_core_part<float>(std::vector<Member>, const Method&,
                                                     const Execution&, int64_t);
template std::unique_ptr<Part> make_core_part<double>(std::vector<Member>, const Method&,
                                                      const Execution&, int64_t);

}  // namespace normball::optim
