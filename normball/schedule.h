// A value that changes over the steps k = 0, 1, ...: for lr, alpha and rho.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <variant>

namespace normball {

struct Constant {
  friend bool operator==(const Constant&, const Constant&) = default;
};

// 1 - k/n
struct LinearDecay {
  std::int64_t steps = 1;  // n
  friend bool operator==(const LinearDecay&, const LinearDecay&) = default;
};

// 1 for k < n - m, then (n - k)/m
struct Warmdown {
  std::int64_t steps = 1;  // n
  std::int64_t down = 1;   // m
  friend bool operator==(const Warmdown&, const Warmdown&) = default;
};

// From the schedule's value to `end` along half a cosine.
struct Cosine {
  std::int64_t steps = 1;
  double end = 0;
  friend bool operator==(const Cosine&, const Cosine&) = default;
};

// (k + 1)^-p, which does not depend on how long the run is. The any-time form of the paper's
// choices for n steps: p = 1/2 for alpha and gamma, 1/4 for rho, and so 3/4 for lr = gamma rho.
struct Power {
  double exponent = 0.5;  // p, not negative
  friend bool operator==(const Power&, const Power&) = default;
};

using Decay = std::variant<Constant, LinearDecay, Warmdown, Cosine, Power>;

// A linear warm-up (k+1)/warmup to `value`, then the decay over the remaining steps. `steps` of the
// decay includes the warm-up; afterwards the last value is kept.
struct Schedule {
  double value = 0;
  Decay decay = Constant{};
  std::int64_t warmup = 0;

  Schedule(double value_ = 0) : value(value_) {}  // NOLINT: a number is a constant schedule
  Schedule(double value_, Decay decay_, std::int64_t warmup_ = 0)
      : value(value_), decay(decay_), warmup(warmup_) {}

  friend bool operator==(const Schedule&, const Schedule&) = default;

  double at(std::int64_t step) const;
  double max() const;
};

// Throws unless the lengths fit together and value (and the end) are finite.
void validate(const Schedule& schedule);

// "0.1", "constant(0.1)", "linear(0.1, steps=100)", "warmdown(0.1, steps=5100, down=1450)",
// "cosine(0.1, steps=100, end=1e-7)", "power(0.1, exponent=0.75)", each with warmup=<steps>.
Schedule parse_schedule(std::string_view text);
std::string to_string(const Schedule& schedule);
std::ostream& operator<<(std::ostream& out, const Schedule& schedule);

}  // namespace normball
