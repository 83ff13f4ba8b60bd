#include "normball_torch/options.h"

#include <algorithm>
#include <limits>

#include "normball/base/error.h"

namespace normball::optim {
namespace {

using ::torch::IValue;
using ::torch::serialize::InputArchive;
using ::torch::serialize::OutputArchive;

// Who says it: every step anew, a group, or the optimizer for all groups; of that, numbers of the
// method that may change from step to step.
enum class Of { Step, Group, Whole, Number };

template <Of by, bool archived = false>
struct Field {
  std::string_view name;
  static constexpr Of of = by;
  static constexpr bool of_whole = by == Of::Whole || by == Of::Number;
  static constexpr bool stored = archived;  // in LibTorch's archives
};

// Every option once: f(field, value...) for each of them, of one or of several NormBallOptions side
// by side.
template <class F, class... Options>
void for_each_field(F&& f, Options&... o) {
  f(Field<Of::Step, true>{"lr"}, o.lr()...);
  f(Field<Of::Group, true>{"norm"}, o.norm()...);
  f(Field<Of::Group, true>{"radius"}, o.radius()...);
  f(Field<Of::Group, true>{"role"}, o.role()...);
  f(Field<Of::Group>{"split"}, o.split()...);
  f(Field<Of::Group>{"batch"}, o.batch()...);
  f(Field<Of::Group>{"oracle"}, o.oracle()...);
  f(Field<Of::Group>{"names"}, o.names()...);
  f(Field<Of::Group>{"kinds"}, o.kinds()...);
  f(Field<Of::Number, true>{"alpha"}, o.alpha()...);
  f(Field<Of::Number, true>{"rho"}, o.rho()...);
  f(Field<Of::Whole, true>{"beta"}, o.beta()...);
  f(Field<Of::Whole, true>{"l0"}, o.l0()...);
  f(Field<Of::Whole, true>{"l1"}, o.l1()...);
  f(Field<Of::Whole, true>{"constrained"}, o.constrained()...);
  f(Field<Of::Whole, true>{"short_step"}, o.short_step()...);
  f(Field<Of::Whole, true>{"stepsize"}, o.stepsize()...);
  f(Field<Of::Whole, true>{"line_search"}, o.line_search()...);
  f(Field<Of::Whole>{"solver"}, o.solver()...);
  f(Field<Of::Whole>{"rules"}, o.rules()...);
  f(Field<Of::Whole>{"norms"}, o.norms()...);
  f(Field<Of::Whole>{"radii"}, o.radii()...);
  f(Field<Of::Whole>{"auto_radii"}, o.auto_radii()...);
  f(Field<Of::Whole>{"grad_clip"}, o.grad_clip()...);
  f(Field<Of::Whole>{"threads"}, o.threads()...);
  f(Field<Of::Whole>{"overwrite_gradients"}, o.overwrite_gradients()...);
  f(Field<Of::Whole>{"skip_nonfinite"}, o.skip_nonfinite()...);
  f(Field<Of::Whole>{"force_aten"}, o.force_aten()...);
  f(Field<Of::Whole>{"ranks"}, o.ranks()...);
  f(Field<Of::Whole>{"gradients_in_parts"}, o.gradients_in_parts()...);
}

template <class T>
void write(OutputArchive& archive, const std::string& key, const std::optional<T>& value) {
  if (value) archive.write(key, IValue(*value));
}
void write(OutputArchive& archive, const std::string& key, const std::string& value) {
  archive.write(key, IValue(value));
}

template <class T>
void read(InputArchive& archive, const std::string& key, std::optional<T>& value) {
  IValue stored;
  value.reset();
  if (archive.try_read(key, stored)) value = stored.to<T>();
}
void read(InputArchive& archive, const std::string& key, std::string& value) {
  IValue stored;
  if (archive.try_read(key, stored)) value = stored.toStringRef();
}

// Without the group's names and kinds, and without the optimizer's word.
Assignment own_assignment(const NormBallOptions& options, const PolarSolver& solver) {
  Assignment result;
  if (options.oracle() && options.norm() != "auto") {
    normball::throw_invalid("NormBall", "the options have an oracle and the norm '", options.norm(),
                            "': give one of them");
  }
  if (options.oracle()) {
    result.norm = Custom{options.oracle()};
  } else if (options.norm() != "auto") {
    result.norm = parse_norm(options.norm(), solver);
  }
  if (!options.role().empty()) result.role = parse_role(options.role());
  result.radius = options.radius();
  if (!options.split().empty()) result.split = parse_split(options.split());
  if (options.batch()) {
    constexpr int64_t most = std::numeric_limits<int>::max();
    result.batch = static_cast<int>(std::clamp(*options.batch(), -most, most));  // routing refuses
  }
  return result;
}

std::string text_of(double value) { return std::to_string(value); }
std::string text_of(int64_t value) { return std::to_string(value); }
std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(const std::string& value) { return "'" + value + "'"; }
template <class T>
std::string text_of(const T&) {
  return "its own";
}

}  // namespace

NormBallOptions::NormBallOptions(double lr) : lr_(lr) {}

// A group's norm and radius are part of the program, not of the state: the archive records the
// numbers, and NormBall::load() keeps the program's.
void NormBallOptions::serialize(OutputArchive& archive) const {
  for_each_field(
      [&](auto field, const auto& value) {
        if constexpr (field.stored) write(archive, std::string(field.name), value);
      },
      *this);
}

void NormBallOptions::serialize(InputArchive& archive) {
  for_each_field(
      [&](auto field, auto& value) {
        if constexpr (field.stored) read(archive, std::string(field.name), value);
      },
      *this);
}

double NormBallOptions::get_lr() const {
  if (!lr())
    normball::throw_invalid("NormBallOptions::get_lr",
                            "this group has no lr yet: set one, or take a step, after which it "
                            "uses the optimizer's");
  return *lr();
}

void NormBallOptions::set_lr(const double value) { lr(value); }

Assignment NormBallOptions::assignment(const NormBallOptions& whole) const {
  const PolarSolver solver = parse_polar_solver(whole.solver().value_or("exact"));
  Assignment result = own_assignment(*this, solver);
  const Assignment common = own_assignment(whole, solver);
  if (!result.norm && !result.role) {
    result.norm = common.norm;
    result.role = common.role;
  }
  if (!result.radius) result.radius = common.radius;
  if (!result.split) result.split = common.split;
  if (!result.batch) result.batch = common.batch;
  return result;
}

void NormBallOptions::require_no_override(const NormBallOptions& whole, std::string_view where,
                                          size_t group) const {
  for_each_field(
      [&](auto field, const auto& own, const auto& common) {
        if constexpr (field.of_whole) {
          if (!own || own == common) return;
          normball::throw_invalid(
              where, "group ", group, " sets ", field.name, " to ", text_of(*own), ", but ",
              field.name, " belongs to the whole optimizer: set it in the ", "optimizer's options");
        }
      },
      *this, whole);
}

void NormBallOptions::inherit() {
  for_each_field(
      [&](auto field, auto& own) {
        if constexpr (field.of_whole) own.reset();
      },
      *this);
}

bool NormBallOptions::same_but_lr(const NormBallOptions& other) const {
  bool same = true;
  for_each_field(
      [&](auto field, const auto& a, const auto& b) {
        if constexpr (field.of != Of::Step) same = same && a == b;
      },
      *this, other);
  return same;
}

bool NormBallOptions::same_but_numbers(const NormBallOptions& other) const {
  bool same = true;
  for_each_field(
      [&](auto field, const auto& a, const auto& b) {
        if constexpr (field.of != Of::Step && field.of != Of::Number) same = same && a == b;
      },
      *this, other);
  return same;
}

void NormBallParamState::serialize(OutputArchive& archive) const {
  if (momentum_buffer().defined()) archive.write("momentum_buffer", momentum_buffer(), true);
  if (basis().defined()) archive.write("basis", basis(), true);
  if (start().defined()) archive.write("start", start(), true);
}

void NormBallParamState::serialize(InputArchive& archive) {
  archive.try_read("momentum_buffer", momentum_buffer(), true);
  archive.try_read("basis", basis(), true);
  archive.try_read("start", start(), true);
}

}  // namespace normball::optim
