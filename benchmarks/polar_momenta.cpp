// The time of the exact polar factor on matrices from files, as a multiple of that on Gaussian ones
// of the same shape, in CPU time of one thread:
//   polar_momenta [--rounds N] [--solver S] MODEL-LAYER-STEP-ROWSxCOLS.f32...
// Every file is as dump_momenta.py writes them. The two are timed in turn, and the best of the
// rounds counts.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/measure.h"
#include "normball/polar.h"
#include "normball/random.h"

namespace {

using namespace normball;

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Task {
  Index rows, cols;
  std::vector<float> x, q;
  Workspace workspace;
  double best = 1e300;

  Task(Index height, Index width)
      : rows(height), cols(width), x(static_cast<size_t>(height * width)), q(x.size()) {}

  void run(const PolarSolver& solver) {
    polar<float>(solver, ConstMatrixView<float>(x.data(), rows, cols),
                 MatrixView<float>(q.data(), rows, cols), workspace);
  }
  void time(const PolarSolver& solver) {
    constexpr double least = 2e-3;  // short work is repeated
    int repeats = 0;
    const double start = cpu_seconds();
    double used = 0;
    do {
      run(solver);
      ++repeats;
      used = cpu_seconds() - start;
    } while (used < least);
    best = std::min(best, used / repeats);
  }
};

void measure(const std::string& file, const PolarSolver& solver, int rounds) {
  const std::string name = std::filesystem::path(file).stem().string();
  const auto [rows, cols] = benchmarks::parse_shape(name.substr(name.rfind('-') + 1));
  Task task(rows, cols), gaussian(rows, cols);
  std::ifstream stream(file, std::ios::binary);
  const auto bytes = static_cast<std::streamsize>(task.x.size() * sizeof(float));
  if (!stream.read(reinterpret_cast<char*>(task.x.data()), bytes)) {
    throw std::runtime_error(file + " does not have the entries that its name promises");
  }
  Random random(1);
  for (float& value : gaussian.x) value = static_cast<float>(random.normal());
  task.run(solver);
  gaussian.run(solver);
  for (int round = 0; round < rounds; ++round) {
    gaussian.time(solver);
    task.time(solver);
  }
  std::printf("%-40s %8.3f ms %8.3f ms  %5.2f\n", name.c_str(), 1e3 * task.best,
              1e3 * gaussian.best, task.best / gaussian.best);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) try {
  int rounds = 15, first = 1;
  PolarSolver solver = ExactPolar{};
  for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
    const std::string_view option = argv[first];
    if (option == "--rounds") {
      rounds = std::atoi(argv[first + 1]);
    } else if (option == "--solver") {
      solver = parse_polar_solver(argv[first + 1]);
    } else {
      throw std::runtime_error("no option " + std::string(option) +
                               "; there are --rounds and --solver");
    }
  }
  std::printf("%-40s %11s %11s  %5s\n", "matrix", "its time", "Gaussian's", "ratio");
  for (int i = first; i < argc; ++i) measure(argv[i], solver, rounds);
} catch (const std::exception& error) {
  std::fprintf(stderr, "polar_momenta: %s\n", error.what());
  return 1;
}
