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
constexpr Kernels<T> table = {all_finite<T>, sum_abs<T>,     sum_squares<T>,  max_abs<T>,
                              dot<T>,        scale<T>,       blend<T>,        add_scaled<T>,
                              add_signs<T>,  add_squares<T>, add_by_column<T>};

}  // namespace

const Kernels<float>& NORMBALL_KERNELS(float)() { return table<float>; }
const Kernels<double>& NORMBALL_KERNELS(double)() { return table<double>; }

}  // namespace normball::detail
