#include "normball_torch/options.h"

#include <algorithm>
#include <limits>

#include "normball/base/error.h"

namespace normball::optim {
namespace {

using ::torch::IValue;
using ::torch::serialize::InputArchive;
using ::torch::serialize::OutputArchive;

// The options by name. f gets each of them, of one or of several NormBallOptions side by side.
template <class F, class... Options>
void for_each_number(F&& f, Options&... o) {
  f("alpha", o.alpha()...);
  f("rho", o.rho()...);
  f("beta", o.beta()...);
  f("l0", o.l0()...);
  f("l1", o.l1()...);
  f("constrained", o.constrained()...);
  f("short_step", o.short_step()...);
}

template <class F, class... Options>
void for_each_of_the_whole(F&& f, Options&... o) {
  for_each_number(f, o...);
  f("solver", o.solver()...);
  f("rules", o.rules()...);
  f("radii", o.radii()...);
  f("grad_clip", o.grad_clip()...);
  f("threads", o.threads()...);
  f("overwrite_gradients", o.overwrite_gradients()...);
  f("skip_nonfinite", o.skip_nonfinite()...);
  f("force_aten", o.force_aten()...);
}

template <class F, class... Options>
void for_each_of_a_group(F&& f, Options&... o) {
  f("norm", o.norm()...);
  f("radius", o.radius()...);
  f("role", o.role()...);
  f("split", o.split()...);
  f("batch", o.batch()...);
  f("oracle", o.oracle()...);
  f("names", o.names()...);
  f("kinds", o.kinds()...);
}

template <class Options, class F>
void for_each_stored(Options& o, F&& f) {
  f("lr", o.lr());
  f("radius", o.radius());
  f("norm", o.norm());
  f("role", o.role());
  for_each_number(f, o);
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
  if (options.oracle()) {
    result.norm = Custom{options.oracle()};
  } else if (options.norm() != "auto") {
    result.norm = parse_norm_with(options.norm(), solver);
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
  for_each_stored(*this, [&](const char* name, const auto& value) { write(archive, name, value); });
}

void NormBallOptions::serialize(InputArchive& archive) {
  for_each_stored(*this, [&](const char* name, auto& value) { read(archive, name, value); });
}

double NormBallOptions::get_lr() const {
  if (!lr())
    normball::throw_invalid("NormBallOptions::get_lr",
                            "this group has no lr yet: give it one, or step once and it "
                            "has the optimizer's");
  return *lr();
}

void NormBallOptions::set_lr(const double value) { lr(value); }

Assignment NormBallOptions::assignment(const NormBallOptions& whole) const {
  const PolarSolver common_solver = parse_polar_solver(whole.solver().value_or("exact"));
  Assignment result = own_assignment(*this, common_solver);
  const Assignment common = own_assignment(whole, common_solver);
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
  for_each_of_the_whole(
      [&](std::string_view name, const auto& own, const auto& common) {
        if (!own || own == common) return;
        normball::throw_invalid(where, "group ", group, " sets ", name, " to ", text_of(*own),
                                ", but ", name, " belongs to the whole optimizer: set it in the ",
                                "optimizer's options");
      },
      *this, whole);
}

bool NormBallOptions::same_but_lr(const NormBallOptions& other) const {
  bool same = true;
  const auto compare = [&](const char*, const auto& a, const auto& b) { same = same && a == b; };
  for_each_of_the_whole(compare, *this, other);
  for_each_of_a_group(compare, *this, other);
  return same;
}

void NormBallParamState::serialize(OutputArchive& archive) const {
  if (momentum_buffer().defined()) archive.write("momentum_buffer", momentum_buffer(), true);
  if (basis().defined()) archive.write("basis", basis(), true);
}

void NormBallParamState::serialize(InputArchive& archive) {
  archive.try_read("momentum_buffer", momentum_buffer(), true);
  archive.try_read("basis", basis(), true);
}

}  // namespace normball::optim
