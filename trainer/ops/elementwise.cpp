// rms_norm, rotary embedding and relu_squared.
#include <limits>

#include "trainer/ops/ops.h"
#include "trainer/ops/support.h"

namespace normball::trainer::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct RmsNorm : Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input) {
    const at::Tensor x = input.contiguous();
    const at::Tensor y = at::empty_like(x);
    const Index n = x.size(-1), rows = x.numel() / std::max<Index>(1, n);
    const at::Tensor factors = at::empty({rows}, x.options());
    with_type(x, [&](auto zero) {
      using T = decltype(zero);
      const T* from = x.data_ptr<T>();
      T* to = y.data_ptr<T>();
      T* factor = factors.data_ptr<T>();
      at::parallel_for(0, rows, grain(n), [=](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) {
          factor[i] = row_kernels<T>().normalize(from + i * n, to + i * n, n,
                                                 std::numeric_limits<T>::epsilon());
        }
      });
    });
    context->save_for_backward({y, factors});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor g = gradients[0].contiguous(), &y = saved[0], &factors = saved[1];
    const at::Tensor dx = at::empty_like(y);
    const Index n = y.size(-1), rows = factors.numel();
    with_type(y, [&](auto zero) {
      using T = decltype(zero);
      const T *gp = g.data_ptr<T>(), *yp = y.data_ptr<T>(), *factor = factors.data_ptr<T>();
      T* to = dx.data_ptr<T>();
      at::parallel_for(0, rows, grain(n), [=](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) {
          row_kernels<T>().normalize_backward(gp + i * n, yp + i * n, factor[i], to + i * n, n);
        }
      });
    });
    return {dx};
  }
};

// Both steps are orthogonal up to the row's factor, so the gradient needs the result alone: the
// mean of g y is the same before and after the rotation.
struct NormRotary : Function<NormRotary> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& cos, const at::Tensor& sin) {
    const at::Tensor x = input.contiguous();
    const at::Tensor y = at::empty_like(x);
    const Index time = x.size(1), heads = x.size(2), n = x.size(3);
    const Index rows = x.size(0) * time * heads;
    const at::Tensor factors = at::empty({rows}, x.options());
    with_type(x, [&](auto zero) {
      using T = decltype(zero);
      const T *from = x.data_ptr<T>(), *c = cos.data_ptr<T>(), *s = sin.data_ptr<T>();
      T *to = y.data_ptr<T>(), *factor = factors.data_ptr<T>();
      at::parallel_for(0, rows, grain(n), [=](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) {
          const Index at = (i / heads) % time * (n / 2);
          factor[i] = row_kernels<T>().normalize(from + i * n, to + i * n, n,
                                                 std::numeric_limits<T>::epsilon());
          row_kernels<T>().rotate(to + i * n, c + at, s + at, T(1), n / 2);
        }
      });
    });
    context->save_for_backward({y, factors, cos, sin});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor g = gradients[0].contiguous(), &y = saved[0], &factors = saved[1];
    const at::Tensor dx = at::empty_like(y);
    const Index time = y.size(1), heads = y.size(2), n = y.size(3);
    with_type(y, [&](auto zero) {
      using T = decltype(zero);
      const T *gp = g.data_ptr<T>(), *yp = y.data_ptr<T>(), *factor = factors.data_ptr<T>();
      const T *c = saved[2].data_ptr<T>(), *s = saved[3].data_ptr<T>();
      T* to = dx.data_ptr<T>();
      at::parallel_for(0, factors.numel(), grain(n), [=](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) {
          const Index at = (i / heads) % time * (n / 2);
          row_kernels<T>().normalize_backward(gp + i * n, yp + i * n, factor[i], to + i * n, n);
          row_kernels<T>().rotate(to + i * n, c + at, s + at, T(-1), n / 2);
        }
      });
    });
    return {dx, at::Tensor(), at::Tensor()};
  }
};

struct ReluSquared : Function<ReluSquared> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input) {
    const at::Tensor x = input.contiguous();
    const at::Tensor y = at::empty_like(x);
    with_type(x, [&](auto zero) {
      using T = decltype(zero);
      const T* from = x.data_ptr<T>();
      T* to = y.data_ptr<T>();
      at::parallel_for(0, x.numel(), grain(1), [=](Index begin, Index end) {
        row_kernels<T>().relu_squared(from + begin, to + begin, end - begin);
      });
    });
    context->save_for_backward({y});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor y = context->get_saved_variables()[0], g = gradients[0].contiguous();
    const at::Tensor dx = at::empty_like(y);
    with_type(y, [&](auto zero) {
      using T = decltype(zero);
      const T *yp = y.data_ptr<T>(), *gp = g.data_ptr<T>();
      T* to = dx.data_ptr<T>();
      at::parallel_for(0, y.numel(), grain(1), [=](Index begin, Index end) {
        row_kernels<T>().relu_squared_backward(yp + begin, gp + begin, to + begin, end - begin);
      });
    });
    return {dx};
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, bool composed) {
  if (fusible(x) && !composed) return RmsNorm::apply(x);
  const double epsilon = x.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                        : std::numeric_limits<float>::epsilon();
  return x * (x.square().mean(-1, true) + epsilon).rsqrt();
}

// In double: in float the angle of a late position is off by 1e-4.
Rotation rotary_embedding(int64_t first, int64_t length, int64_t dim, double base,
                          const at::TensorOptions& options) {
  const auto exact = at::TensorOptions(at::kDouble);
  const auto theta = at::pow(base, at::arange(0, dim, 2, exact) / (-static_cast<double>(dim)));
  const auto angles = at::outer(at::arange(first, first + length, exact), theta);
  return {angles.cos().to(options), angles.sin().to(options)};
}

at::Tensor norm_rotary(const at::Tensor& x, const Rotation& rotation, bool composed) {
  const auto &cos = rotation.cos, &sin = rotation.sin;
  TORCH_CHECK(x.dim() == 4 && x.size(3) == 2 * cos.size(1) && x.size(1) == cos.size(0),
              "[norm_rotary] x ", x.sizes(), " does not fit a rotation of ", cos.sizes());
  if (fusible(x) && !composed) return NormRotary::apply(x, cos, sin);
  const auto parts = rms_norm(x, composed).chunk(2, -1);
  const auto c = cos.unsqueeze(1), s = sin.unsqueeze(1);  // (time, 1, dim / 2)
  return at::cat({parts[0] * c + parts[1] * s, parts[1] * c - parts[0] * s}, -1);
}

at::Tensor relu_squared(const at::Tensor& x, bool composed) {
  if (fusible(x) && !composed) return ReluSquared::apply(x);
  return 2 * x.relu().square();
}

}  // namespace normball::trainer::ops
