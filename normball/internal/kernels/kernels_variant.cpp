// Compiled once for each instruction set: variants.h says what that forbids here.
#include "normball/internal/kernels/kernels_variant.h"

#include "normball/internal/kernels/gram_variant.h"
#include "normball/internal/kernels/products_variant.h"
#include "normball/internal/kernels/variants.h"

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
  // 0 * x is NaN exactly where x is not finite, and a sum keeps it.
  constexpr Index width = 64 / sizeof(T) * 4;
  T sums[width] = {};
  Index i = 0;
  for (; i + width <= n; i += width) {
    for (Index j = 0; j < width; ++j) sums[j] += x[i + j] * T(0);
  }
  for (; i < n; ++i) sums[0] += x[i] * T(0);
  T sum = 0;
  for (const T s : sums) sum += s;
  return sum == 0;
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
void blend(T* out, const T* d, const T* __restrict g, double alpha, Index n) {
  const double rest = 1 - alpha;
  if (rest == 0) {
    for (Index i = 0; i < n; ++i) out[i] = g[i];
    return;
  }
#pragma GCC ivdep  // out is d or apart from it: no entry depends on another
  for (Index i = 0; i < n; ++i) {
    out[i] = static_cast<T>(alpha * static_cast<double>(g[i]) + rest * static_cast<double>(d[i]));
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

// Twisted factorizations (Dhillon 1997).
template <class T>
void twisted_vectors(const double* d, const double* e, const double* __restrict values,
                     double* __restrict work, double* __restrict vectors, double* __restrict pivots,
                     double* __restrict squares, Index n) {
  constexpr Index columns = twisted_lanes;
  constexpr double tiny = 1e-30;
  const Index size = n * columns;
  double* __restrict down = work;
  double* __restrict up = work + size;
  double* __restrict down_ratio = work + 2 * size;  // off-diagonal entries over pivots
  double* __restrict up_ratio = work + 3 * size;
  const auto nonzero = [](double x) { return x < tiny && x > -tiny ? -tiny : x; };
  for (Index l = 0; l < columns; ++l) {
    down[l] = nonzero(d[0] - values[l]);
    up[size - columns + l] = nonzero(d[n - 1] - values[l]);
    down_ratio[size - columns + l] = 0;
    up_ratio[l] = 0;
  }
  for (Index i = 1; i < n; ++i) {
    const Index j = n - 1 - i, from = (i - 1) * columns, below = (j + 1) * columns;
    for (Index l = 0; l < columns; ++l) {
      const double r = e[i - 1] / down[from + l], s = e[j] / up[below + l];
      down_ratio[from + l] = r;
      up_ratio[below + l] = s;
      down[from + columns + l] = nonzero(d[i] - values[l] - e[i - 1] * r);
      up[below - columns + l] = nonzero(d[j] - values[l] - e[j] * s);
    }
  }
  double at[columns], z[columns];
  for (Index l = 0; l < columns; ++l) {
    pivots[l] = 1e150;
    at[l] = z[l] = squares[l] = 0;
  }
  for (Index i = 0; i < n; ++i) {
    const double index = static_cast<double>(i);
    for (Index l = 0; l < columns; ++l) {
      const double twist = down[i * columns + l] + up[i * columns + l] - (d[i] - values[l]);
      const bool less = twist * twist < pivots[l] * pivots[l];
      pivots[l] = less ? twist : pivots[l];
      at[l] = less ? index : at[l];
    }
  }
  for (Index i = n - 1; i >= 0; --i) {
    const double index = static_cast<double>(i);
    for (Index l = 0; l < columns; ++l) {
      z[l] = at[l] == index ? 1.0 : -down_ratio[i * columns + l] * z[l];
      vectors[i * columns + l] = z[l];
      squares[l] += z[l] * z[l];
    }
  }
  for (Index l = 0; l < columns; ++l) z[l] = 0;
  for (Index i = 0; i < n; ++i) {
    const double index = static_cast<double>(i);
    for (Index l = 0; l < columns; ++l) {
      z[l] = at[l] == index ? 1.0 : -up_ratio[i * columns + l] * z[l];
      const double add = at[l] < index ? z[l] : 0.0;
      vectors[i * columns + l] += add;
      squares[l] += add * add;
    }
  }
}

template <class T>
void to_double(double* __restrict out, const T* __restrict x, Index n) {
  for (Index i = 0; i < n; ++i) out[i] = static_cast<double>(x[i]);
}

template <class T>
void from_double(T* __restrict out, const double* __restrict x, Index n) {
  for (Index i = 0; i < n; ++i) out[i] = static_cast<T>(x[i]);
}

template <class T>
constexpr decltype(Kernels<T>::gram) gram = nullptr;
template <>
constexpr decltype(Kernels<float>::gram) gram<float> = gram_of_floats;

template <class T>
constexpr Kernels<T> table = {all_finite<T>,
                              sum_abs<T>,
                              sum_squares<T>,
                              max_abs<T>,
                              dot<T>,
                              scale<T>,
                              blend<T>,
                              add_scaled<T>,
                              add_signs<T>,
                              add_squares<T>,
                              add_by_column<T>,
                              scale_and_add<T>,
                              add_symmetric_rows<T>,
                              subtract_rows<T>,
                              subtract_wide_rows<T>,
                              row_products<T>,
                              subtract_rank_2<T>,
                              sturm_counts<T>,
                              twisted_vectors<T>,
                              to_double<T>,
                              from_double<T>,
                              gram<T>};

}  // namespace

const Kernels<float>& NORMBALL_VARIANT_NAME(kernels, float)() { return table<float>; }
const Kernels<double>& NORMBALL_VARIANT_NAME(kernels, double)() { return table<double>; }

}  // namespace normball::detail
