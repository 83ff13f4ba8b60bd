// The memory that `normball bench` shows is that of the row, whatever was measured before it.
#include "benchmarks/measure.h"
#include "testing.h"

namespace normball::benchmarks {
namespace {

ParameterSet layers() {
  ParameterSet set{"test", "", {}};
  for (int i = 0; i < 4; ++i) {
    set.layers.push_back({.name = "spectral" + std::to_string(i),
                          .shape = {.rows = 256, .cols = 1024},
                          .norm = Spectral{}});
  }
  set.layers.push_back(
      {.name = "sign", .shape = {.rows = 8192, .cols = 512}, .norm = Sign{}});  // 16 MiB
  return set;
}

double extra_bytes(const PolarSolver& solver) {
  StepTask task(layers(), solver, 1);
  task.run();
  return task.extra_bytes();
}

TEST(BenchMemory, IsThatOfTheRow) {
  extra_bytes(ExactPolar{});  // threads and tables of BLAS, which come once
  const double momenta = (4 * 256 * 1024 + 8192 * 512) * sizeof(float);
  std::vector<double> rows;
  for (int i = 0; i < 4; ++i) rows.push_back(extra_bytes(ExactPolar{}));
  for (const double row : rows) {
    EXPECT_GE(row, momenta);
    EXPECT_NEAR(row / rows[0], 1, 0.05) << rows[0] << ' ' << row;
  }
  EXPECT_GE(extra_bytes(newton_schulz("muon")), momenta);
}

}  // namespace
}  // namespace normball::benchmarks
