#include "normball_torch/options.h"

#include "normball/error.h"

namespace normball::optim {
namespace {

using ::torch::IValue;
using ::torch::serialize::InputArchive;
using ::torch::serialize::OutputArchive;

template <class T>
void write(OutputArchive& archive, const std::string& key, const std::optional<T>& value) {
  if (value) archive.write(key, IValue(*value));
}

template <class T>
void read(InputArchive& archive, const std::string& key, std::optional<T>& value) {
  IValue stored;
  value.reset();
  if (archive.try_read(key, stored)) value = stored.to<T>();
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

// A group's norm and radius are part of the program, not of the state: as in LibTorch's own
// optimizers the archive records the numbers and the loader keeps the program's.
void NormBallOptions::serialize(OutputArchive& archive) const {
  write(archive, "lr", lr());
  write(archive, "radius", radius());
  write(archive, "alpha", alpha());
  write(archive, "rho", rho());
  write(archive, "beta", beta());
  write(archive, "l0", l0());
  write(archive, "l1", l1());
  write(archive, "constrained", constrained());
  write(archive, "short_step", short_step());
  archive.write("norm", IValue(norm()));
  archive.write("role", IValue(role()));
}

void NormBallOptions::serialize(InputArchive& archive) {
  read(archive, "lr", lr());
  read(archive, "radius", radius());
  read(archive, "alpha", alpha());
  read(archive, "rho", rho());
  read(archive, "beta", beta());
  read(archive, "l0", l0());
  read(archive, "l1", l1());
  read(archive, "constrained", constrained());
  read(archive, "short_step", short_step());
  IValue stored;
  if (archive.try_read("norm", stored)) norm(stored.toStringRef());
  if (archive.try_read("role", stored)) role(stored.toStringRef());
}

double NormBallOptions::get_lr() const {
  if (!lr())
    normball::detail::invalid("NormBallOptions::get_lr",
                              "this group has no lr yet: give it one, or step once and it "
                              "has the optimizer's");
  return *lr();
}

void NormBallOptions::set_lr(const double value) { lr(value); }

Assignment NormBallOptions::assignment() const {
  Assignment result;
  if (oracle()) {
    result.norm = Custom{oracle()};
  } else if (norm() != "auto") {
    result.norm = parse_norm(norm());
  }
  if (!role().empty()) result.role = parse_role(role());
  result.radius = radius();
  if (!split().empty()) result.split = parse_split(split());
  if (batch()) result.batch = static_cast<int>(*batch());
  return result;
}

void NormBallOptions::require_no_override(const NormBallOptions& whole, std::string_view where,
                                          size_t group) const {
  const auto check = [&](std::string_view name, const auto& own, const auto& common) {
    if (!own || own == common) return;
    normball::detail::invalid(where, "group ", group, " sets ", name, " to ", text_of(*own),
                              ", but ", name,
                              " belongs to the whole optimizer: set it in the optimizer's options");
  };
  check("alpha", alpha(), whole.alpha());
  check("rho", rho(), whole.rho());
  check("beta", beta(), whole.beta());
  check("l0", l0(), whole.l0());
  check("l1", l1(), whole.l1());
  check("constrained", constrained(), whole.constrained());
  check("short_step", short_step(), whole.short_step());
  check("solver", solver(), whole.solver());
  check("rules", rules(), whole.rules());
  check("radii", radii(), whole.radii());
  check("grad_clip", grad_clip(), whole.grad_clip());
  check("threads", threads(), whole.threads());
  check("overwrite_gradients", overwrite_gradients(), whole.overwrite_gradients());
  check("skip_nonfinite", skip_nonfinite(), whole.skip_nonfinite());
  check("force_aten", force_aten(), whole.force_aten());
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
