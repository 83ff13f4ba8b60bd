// The method that the options describe.
#include <sstream>

#include "normball/error.h"
#include "normball_torch/clipped_scion.h"

namespace normball::optim {
namespace {

Method method_of(const std::string& name, const NormBallOptions& options) {
  MethodOptions given{.rho = options.rho(),
                      .beta = options.beta(),
                      .l0 = options.l0(),
                      .l1 = options.l1(),
                      .short_step = parse_short_step(options.short_step().value_or("plain"))};
  if (options.lr()) given.lr = *options.lr();
  if (options.alpha()) given.alpha = *options.alpha();
  Method method = make_method(name, given);
  if (options.lr()) method.lr = *options.lr();  // also where it has one of its own
  return method;
}

std::string fingerprint(const Method& method) {
  std::ostringstream text;
  text << method.rule << ' ' << method.alpha << ' ' << method.radius.value_or(0);
  return text.str();
}

// An option that, changed, changes nothing is not the method's.
void require_all_used(const std::string& name, const NormBallOptions& options,
                      const Method& method) {
  const auto check = [&](std::string_view option, auto get) {
    NormBallOptions changed = options;
    std::optional<double>& value = get(changed);
    if (!value || (option == "alpha" && *value == 1)) return;
    const double given = *value;
    value = given == 0 ? 1 : given / 2;
    if (fingerprint(method_of(name, changed)) != fingerprint(method)) return;
    normball::detail::invalid("NormBall", "the method '", name, "' has no ", option, ", got ",
                              given);
  };
  check(
      "alpha", [](NormBallOptions & o) -> auto& { return o.alpha(); });
  check(
      "rho", [](NormBallOptions & o) -> auto& { return o.rho(); });
  check(
      "beta", [](NormBallOptions & o) -> auto& { return o.beta(); });
  check(
      "l0", [](NormBallOptions & o) -> auto& { return o.l0(); });
  check(
      "l1", [](NormBallOptions & o) -> auto& { return o.l1(); });
  const std::string form = options.short_step().value_or("plain");
  if (form != "plain" && name != "clipped_scion" && name != "s3cg") {
    normball::detail::invalid("NormBall", "short_step '", form,
                              "' is for clipped_scion and s3cg; '", name, "' has none");
  }
}

}  // namespace

Method NormBall::make() const {
  const NormBallOptions& options = whole();
  Method method = method_of(method_, options);
  if (options.constrained() && *options.constrained() != method.constrained) {
    normball::detail::invalid("NormBall", "'", method_, "' is ", method.constrained ? "" : "un",
                              "constrained, but the options say otherwise");
  }
  validate(method);
  require_all_used(method_, options, method);
  if (options.solver() && method.norm) {
    if (auto* spectral = std::get_if<Spectral>(&*method.norm)) {
      spectral->solver = parse_polar_solver(*options.solver());
    }
  }
  return method;
}

namespace detail {

std::string_view clipped_scion_method(const NormBallOptions& options) {
  const bool constrained = options.constrained().value_or(false);
  if (!constrained && options.short_step().value_or("plain") != "plain") {
    normball::detail::invalid("ClippedScion", "short_step '", *options.short_step(),
                              "' is for constrained(true)");
  }
  return constrained ? "clipped_scion" : "unconstrained_clipped_scion";
}

std::string_view scion_method(const NormBallOptions& options) {
  if (options.rho()) {
    normball::detail::invalid("Scion", "there is no rho: its steps are not clipped; use ",
                              "ClippedScion");
  }
  if (options.short_step()) {
    normball::detail::invalid("Scion", "there is no short_step; use ClippedScion");
  }
  return options.constrained().value_or(false) ? "scion" : "unconstrained_scion";
}

}  // namespace detail
}  // namespace normball::optim
