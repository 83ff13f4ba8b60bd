// A small random-number generator whose sequence is the same on every platform and standard
// library.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace normball {

// SplitMix64 (Steele, Lea and Flood 2014): the state is a single counter, which can be saved and
// restored.
class Random {
 public:
  explicit Random(std::uint64_t seed = 0) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += increment);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  // Uniform in {0, ..., n-1}. The bias is below n / 2^64.
  std::uint64_t below(std::uint64_t n) {
    return static_cast<std::uint64_t>((static_cast<__uint128_t>(next()) * n) >> 64);
  }

  // Standard normal, by Box and Muller.
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

  // As after this many calls of next().
  void skip(std::uint64_t calls) { state_ += calls * increment; }

  std::uint64_t state() const { return state_; }

 private:
  static constexpr std::uint64_t increment = 0x9e3779b97f4a7c15u;

  std::uint64_t state_;
};

}  // namespace normball
