#include "normball/average.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>
#include <stdexcept>

#include "normball/base/error.h"
#include "normball/base/text.h"
#include "normball/internal/kernels/kernels.h"
#include "normball/iterate_sampler.h"
#include "normball/step.h"

namespace normball {
namespace {

// Of schedule-free, which is accepted as well, only the spelling of the other names.
constexpr std::array<std::string_view, 6> names = {"none",          "ema",  "tail",
                                                   "schedule_free", "soda", "uniform"};
constexpr double seeds = 0x1p53;  // whole numbers below it are exact in a double

// "ema(0.9)" is short for "ema(decay=0.9)".
double take_only(TextCall& call, std::string_view key, double otherwise) {
  for (auto& argument : call.arguments) {
    if (argument.key.empty()) argument.key = key;
  }
  return call.take_number(key, otherwise);
}

template <class T, class Body>
void for_each_row(MatrixView<T> weight, std::span<T> flat, const Body& body) {
  for (Index i = 0; i < weight.rows; ++i) {
    body(weight.row(i), flat.data() + i * weight.cols, weight.cols);
  }
}

// to <- to + share (from − to), each in its own precision's rounding of one formula in double.
template <class T>
void move_towards(T* to, const T* from, double share, Index n) {
  for (Index i = 0; i < n; ++i) {
    const double a = static_cast<double>(to[i]);
    to[i] = static_cast<T>(a + share * (static_cast<double>(from[i]) - a));
  }
}

}  // namespace

Average parse_average(std::string_view text) {
  auto call = TextCall::parse("parse_average", text);
  Average average;
  if (call.name == "ema") {
    average = Ema{take_only(call, "decay", Ema{}.decay)};
  } else if (call.name == "tail") {
    average = Tail{take_only(call, "share", Tail{}.share)};
  } else if (call.name == "schedule_free" || call.name == "schedule-free") {
    average = ScheduleFree{take_only(call, "beta", ScheduleFree{}.beta)};
  } else if (call.name == "soda") {
    average = Soda{};
  } else if (call.name == "uniform") {
    const double seed = take_only(call, "seed", 0);
    if (!(seed >= 0 && seed < seeds && seed == std::floor(seed))) {
      throw_invalid("Uniform", "seed must be a whole number from 0 to 2^53 - 1, got ", seed);
    }
    average = Uniform{static_cast<std::uint64_t>(seed)};
  } else if (call.name != "none") {
    throw_invalid("parse_average", unknown_name("average", call.name, names));
  }
  call.require_all_taken();
  validate(average);
  return average;
}

std::string to_string(const Average& average) {
  struct Printer {
    std::string operator()(const NoAverage&) const { return "none"; }
    std::string operator()(const Ema& a) const {
      return call_text("ema", {"decay=" + number_text(a.decay)});
    }
    std::string operator()(const Tail& a) const {
      return call_text("tail", {"share=" + number_text(a.share)});
    }
    std::string operator()(const ScheduleFree& a) const {
      return call_text("schedule_free", {"beta=" + number_text(a.beta)});
    }
    std::string operator()(const Soda&) const { return "soda"; }
    std::string operator()(const Uniform& a) const {
      return call_text("uniform", {"seed=" + std::to_string(a.seed)});
    }
  };
  return std::visit(Printer{}, average);
}

std::ostream& operator<<(std::ostream& out, const Average& average) {
  return out << to_string(average);
}

void validate(const Average& average) {
  if (const auto* ema = std::get_if<Ema>(&average); ema && !(ema->decay >= 0 && ema->decay < 1)) {
    throw_invalid("Ema", "decay must be at least 0 and below 1, got ", ema->decay);
  }
  if (const auto* tail = std::get_if<Tail>(&average);
      tail && !(tail->share > 0 && tail->share <= 1)) {
    throw_invalid("Tail", "share must be above 0 and at most 1, got ", tail->share);
  }
  if (const auto* free = std::get_if<ScheduleFree>(&average);
      free && !(free->beta >= 0 && free->beta < 1)) {
    throw_invalid("ScheduleFree", "beta must be at least 0 and below 1, got ", free->beta);
  }
  if (const auto* uniform = std::get_if<Uniform>(&average);
      uniform && static_cast<double>(uniform->seed) >= seeds) {
    throw_invalid("Uniform", "seed must be below 2^53, got ", uniform->seed);
  }
}

template <class T>
Averaged<T>::Averaged(Average average, std::vector<Index> sizes, std::int64_t steps)
    : average_(average), sizes_(std::move(sizes)), steps_(steps) {
  validate(average_);
  if (std::holds_alternative<Tail>(average_) && steps_ < 1) {
    throw_invalid("Averaged", to_string(average_), " is the mean over the last part of a run: ",
                  "its number of steps must be given, got ", steps_);
  }
  if (std::holds_alternative<NoAverage>(average_)) return;
  for (const Index size : sizes_) {
    if (size < 0) throw_invalid("Averaged", "a layer's size must not be negative, got ", size);
    first_.emplace_back(static_cast<size_t>(size));
    if (std::holds_alternative<ScheduleFree>(average_)) {
      second_.emplace_back(static_cast<size_t>(size));
    }
  }
}

template <class T>
void Averaged<T>::require(std::string_view where, std::span<const MatrixView<T>> weights,
                          Phase phase) const {
  if (exchanged_) {
    throw std::logic_error(error_message(
        where, "the evaluated weights are in place: call exchange() once more first"));
  }
  if (phase_ != phase) {
    throw std::logic_error(error_message(where, phase == Phase::Idle
                                                    ? "the last step was neither ended nor "
                                                      "cancelled: see end_step(), cancel_step()"
                                                    : "call begin_step() first"));
  }
  if (weights.size() != sizes_.size()) {
    throw_invalid(where, "got ", weights.size(), " weights for ", sizes_.size(), " layers");
  }
  for (size_t l = 0; l < weights.size(); ++l) {
    require_view(where, weights[l], "weight ", l);
    if (weights[l].rows * weights[l].cols != sizes_[l]) {
      throw_invalid(where, "weight ", l, " has ", weights[l].rows * weights[l].cols,
                    " entries; the layer has ", sizes_[l]);
    }
  }
}

// Before the first step all of the buffers are the weights.
template <class T>
void Averaged<T>::start(std::span<const MatrixView<T>> weights) {
  for (auto* buffers : {&first_, &second_}) {
    for (size_t l = 0; l < buffers->size(); ++l) {
      for_each_row<T>(weights[l], (*buffers)[l],
                      [](const T* from, T* to, Index n) { std::copy_n(from, n, to); });
    }
  }
}

template <class T>
void Averaged<T>::begin_step(std::span<const MatrixView<T>> weights) {
  require("Averaged::begin_step", weights, Phase::Idle);
  if (step_ == 0) start(weights);
  for (size_t l = 0; l < second_.size(); ++l) {  // the weights hold y; z is stepped
    for_each_row<T>(weights[l], second_[l],
                    [](T* to, const T* from, Index n) { std::copy_n(from, n, to); });
  }
  const auto* uniform = std::get_if<Uniform>(&average_);
  if (uniform != nullptr && replaces_kept(uniform->seed, static_cast<std::uint64_t>(step_))) {
    for (size_t l = 0; l < weights.size(); ++l) {
      auto& drawn = drawn_.emplace_back(static_cast<size_t>(sizes_[l]));
      for_each_row<T>(weights[l], std::span(drawn),
                      [](const T* from, T* to, Index n) { std::copy_n(from, n, to); });
    }
  }
  phase_ = Phase::Stepping;
}

// y = (1−β) z + β x̄ from both: the same bits as after the last step.
template <class T>
void Averaged<T>::cancel_step(std::span<const MatrixView<T>> weights) {
  require("Averaged::cancel_step", weights, Phase::Stepping);
  phase_ = Phase::Idle;
  drawn_.clear();
  if (step_ == 0) return;
  const auto* free = std::get_if<ScheduleFree>(&average_);
  for (size_t l = 0; free != nullptr && l < first_.size(); ++l) {
    for_each_row<T>(weights[l], second_[l],
                    [](T* to, const T* from, Index n) { std::copy_n(from, n, to); });
    for_each_row<T>(weights[l], first_[l],
                    [&](T* to, const T* from, Index n) { move_towards(to, from, free->beta, n); });
  }
}

template <class T>
std::int64_t Averaged<T>::first_of_tail() const {
  const double share = std::get<Tail>(average_).share;
  const auto kept = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(steps_)));
  return steps_ - std::max<std::int64_t>(1, kept);
}

