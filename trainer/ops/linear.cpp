// Linear layers without bias.
#include "trainer/ops/ops.h"
#include "trainer/ops/product.h"
#include "trainer/ops/support.h"

namespace normball::trainer::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// (..., width) as a matrix.
at::Tensor rows_of(const at::Tensor& x) { return x.contiguous().view({-1, x.size(-1)}); }

struct Linear : Function<Linear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_in,
                            const at::Tensor& weight_in) {
    const at::Tensor x = rows_of(x_in), weight = weight_in.contiguous();
    auto shape = x_in.sizes().vec();
    shape.back() = weight.size(0);
    const at::Tensor y = at::empty({x.size(0), weight.size(0)}, x.options());
    with_type(x, [&](auto zero) {
      using T = decltype(zero);
      product(view_of<T>(x), Op::None, view_of<T>(weight), Op::Transpose, 0, view_of<T>(y));
    });
    context->save_for_backward({x, weight});
    context->saved_data["shape"] = x_in.sizes().vec();
    return y.view(shape);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], g = rows_of(gradients[0]);
    const at::Tensor dx = at::empty_like(x), dweight = at::empty_like(weight);
    with_type(x, [&](auto zero) {
      using T = decltype(zero);
      const auto gradient = view_of<T>(g);
      product(gradient, Op::None, view_of<T>(weight), Op::None, 0, view_of<T>(dx));
      product(gradient, Op::Transpose, view_of<T>(x), Op::None, 0, view_of<T>(dweight));
    });
    return {dx.view(context->saved_data["shape"].toIntVector()), dweight};
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, bool composed) {
  TORCH_CHECK(x.dim() >= 1 && weight.dim() == 2 && x.size(-1) == weight.size(1), "[linear] x ",
              x.sizes(), " does not fit a weight of ", weight.sizes());
  if (fusible(x) && !composed && x.numel() > 0) return Linear::apply(x, weight);
  return at::linear(x, weight);
}

}  // namespace normball::trainer::ops
