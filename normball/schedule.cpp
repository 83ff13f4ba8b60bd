#include "normball/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <ostream>

#include "normball/base/error.h"
#include "normball/base/text.h"

namespace normball {
namespace {

struct At {
  double value;
  std::int64_t warmup;
  double k;  // steps since the warm-up

  double left(std::int64_t steps) const { return static_cast<double>(steps - warmup) - k; }

  double operator()(const Constant&) const { return value; }
  double operator()(const LinearDecay& d) const {
    return value * std::max(0.0, left(d.steps)) / static_cast<double>(d.steps - warmup);
  }
  double operator()(const Warmdown& d) const {
    return value * std::clamp(left(d.steps) / static_cast<double>(d.down), 0.0, 1.0);
  }
  double operator()(const Cosine& d) const {
    const double progress = std::min(1.0, k / static_cast<double>(d.steps - warmup));
    return d.end + (value - d.end) * (1 + std::cos(std::numbers::pi * progress)) / 2;
  }
  double operator()(const Power& d) const { return value * std::pow(k + 1, -d.exponent); }
};

std::int64_t take_steps(TextCall& call, std::string_view key) {
  return static_cast<std::int64_t>(call.take_number(key));
}

constexpr std::array<std::string_view, 5> known_schedules = {"constant", "linear", "warmdown",
                                                             "cosine", "power"};

Decay parse_decay(TextCall& call) {
  if (call.name == "constant") return Constant{};
  if (call.name == "linear") return LinearDecay{take_steps(call, "steps")};
  if (call.name == "warmdown") {
    const auto steps = take_steps(call, "steps");
    return Warmdown{steps, take_steps(call, "down")};
  }
  if (call.name == "cosine") {
    const auto steps = take_steps(call, "steps");
    return Cosine{steps, call.take_number("end", 0)};
  }
  if (call.name == "power") return Power{call.take_number("exponent")};
  throw_invalid("parse_schedule", unknown_name("schedule", call.name, known_schedules));
}

}  // namespace

double Schedule::at(std::int64_t step) const {
  if (step < warmup) return value * static_cast<double>(step + 1) / static_cast<double>(warmup);
  return std::visit(At{value, warmup, static_cast<double>(step - warmup)}, decay);
}

double Schedule::max() const {
  const auto* cosine = std::get_if<Cosine>(&decay);
  return cosine ? std::max(value, cosine->end) : value;
}

void validate(const Schedule& schedule) {
  const auto require_steps = [&](std::int64_t steps) {
    if (steps <= schedule.warmup) {
      throw_invalid("Schedule", "steps must exceed the warm-up of ", schedule.warmup, ", got ",
                    steps);
    }
  };
  if (!std::isfinite(schedule.value)) {
    throw_invalid("Schedule", "the value must be finite, got ", schedule.value);
  }
  if (schedule.warmup < 0) {
    throw_invalid("Schedule", "warmup must not be negative, got ", schedule.warmup);
  }
  if (const auto* d = std::get_if<LinearDecay>(&schedule.decay)) require_steps(d->steps);
  if (const auto* d = std::get_if<Warmdown>(&schedule.decay)) {
    require_steps(d->steps);
    if (d->down < 1 || d->down > d->steps - schedule.warmup) {
      throw_invalid("Schedule", "down must be from 1 to the ", d->steps - schedule.warmup,
                    " steps after the warm-up, got ", d->down);
    }
  }
  if (const auto* d = std::get_if<Cosine>(&schedule.decay)) {
    require_steps(d->steps);
    if (!std::isfinite(d->end)) throw_invalid("Schedule", "end must be finite, got ", d->end);
  }
  if (const auto* d = std::get_if<Power>(&schedule.decay);
      d && !(std::isfinite(d->exponent) && d->exponent >= 0)) {
    throw_invalid("Schedule", "exponent must be finite and not negative, got ", d->exponent);
  }
}

Schedule parse_schedule(std::string_view text) {
  if (text.find_first_of("(abcdfghijklmnopqrstuvwxyz") == std::string_view::npos) {
    return parse_number("parse_schedule", "a schedule", text);
  }
  auto call = TextCall::parse("parse_schedule", text);
  Schedule schedule(0, parse_decay(call), static_cast<std::int64_t>(call.take_number("warmup", 0)));
  const auto value = std::ranges::find(call.arguments, "", &TextCall::Argument::key);
  if (value == call.arguments.end()) {
    throw_invalid("parse_schedule", "'", text, "' needs a value, e.g. linear(0.1, steps=100)");
  }
  schedule.value = parse_number("parse_schedule", "the value", value->value);
  call.arguments.erase(value);
  call.require_all_taken();
  validate(schedule);
  return schedule;
}

std::string to_string(const Schedule& schedule) {
  struct Print {
    std::string value;
    std::string tail;
    bool bare;
    std::string operator()(const Constant&) const {
      return bare ? value : "constant(" + value + tail;
    }
    std::string operator()(const LinearDecay& d) const {
      return "linear(" + value + ", steps=" + std::to_string(d.steps) + tail;
    }
    std::string operator()(const Warmdown& d) const {
      return "warmdown(" + value + ", steps=" + std::to_string(d.steps) +
             ", down=" + std::to_string(d.down) + tail;
    }
    std::string operator()(const Cosine& d) const {
      return "cosine(" + value + ", steps=" + std::to_string(d.steps) +
             (d.end == 0 ? "" : ", end=" + number_text(d.end)) + tail;
    }
    std::string operator()(const Power& d) const {
      return "power(" + value + ", exponent=" + number_text(d.exponent) + tail;
    }
  };
  const bool warm = schedule.warmup > 0;
  const std::string tail = warm ? ", warmup=" + std::to_string(schedule.warmup) + ")" : ")";
  return std::visit(Print{number_text(schedule.value), tail, !warm}, schedule.decay);
}

std::ostream& operator<<(std::ostream& out, const Schedule& schedule) {
  return out << to_string(schedule);
}

}  // namespace normball
