// Runs a target without libFuzzer: its samples cut at every offset, then mutated ones. Each input
// is read or refused within 10 seconds and with memory within its size plus 64 MiB.
//   damage_idx [MUTATIONS]           the default is enough for a test suite
//   damage_idx --samples DIRECTORY   writes the samples, where libFuzzer can start from
//   damage_idx --replay FILE...      reads files, e.g. what libFuzzer found
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "fuzz/allocations.h"
#include "fuzz/mutate.h"
#include "fuzz/reader.h"

namespace normball::fuzz {
namespace {

constexpr std::size_t allowance = std::size_t{64} << 20;
constexpr unsigned seconds_allowed = 10;
constexpr std::uint64_t seed = 20240520;

struct Tally {
  int inputs = 0, refused = 0;
  std::size_t memory = 0;
  double slowest = 0;  // seconds

  void add(std::string_view file) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    ::alarm(seconds_allowed);  // a hang ends the process
    watch_allocations();
    const bool read = reads(file);
    const std::size_t peak = peak_allocation();
    ::alarm(0);
    slowest = std::max(slowest, std::chrono::duration<double>(Clock::now() - start).count());
    require(peak <= file.size() + allowance, "memory within the file's size plus 64 MiB");
    memory = std::max(memory, peak);
    ++inputs;
    if (!read) ++refused;
  }
};

int damage(int mutations) {
  const auto samples = reader.samples();
  Tally cut, changed;
  for (const auto& sample : samples) {
    require(reads(sample), "the samples are valid");
    for (std::size_t size = 0; size < sample.size(); ++size) {
      cut.add(std::string_view(sample).substr(0, size));
    }
  }
  Random random(seed);
  for (int i = 0; i < mutations; ++i) {
    const auto& sample = samples[random.below(samples.size())];
    changed.add(mutated(sample, samples[random.below(samples.size())], random));
  }
  std::printf(
      "%s: %d cut (%d refused), %d mutated (%d refused, seed %llu), at most %.1f MiB, %.0f ms\n",
      reader.name, cut.inputs, cut.refused, changed.inputs, changed.refused,
      static_cast<unsigned long long>(seed),
      static_cast<double>(std::max(cut.memory, changed.memory)) / (1 << 20),
      1e3 * std::max(cut.slowest, changed.slowest));
  require(changed.refused >= reader.refused * changed.inputs, "enough damage is noticed");
  return 0;
}

int write_samples(const std::string& directory) {
  int number = 0;
  for (const auto& sample : reader.samples()) {
    const std::string path = directory + "/sample-" + std::to_string(number++);
    if (!(std::ofstream(path, std::ios::binary) << sample).flush()) {
      std::fprintf(stderr, "cannot write %s\n", path.c_str());
      return 1;
    }
  }
  return 0;
}

int replay(int count, char** paths) {
  Tally tally;
  for (int i = 0; i < count; ++i) {
    std::ifstream file(paths[i], std::ios::binary);
    tally.add(std::string{std::istreambuf_iterator<char>(file), {}});
  }
  std::printf("%s: %d files, %d refused\n", reader.name, tally.inputs, tally.refused);
  return 0;
}

}  // namespace
}  // namespace normball::fuzz

int main(int count, char** arguments) {
  using namespace normball::fuzz;
  if (count > 2 && std::strcmp(arguments[1], "--samples") == 0) return write_samples(arguments[2]);
  if (count > 2 && std::strcmp(arguments[1], "--replay") == 0) {
    return replay(count - 2, arguments + 2);
  }
  return damage(count > 1 ? std::atoi(arguments[1]) : 3000);
}
