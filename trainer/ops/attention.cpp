// Attention in blocks of query rows: a block's scores fit the second-level cache, and the
// backward pass computes them again from q, k and the logarithm of each row's sum.
#include <limits>

#include "trainer/ops/ops.h"
#include "trainer/ops/product.h"
#include "trainer/ops/support.h"

namespace normball::trainer::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr Index block_rows = 64;

// One head of one sequence of a (batch, time, heads, head_dim) tensor.
template <class T>
MatrixView<T> head_of(const at::Tensor& x, Index pair) {
  const Index heads = x.size(2);
  T* data = x.data_ptr<T>() + pair / heads * x.stride(0) + pair % heads * x.stride(2);
  return {data, x.size(1), x.size(3), x.stride(1)};
}

at::Tensor with_contiguous_rows(const at::Tensor& x) {
  return x.stride(3) == 1 ? x : x.contiguous();
}

template <class T>
T scale_of(Index head_dim) {
  return T(1) / std::sqrt(static_cast<T>(head_dim));
}

// Which keys a query sees: those up to its own position, or all.
enum class Sees { Past, All };

// How many columns the rows [begin, end) see together, and the row i by itself.
template <Sees sees>
Index seen_by_block(Index end, Index keys) {
  return sees == Sees::Past ? end : keys;
}
template <Sees sees>
Index seen_by(Index i, Index keys) {
  return sees == Sees::Past ? i + 1 : keys;
}

// scores <- the rows [begin, end) of q kᵀ up to the last column that any of them sees.
template <class T>
void score_block(MatrixView<T> q, MatrixView<T> k, Index begin, Index end, MatrixView<T> scores) {
  product(q.row_range(begin, end), Op::None, k.row_range(0, scores.cols), Op::Transpose, 0, scores);
}

template <Sees sees, class T>
void attend(MatrixView<T> q, MatrixView<T> k, MatrixView<T> v, MatrixView<T> out, T* log_sums,
            T* buffer) {
  const T scale = scale_of<T>(q.cols);
  for (Index begin = 0; begin < q.rows; begin += block_rows) {
    const Index end = std::min(begin + block_rows, q.rows);
    const Index columns = seen_by_block<sees>(end, k.rows);
    const MatrixView<T> p(buffer, end - begin, columns);
    score_block(q, k, begin, end, p);
    for (Index i = begin; i < end; ++i) {
      T* row = p.row(i - begin);
      const Index seen = seen_by<sees>(i, k.rows);
      log_sums[i] = row_kernels<T>().softmax(row, scale, T(1), seen);
      std::fill(row + seen, row + columns, T(0));
    }
    product(p, Op::None, v.row_range(0, columns), Op::None, 0, out.row_range(begin, end));
  }
}

template <class T>
struct HeadGradients {
  MatrixView<T> q, k, v;
};

template <Sees sees, class T>
void attend_backward(MatrixView<T> q, MatrixView<T> k, MatrixView<T> v, MatrixView<T> out,
                     MatrixView<T> g, const T* log_sums, HeadGradients<T> gradients, T* buffer) {
  const T scale = scale_of<T>(q.cols);
  for (Index begin = 0; begin < q.rows; begin += block_rows) {
    const Index end = std::min(begin + block_rows, q.rows);
    const Index columns = seen_by_block<sees>(end, k.rows);
    const MatrixView<T> p(buffer, end - begin, columns),
        dp(buffer + block_rows * q.rows, end - begin, columns);
    score_block(q, k, begin, end, p);
    product(g.row_range(begin, end), Op::None, v.row_range(0, columns), Op::Transpose, 0, dp);
    for (Index i = begin; i < end; ++i) {
      T *row = p.row(i - begin), *drow = dp.row(i - begin);
      const Index seen = seen_by<sees>(i, k.rows);
      row_kernels<T>().probabilities(row, scale, log_sums[i], seen);
      std::fill(row + seen, row + columns, T(0));
      row_kernels<T>().softmax_backward(
          row, drow, row_kernels<T>().dot(g.row(i), out.row(i), q.cols), scale, seen);
      std::fill(drow + seen, drow + columns, T(0));
    }
    const Index before = begin == 0 ? 0 : seen_by_block<sees>(begin, k.rows);
    const auto accumulate = [&](MatrixView<T> a, MatrixView<T> b, MatrixView<T> c) {
      // Columns that an earlier block saw add up; the others are new.
      product(a.block(0, 0, a.rows, before), Op::Transpose, b, Op::None, 1, c.row_range(0, before));
      product(a.block(0, before, a.rows, columns - before), Op::Transpose, b, Op::None, 0,
              c.row_range(before, columns));
    };
    accumulate(p, g.row_range(begin, end), gradients.v);
    accumulate(dp, q.row_range(begin, end), gradients.k);
    product(dp, Op::None, k.row_range(0, columns), Op::None, 0, gradients.q.row_range(begin, end));
  }
}

