// Averages of the iterates, which wrap any method: what is evaluated and kept is the average.
//
//   Ema           x̄ ← a x̄ + (1−a) x,  a = min(decay, k/(k+1))     evaluated x̄, steps as without it
//   Tail          x̄ = the mean of the last `share` of all steps    evaluated x̄, steps as without it
//   ScheduleFree  y = (1−β) z + β x̄,  z ← step of z by ∇f(y),  x̄ ← x̄ + (z − x̄)/(k+1)
//   Soda          x ← x' + (x⁰ − x')/(k+2),  x' = step of x        evaluated x
//   Uniform       x̄ = one of x⁰ ... xᵏ at random, each as likely   evaluated x̄, steps as without it
//
// k counts from 0. Ema is the plain mean until that is the slower one, so that it forgets x⁰.
// Uniform is no average but what the theorems speak of, the output of Algorithms 1-4: of the points
// where gradients were taken, that which an IterateSampler of this seed keeps.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "normball/matrix_view.h"

namespace normball {

struct NoAverage {
  friend bool operator==(const NoAverage&, const NoAverage&) = default;
};
struct Ema {
  double decay = 0.9999;  // in [0, 1)
  friend bool operator==(const Ema&, const Ema&) = default;
};
struct Tail {
  double share = 0.25;  // in (0, 1]
  friend bool operator==(const Tail&, const Tail&) = default;
};
struct ScheduleFree {
  double beta = 0.9;  // in [0, 1)
  friend bool operator==(const ScheduleFree&, const ScheduleFree&) = default;
};
struct Soda {
  friend bool operator==(const Soda&, const Soda&) = default;
};

struct Uniform {
  std::uint64_t seed = 0;  // below 2^53
  friend bool operator==(const Uniform&, const Uniform&) = default;
};

using Average = std::variant<NoAverage, Ema, Tail, ScheduleFree, Soda, Uniform>;

// "none", "ema(decay=0.9999)" or "ema(0.9999)", "tail(share=0.25)", "schedule_free(beta=0.9)", also
// with a hyphen, "soda", "uniform(seed=0)".
Average parse_average(std::string_view text);
std::string to_string(const Average& average);
std::ostream& operator<<(std::ostream& out, const Average& average);
void validate(const Average& average);

// An average beside the weights of a model, which stay where they are. Around every step:
//
//   averaged.begin_step(weights)    the gradient is there; the weights become what is stepped
//   optimizer.step(...)             or averaged.cancel_step(weights), where there was none
//   averaged.end_step(weights)      the weights become where the next gradient is taken
//
// and exchange(weights) puts the evaluated weights in their place, and back again.
template <class T>
class Averaged {
 public:
  // One size for each layer. `steps` is the length of the run, which Tail needs (0: not known).
  Averaged(Average average, std::vector<Index> sizes, std::int64_t steps = 0);

  void begin_step(std::span<const MatrixView<T>> weights);
  void cancel_step(std::span<const MatrixView<T>> weights);
  // Throws for weights that are not finite; weights and average are then as before.
  void end_step(std::span<const MatrixView<T>> weights);

  // Whether the evaluated weights are others than those of the steps (yet).
  bool differs() const;
  // Swaps the two, bit by bit; nothing where they do not differ. No step in between.
  void exchange(std::span<const MatrixView<T>> weights);
  bool exchanged() const { return exchanged_; }

  // One flat buffer for each layer and kind, and the count: all that a resumed run needs beside the
  // weights. Not while exchanged, unless both are saved and loaded so.
  struct Buffer {
    std::string name;  // "average.3", "iterate.3" or "start.3"
    std::span<T> values;
  };
  std::vector<Buffer> state();
  std::int64_t steps_taken() const { return step_; }
  // For a caller that put the state back in place itself.
  void set_steps_taken(std::int64_t steps, bool exchanged = false);

  const Average& average() const { return average_; }

 private:
  enum class Phase { Idle, Stepping };
  void require(std::string_view where, std::span<const MatrixView<T>> weights, Phase phase) const;
  void start(std::span<const MatrixView<T>> weights);
  std::int64_t first_of_tail() const;

  Average average_;
  std::vector<Index> sizes_;
  std::int64_t steps_ = 0, step_ = 0;
  Phase phase_ = Phase::Idle;
  bool exchanged_ = false;
  std::vector<std::vector<T>> first_, second_;  // x̄ or x⁰; z
  std::vector<std::vector<T>> drawn_;           // takes the place of x̄ if the step is taken
};

}  // namespace normball