template <class T>
void Averaged<T>::end_step(std::span<const MatrixView<T>> weights) {
  require("Averaged::end_step", weights, Phase::Stepping);
  for (size_t l = 0; l < weights.size(); ++l) {
    if (all_finite(weights[l])) continue;
    throw_invalid("Averaged::end_step", "weight ", l, " has an entry that is not finite: the ",
                  "average is left as it was");
  }
  const auto k = static_cast<double>(step_);
  const auto towards_weights = [&](double share) {
    for (size_t l = 0; l < weights.size(); ++l) {
      for_each_row<T>(weights[l], first_[l],
                      [&](const T* from, T* to, Index n) { move_towards(to, from, share, n); });
    }
  };
  if (const auto* ema = std::get_if<Ema>(&average_)) {
    towards_weights(std::max(1 - ema->decay, 1 / (k + 1)));
  } else if (std::holds_alternative<Tail>(average_)) {
    const std::int64_t first = first_of_tail();
    if (step_ >= first) towards_weights(1 / static_cast<double>(step_ - first + 1));
  } else if (const auto* free = std::get_if<ScheduleFree>(&average_)) {
    towards_weights(1 / (k + 1));
    for (size_t l = 0; l < weights.size(); ++l) {
      for_each_row<T>(weights[l], second_[l],
                      [](const T* from, T* to, Index n) { std::copy_n(from, n, to); });
      for_each_row<T>(weights[l], first_[l], [&](T* to, const T* from, Index n) {
        move_towards(to, from, free->beta, n);
      });
    }
  } else if (std::holds_alternative<Soda>(average_)) {
    for (size_t l = 0; l < weights.size(); ++l) {
      for_each_row<T>(weights[l], first_[l], [&](T* to, const T* from, Index n) {
        move_towards(to, from, 1 / (k + 2), n);
      });
    }
  }
  for (size_t l = 0; l < drawn_.size(); ++l) std::ranges::copy(drawn_[l], first_[l].begin());
  drawn_ = {};
  phase_ = Phase::Idle;
  ++step_;
}

