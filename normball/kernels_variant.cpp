// Compiled once for each instruction set (see CMakeLists.txt), with NORMBALL_VARIANT naming it.
// Nothing here may include or instantiate anything shared with code for other instruction sets: the
// linker keeps one copy of an inline function, and it could be the one this processor cannot run.
#include "normball/kernels_variant.h"

#define NORMBALL_JOIN_(a, b) a##b
#define NORMBALL_JOIN(a, b) NORMBALL_JOIN_(a, b)
#define NORMBALL_KERNELS(T) NORMBALL_JOIN(NORMBALL_JOIN(kernels_, NORMBALL_VARIANT), _##T)

namespace normball::detail {
namespace {

// Independent partial sums: wide enough for the processor's vectors, the same on every one of them.
constexpr Index lanes = 32;

struct Lanes {
  double sum[lanes] = {};
  double total() const {
    double partial[lanes];
    for (Index j = 0; j < lanes; ++j) partial[j] = sum[j];
    for (Index width = lanes / 2; width > 0; width /= 2) {
      for (Index j = 0; j < width; ++j) partial[j] += partial[j + width];
    }
    return partial[0];
  }
};

template <class T>
double magnitude(T x) {
  const double y = static_cast<double>(x);
  return y < 0 ? -y : y;
}

template <class T>
double sign(T x) {
  return static_cast<double>(T(0) < x) - static_cast<double>(x < T(0));
}

// sum of term(i) over [0, n)
template <class Term>
double reduce(Index n, Term term) {
  Lanes acc;
  Index i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (Index j = 0; j < lanes; ++j) acc.sum[j] += term(i + j);
  }
  for (Index j = 0; i + j < n; ++j) acc.sum[j] += term(i + j);
  return acc.total();
}

template <class T>
bool all_finite(const T* x, Index n) {
  // 0 * x is NaN exactly where x is not finite.
  return reduce(n, [x](Index i) { return static_cast<double>(x[i] * T(0)); }) == 0;
}

template <class T>
double sum_abs(const T* x, Index n) {
  return reduce(n, [x](Index i) { return magnitude(x[i]); });
}

template <class T>
double sum_squares(const T* x, double scale, Index n) {
  return reduce(n, [=](Index i) {
    const double y = scale * static_cast<double>(x[i]);
    return y * y;
  });
}

template <class T>
double dot(const T* x, const T* y, Index n) {
  return reduce(n, [=](Index i) { return static_cast<double>(x[i]) * static_cast<double>(y[i]); });
}

template <class T>
double max_abs(const T* x, Index n) {
  Lanes acc;
  for (Index i = 0; i < n; i += lanes) {
    const Index m = n - i < lanes ? n - i : lanes;
    for (Index j = 0; j < m; ++j) {
      const double y = magnitude(x[i + j]);
      acc.sum[j] = y > acc.sum[j] ? y : acc.sum[j];
    }
  }
  double max = 0;
  for (const double y : acc.sum) max = y > max ? y : max;
  return max;
}

template <class T>
void scale(T* x, double factor, Index n) {
  for (Index i = 0; i < n; ++i) x[i] = static_cast<T>(static_cast<double>(x[i]) * factor);
}

template <class T>
void blend(T* __restrict d, const T* __restrict g, double alpha, Index n) {
  const double rest = 1 - alpha;
  if (rest == 0) {
    for (Index i = 0; i < n; ++i) d[i] = g[i];
    return;
  }
  for (Index i = 0; i < n; ++i) {
    d[i] = static_cast<T>(alpha * static_cast<double>(g[i]) + rest * static_cast<double>(d[i]));
  }
}

// out <- keep out + term(i), not reading out where keep is 0
template <class T, class Term>
void update(T* __restrict out, double keep, Index n, Term term) {
  if (keep == 0) {
    for (Index i = 0; i < n; ++i) out[i] = static_cast<T>(term(i));
  } else {
    for (Index i = 0; i < n; ++i) {
      out[i] = static_cast<T>(keep * static_cast<double>(out[i]) + term(i));
    }
  }
}

template <class T>
void add_scaled(T* out, double keep, const T* __restrict u, double a, double b, Index n) {
  update(out, keep, n, [=](Index i) { return static_cast<double>(u[i]) * a * b; });
}

template <class T>
void add_signs(T* out, double keep, const T* __restrict d, double factor, Index n) {
  update(out, keep, n, [=](Index i) { return factor * sign(d[i]); });
}

template <class T>
void add_squares(double* __restrict sums, const T* __restrict x, double scale, Index n) {
  for (Index i = 0; i < n; ++i) {
    const double y = scale * static_cast<double>(x[i]);
    sums[i] += y * y;
  }
}

template <class T>
void add_by_column(T* out, double keep, const T* __restrict u, const double* __restrict a,
                   const double* __restrict b, Index n) {
  update(out, keep, n, [=](Index i) { return static_cast<double>(u[i]) * a[i] * b[i]; });
}

template <class T>
void scale_and_add(T* __restrict g, T r, T* __restrict out, Index n) {
  for (Index i = 0; i < n; ++i) {
    g[i] *= r;
    out[i] += g[i];
  }
}

// 64 bytes at any address. The compiler cuts it into what the instruction set has, so the order of
// summation is the same in every variant.
template <class T>
struct Wide;
template <>
struct Wide<float> {
  typedef float type __attribute__((vector_size(64), aligned(4), may_alias));
};
template <>
struct Wide<double> {
  typedef double type __attribute__((vector_size(64), aligned(8), may_alias));
};

template <class T>
void add_symmetric_row(T* __restrict y, const T* __restrict a, const T* __restrict x, Index begin,
                       Index n) {
  using V = typename Wide<T>::type;
  constexpr Index width = 64 / sizeof(T);
  const T x0 = x[begin];
  T sum = a[begin] * x0;
  V s = {};
  Index i = begin + 1;
  for (; i + width <= n; i += width) {
    const V row = *reinterpret_cast<const V*>(a + i);
    *reinterpret_cast<V*>(y + i) += row * x0;
    s += row * *reinterpret_cast<const V*>(x + i);
  }
  for (; i < n; ++i) {
    y[i] += a[i] * x0;
    sum += a[i] * x[i];
  }
  for (Index l = 0; l < width; ++l) sum += s[l];
  y[begin] += sum;
}

// Four rows at a time: y is read and written once for them.
template <class T>
void add_symmetric_rows(T* __restrict y, const T* __restrict a, Index stride, const T* __restrict x,
                        Index begin, Index end, Index n) {
  using V = typename Wide<T>::type;
  constexpr Index width = 64 / sizeof(T);
  Index j = begin;
  for (; j + 4 <= end; j += 4) {
    const T *a0 = a + j * stride, *a1 = a0 + stride, *a2 = a1 + stride, *a3 = a2 + stride;
    const T x0 = x[j], x1 = x[j + 1], x2 = x[j + 2], x3 = x[j + 3];
    T t0 = a0[j] * x0 + a0[j + 1] * x1 + a0[j + 2] * x2 + a0[j + 3] * x3;
    T t1 = a0[j + 1] * x0 + a1[j + 1] * x1 + a1[j + 2] * x2 + a1[j + 3] * x3;
    T t2 = a0[j + 2] * x0 + a1[j + 2] * x1 + a2[j + 2] * x2 + a2[j + 3] * x3;
    T t3 = a0[j + 3] * x0 + a1[j + 3] * x1 + a2[j + 3] * x2 + a3[j + 3] * x3;
    V s0 = {}, s1 = {}, s2 = {}, s3 = {};
    Index i = j + 4;
    for (; i + width <= n; i += width) {
      const V xi = *reinterpret_cast<const V*>(x + i);
      const V r0 = *reinterpret_cast<const V*>(a0 + i), r1 = *reinterpret_cast<const V*>(a1 + i);
      const V r2 = *reinterpret_cast<const V*>(a2 + i), r3 = *reinterpret_cast<const V*>(a3 + i);
      *reinterpret_cast<V*>(y + i) += r0 * x0 + r1 * x1 + r2 * x2 + r3 * x3;
      s0 += r0 * xi;
      s1 += r1 * xi;
      s2 += r2 * xi;
      s3 += r3 * xi;
    }
    for (; i < n; ++i) {
      y[i] += a0[i] * x0 + a1[i] * x1 + a2[i] * x2 + a3[i] * x3;
      t0 += a0[i] * x[i];
      t1 += a1[i] * x[i];
      t2 += a2[i] * x[i];
      t3 += a3[i] * x[i];
    }
    for (Index l = 0; l < width; ++l) {
      t0 += s0[l];
      t1 += s1[l];
      t2 += s2[l];
      t3 += s3[l];
    }
    y[j] += t0;
    y[j + 1] += t1;
    y[j + 2] += t2;
    y[j + 3] += t3;
  }
  for (; j < end; ++j) add_symmetric_row(y, a + j * stride, x, j, n);
}

template <class T>
void subtract_rank_2(T* a, Index stride, const T* __restrict v, const T* __restrict w, Index n) {
  for (Index i = 0; i < n; ++i) {
    T* __restrict row = a + i * stride;
    const T vi = v[i], wi = w[i];
    for (Index j = i; j < n; ++j) row[j] -= vi * w[j] + wi * v[j];
  }
}

// The pivots of L D Lᵀ - shift: as many are negative as eigenvalues lie below the shift.
template <class T>
void sturm_counts(const T* d, const T* e, double scale, const double* __restrict shifts,
                  Index* __restrict counts, Index n) {
  constexpr double tiny = 1e-30;
  double pivot[sturm_shifts], below[sturm_shifts];
  for (Index k = 0; k < sturm_shifts; ++k) {
    pivot[k] = 1;
    below[k] = 0;
  }
  for (Index i = 0; i < n; ++i) {
    const double di = static_cast<double>(d[i]) / scale;
    const double off = i > 0 ? static_cast<double>(e[i - 1]) / scale : 0, square = off * off;
    for (Index k = 0; k < sturm_shifts; ++k) {
      double next = di - shifts[k] - square / pivot[k];
      next = next < tiny && next > -tiny ? -tiny : next;
      below[k] += next < 0 ? 1.0 : 0.0;
      pivot[k] = next;
    }
  }
  for (Index k = 0; k < sturm_shifts; ++k) counts[k] = static_cast<Index>(below[k]);
}

template <class T>
constexpr Kernels<T> table = {
    all_finite<T>,    sum_abs<T>,       sum_squares<T>,        max_abs<T>,         dot<T>,
    scale<T>,         blend<T>,         add_scaled<T>,         add_signs<T>,       add_squares<T>,
    add_by_column<T>, scale_and_add<T>, add_symmetric_rows<T>, subtract_rank_2<T>, sturm_counts<T>};

}  // namespace

const Kernels<float>& NORMBALL_KERNELS(float)() { return table<float>; }
const Kernels<double>& NORMBALL_KERNELS(double)() { return table<double>; }

}  // namespace normball::detail
