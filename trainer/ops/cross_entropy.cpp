// The loss of a language model from its last hidden states, a block of tokens at a time: logits,
// loss, their gradient and both products with it while the block is in the cache.
#include "trainer/ops/ops.h"
#include "trainer/ops/product.h"
#include "trainer/ops/support.h"

namespace normball::trainer::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Tokens in a block: enough for a matrix product at full speed (512 take 10 % less time a token
// than 256), at most 128 MiB of logits, and all blocks alike: every one reads all weights three
// times.
Index block_tokens(Index tokens, Index vocabulary) {
  const Index most = std::clamp<Index>((Index(1) << 25) / std::max<Index>(1, vocabulary), 64, 1024);
  const Index blocks = (tokens + most - 1) / most;
  return (tokens + blocks - 1) / blocks;
}

// logits <- (softmax - one-hot) factor, row by row; returns the sum of the losses.
template <class T>
double loss_block(MatrixView<T> logits, const int64_t* targets, T factor, double* losses) {
  at::parallel_for(0, logits.rows, grain(logits.cols), [=](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      T* row = logits.row(i);
      const T target = row[targets[i]];
      losses[i] =
          static_cast<double>(row_kernels<T>().softmax(row, T(1), factor, logits.cols) - target);
      row[targets[i]] -= factor;
    }
  });
  double sum = 0;
  for (Index i = 0; i < logits.rows; ++i) sum += losses[i];
  return sum;
}

struct LinearCrossEntropy : Function<LinearCrossEntropy> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_in,
                            const at::Tensor& weight_in, const at::Tensor& targets,
                            bool differentiate) {
    const at::Tensor x = x_in.contiguous(), weight = weight_in.contiguous();
    const Index tokens = x.size(0), vocabulary = weight.size(0);
    const Index block = block_tokens(tokens, vocabulary);
    const at::Tensor dx = differentiate ? at::empty_like(x) : at::Tensor();
    const at::Tensor dweight = differentiate ? at::empty_like(weight) : at::Tensor();
    const at::Tensor buffer = at::empty({block, vocabulary}, x.options());
    std::vector<double> losses(static_cast<size_t>(block));
    double sum = 0;
    with_type(x, [&](auto zero) {
      using T = decltype(zero);
      const auto xs = view_of<T>(x), ws = view_of<T>(weight);
      for (Index begin = 0; begin < tokens; begin += block) {
        const Index end = std::min(begin + block, tokens);
        const MatrixView<T> logits(buffer.data_ptr<T>(), end - begin, vocabulary);
        product(xs.row_range(begin, end), Op::None, ws, Op::Transpose, 0, logits);
        sum += loss_block<T>(logits, targets.data_ptr<int64_t>() + begin,
                             T(1) / static_cast<T>(tokens), losses.data());
        if (!differentiate) continue;
        product(logits, Op::None, ws, Op::None, 0, view_of<T>(dx).row_range(begin, end));
        product(logits, Op::Transpose, xs.row_range(begin, end), Op::None, begin == 0 ? T(0) : T(1),
                view_of<T>(dweight));
      }
    });
    if (differentiate) context->save_for_backward({dx, dweight});
    return at::scalar_tensor(sum / static_cast<double>(tokens), x.options());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    at::Tensor dx = saved[0], dweight = saved[1];
    // The saved gradients are this function's own, and a backward pass runs once.
    const double factor = gradients[0].item<double>();
    if (factor != 1) {
      dx.mul_(factor);
      dweight.mul_(factor);
    }
    return {dx, dweight, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& targets, bool composed) {
  TORCH_CHECK(x.dim() == 2 && weight.dim() == 2 && x.size(1) == weight.size(1) &&
                  targets.dim() == 1 && targets.size(0) == x.size(0) && x.size(0) > 0,
              "[linear_cross_entropy] x ", x.sizes(), ", weight ", weight.sizes(), " and targets ",
              targets.sizes(), " do not fit (tokens, width), (vocabulary, width), (tokens)");
  TORCH_CHECK(targets.scalar_type() == at::kLong, "[linear_cross_entropy] targets must be int64");
  if (fusible(x) && !composed) {
    TORCH_CHECK(
        targets.min().item<int64_t>() >= 0 && targets.max().item<int64_t>() < weight.size(0),
        "[linear_cross_entropy] a target is outside the vocabulary of ", weight.size(0));
    const bool differentiate =
        at::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad());
    return LinearCrossEntropy::apply(x, weight, targets.contiguous(), differentiate);
  }
  return at::cross_entropy_loss(at::matmul(x, weight.t()), targets);
}

}  // namespace normball::trainer::ops