template <class T>
bool Averaged<T>::differs() const {
  if (step_ == 0) return false;
  if (std::holds_alternative<Tail>(average_)) return step_ > first_of_tail();
  return !std::holds_alternative<NoAverage>(average_) && !std::holds_alternative<Soda>(average_);
}

template <class T>
void Averaged<T>::exchange(std::span<const MatrixView<T>> weights) {
  const bool back = exchanged_;
  exchanged_ = false;
  try {
    require("Averaged::exchange", weights, Phase::Idle);
  } catch (...) {
    exchanged_ = back;
    throw;
  }
  if (!differs()) return;
  for (size_t l = 0; l < weights.size(); ++l) {
    for_each_row<T>(weights[l], first_[l],
                    [](T* one, T* other, Index n) { std::swap_ranges(one, one + n, other); });
  }
  exchanged_ = !back;
}

template <class T>
std::vector<typename Averaged<T>::Buffer> Averaged<T>::state() {
  std::vector<Buffer> buffers;
  const char* const first = std::holds_alternative<Soda>(average_) ? "start." : "average.";
  for (size_t l = 0; l < first_.size(); ++l) {
    buffers.push_back({first + std::to_string(l), first_[l]});
    if (!second_.empty()) buffers.push_back({"iterate." + std::to_string(l), second_[l]});
  }
  return buffers;
}

template <class T>
void Averaged<T>::set_steps_taken(std::int64_t steps, bool exchanged) {
  if (steps < 0 || steps > max_steps) {
    throw_invalid("Averaged", "steps_taken must be from 0 to ", max_steps, ", got ", steps);
  }
  step_ = steps;
  phase_ = Phase::Idle;
  drawn_ = {};
  exchanged_ = exchanged && differs();
}

template class Averaged<float>;
template class Averaged<double>;

}  // namespace normball
