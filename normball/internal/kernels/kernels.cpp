#include "normball/internal/kernels/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "normball/base/error.h"

namespace normball {
namespace {

struct Candidate {
  Variant variant;
  const char* name;
};

// The variants this processor can run, the fastest first.
std::vector<Candidate> possible_variants() {
  std::vector<Candidate> possible;
#ifdef NORMBALL_X86_VARIANTS
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) {
    possible.push_back({Variant::Avx512, "avx512"});
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    possible.push_back({Variant::Avx2, "avx2"});
  }
#endif
  possible.push_back({Variant::Generic, "generic"});
  return possible;
}

// The environment variable NORMBALL_KERNELS makes a processor pretend to be a lesser one.
Candidate choose() {
  const auto possible = possible_variants();
  const char* wanted = std::getenv("NORMBALL_KERNELS");
  if (wanted == nullptr || *wanted == '\0') return possible.front();
  std::string allowed;
  for (const auto& candidate : possible) {
    if (candidate.name == std::string_view(wanted)) return candidate;
    allowed += (allowed.empty() ? "" : ", ") + std::string(candidate.name);
  }
  throw_invalid("kernels", "NORMBALL_KERNELS is '", wanted, "'; this processor can run ", allowed);
}

const Candidate& chosen() {
  static const Candidate candidate = choose();
  return candidate;
}

// Squares of doubles below this lose digits to underflow; their reciprocals overflow.
constexpr double safe_min = 1e-140;
constexpr double safe_max = 1e140;

}  // namespace

Variant chosen_variant() { return chosen().variant; }

const char* kernel_variant() { return chosen().name; }

template <>
const Kernels<float>& kernels<float>() {
  using namespace detail;
  static const Kernels<float>& table = NORMBALL_CHOOSE(kernels, float);
  return table;
}
template <>
const Kernels<double>& kernels<double>() {
  using namespace detail;
  static const Kernels<double>& table = NORMBALL_CHOOSE(kernels, double);
  return table;
}

template <class T>
double l2_norm(const T* x, Index n) {
  const double sum = kernels<T>().sum_squares(x, 1, n);
  if (std::is_same_v<T, float> || (sum > safe_min * safe_min && sum < safe_max * safe_max)) {
    return std::sqrt(sum);
  }
  if (std::isnan(sum)) return sum;
  const double max = kernels<T>().max_abs(x, n);
  if (max == 0) return 0;
  const double scale = std::ldexp(1, -std::clamp(std::ilogb(max), -1000, 1000));
  return std::sqrt(kernels<T>().sum_squares(x, scale, n)) / scale;
}

double combine_l2(double a, double b) {
  const double sum = a * a + b * b;
  if (sum > safe_min * safe_min && sum < safe_max * safe_max) return std::sqrt(sum);
  return std::hypot(a, b);
}

template <class T>
double l2_norm(ConstMatrixView<T> x) {
  double norm = 0;
  for_each_run(x, [&](Index at, Index n) { norm = combine_l2(norm, l2_norm(x.data + at, n)); });
  return norm;
}

template <class T>
void copy(ConstMatrixView<T> from, MatrixView<T> to) {
  for_each_run(from, to, [](const T* a, T* b, Index n) { std::copy_n(a, n, b); });
}

template <class T>
void fill(MatrixView<T> x, T value) {
  for_each_run(x, [&](Index at, Index n) { std::fill_n(x.data + at, n, value); });
}

Reciprocal reciprocal(double length) {
  if (length == 0) return {};
  const double a = std::ldexp(1, -std::clamp(std::ilogb(length), -1000, 1000));
  return {a, 1 / (length * a)};
}

#define NORMBALL_INSTANTIATE(T)                          \
  template double l2_norm(const T*, Index);              \
  template double l2_norm(ConstMatrixView<T>);           \
  template void copy(ConstMatrixView<T>, MatrixView<T>); \
  template void fill(MatrixView<T>, T);
NORMBALL_INSTANTIATE(float)
NORMBALL_INSTANTIATE(double)
#undef NORMBALL_INSTANTIATE

}  // namespace normball