template <Sees sees>
struct Attention : Function<Attention<sees>> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q_in,
                            const at::Tensor& k_in, const at::Tensor& v_in) {
    const auto q = with_contiguous_rows(q_in), k = with_contiguous_rows(k_in),
               v = with_contiguous_rows(v_in);
    const Index time = q.size(1), pairs = q.size(0) * q.size(2);
    const at::Tensor out = at::empty(q.sizes(), q.options());
    const at::Tensor log_sums = at::empty({pairs, time}, q.options());
    with_type(q, [&](auto zero) {
      using T = decltype(zero);
      at::parallel_for(0, pairs, 1, [&](Index begin, Index end) {
        std::vector<T> buffer(static_cast<size_t>(block_rows * time));
        for (Index i = begin; i < end; ++i) {
          attend<sees, T>(head_of<T>(q, i), head_of<T>(k, i), head_of<T>(v, i), head_of<T>(out, i),
                          log_sums.data_ptr<T>() + i * time, buffer.data());
        }
      });
    });
    context->save_for_backward({q, k, v, out, log_sums});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3];
    const at::Tensor g = with_contiguous_rows(gradients[0]), &log_sums = saved[4];
    const Index time = q.size(1), pairs = q.size(0) * q.size(2);
    const at::Tensor dq = at::empty(q.sizes(), q.options()), dk = at::empty_like(dq),
                     dv = at::empty_like(dq);
    with_type(q, [&](auto zero) {
      using T = decltype(zero);
      at::parallel_for(0, pairs, 1, [&](Index begin, Index end) {
        std::vector<T> buffer(static_cast<size_t>(2 * block_rows * time));
        for (Index i = begin; i < end; ++i) {
          attend_backward<sees, T>(
              head_of<T>(q, i), head_of<T>(k, i), head_of<T>(v, i), head_of<T>(out, i),
              head_of<T>(g, i), log_sums.data_ptr<T>() + i * time,
              {head_of<T>(dq, i), head_of<T>(dk, i), head_of<T>(dv, i)}, buffer.data());
        }
      });
    });
    return {dq, dk, dv};
  }
};

at::Tensor composed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              Sees sees) {
  const Index queries = q.size(1), keys = k.size(1);
  const auto scaled = q.transpose(1, 2) / std::sqrt(static_cast<double>(q.size(3)));
  auto scores = at::matmul(scaled, k.permute({0, 2, 3, 1}));
  if (sees == Sees::Past &&
      queries > 1) {  // a single query is the last position and sees everything
    const auto future =
        at::ones({queries, keys}, scores.options().dtype(at::kBool)).triu(keys - queries + 1);
    scores = scores.masked_fill(future, -std::numeric_limits<double>::infinity());
  }
  return at::matmul(scores.softmax(-1), v.transpose(1, 2)).transpose(1, 2);
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            bool composed) {
  TORCH_CHECK(
      q.dim() == 4 && k.sizes() == v.sizes() && k.dim() == 4 && q.size(0) == k.size(0) &&
          q.size(1) <= k.size(1) && q.sizes().slice(2) == k.sizes().slice(2),
      "[causal_attention] q, k and v must be (batch, time, heads, dim), with k and v of one shape ",
      "and not shorter than q; got ", q.sizes(), ", ", k.sizes(), " and ", v.sizes());
  const bool fused = fusible(q) && !composed && q.size(1) == k.size(1);
  return fused ? Attention<Sees::Past>::apply(q, k, v) : composed_attention(q, k, v, Sees::Past);
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool composed) {
  TORCH_CHECK(q.dim() == 4 && k.sizes() == q.sizes() && v.sizes() == q.sizes(),
              "[attention] q, k and v must be (batch, time, heads, dim), of one shape; got ",
              q.sizes(), ", ", k.sizes(), " and ", v.sizes());
  return fusible(q) && !composed ? Attention<Sees::All>::apply(q, k, v)
                                 : composed_attention(q, k, v, Sees::All);
}

}  // namespace normball::trainer::ops
