#include "doctor/rate.h"

#include <algorithm>
#include <ctime>
#include <vector>

#include "normball/base/parallel.h"
#include "normball/internal/kernels/blas.h"
#include "normball/random.h"

namespace normball::doctor {
namespace {

// Of the whole process: a BLAS that keeps threads of its own cannot hide their work.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

double product_rate() {
  constexpr Index n = 768;
  constexpr int rounds = 8;
  Random random(1);
  std::vector<float> a(n * n), b(n * n), c(n * n);
  for (auto* x : {&a, &b}) {
    for (float& value : *x) value = static_cast<float>(random.normal());
  }
  const SingleThreadedBlas guard;
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
    const double start = processor_seconds();
    blas::gemm<float>(1, {a.data(), n, n}, blas::Op::None, {b.data(), n, n}, blas::Op::None, 0,
                      {c.data(), n, n});
    best = std::max(best, 2.0 * n * n * n / std::max(1e-9, processor_seconds() - start));
  }
  return best;
}

}  // namespace normball::doctor
