// The method that the options describe.
#include <cmath>

#include "normball/base/error.h"
#include "normball/base/parallel.h"
#include "normball/line_search.h"
#include "normball_torch/clipped_scion.h"

namespace normball::optim {
namespace {

Method method_of(const std::string& name, const NormBallOptions& options) {
  MethodOptions given{
      .rho = options.rho(), .beta = options.beta(), .l0 = options.l0(), .l1 = options.l1()};
  if (options.short_step()) given.short_step = parse_short_step(*options.short_step());
  if (options.stepsize()) given.stepsize = parse_stepsize(*options.stepsize());
  if (options.lr()) given.lr = *options.lr();
  if (options.alpha()) given.alpha = *options.alpha();
  Method method = make_method(name, given);
  require_all_used("NormBall", name, given);
  if (options.lr()) method.lr = *options.lr();  // also where it has one of its own
  return method;
}

void check_line_search(const std::string& text, const StepRule& rule,
                       const NormBallOptions& options) {
  parse_line_search(text);
  require_searchable("NormBall", rule);
  if (options.overwrite_gradients().value_or(false)) {
    normball::throw_invalid("NormBall", "line_search needs the gradients as they are: leave ",
                            "overwrite_gradients out");
  }
  if (options.gradients_in_parts().value_or(false)) {
    normball::throw_invalid("NormBall", "line_search needs the whole gradient in every rank: ",
                            "leave gradients_in_parts out");
  }
}

}  // namespace

Method NormBall::method() const {
  const NormBallOptions& options = whole();
  Method method = method_of(method_, options);
  if (options.constrained() && *options.constrained() != method.constrained) {
    normball::throw_invalid("NormBall", "'", method_, "' is ", method.constrained ? "" : "un",
                            "constrained, but the option constrained is ",
                            *options.constrained() ? "true" : "false");
  }
  validate(method);
  if (options.line_search()) check_line_search(*options.line_search(), method.rule, options);
  const double clip = options.grad_clip().value_or(0);
  if (!(std::isfinite(clip) && clip >= 0)) {
    normball::throw_invalid("NormBall", "grad_clip must be finite and not negative, got ", clip);
  }
  if (options.overwrite_gradients().value_or(false) && options.force_aten().value_or(false)) {
    normball::throw_invalid("NormBall", "overwrite_gradients has no effect with force_aten: ",
                            "tensor operations leave gradients alone");
  }
  const int64_t threads = options.threads().value_or(0);
  if (threads < 0 || threads > max_threads) {
    normball::throw_invalid("NormBall", "threads must be from 0 (OpenMP's default) to ",
                            max_threads, ", got ", threads);
  }
  if (options.solver()) use_solver("NormBall", parse_polar_solver(*options.solver()), method);
  return method;
}

// A threshold that finds itself is the rule of steps that all have the length lr.
std::string_view clipped_scion_method(const NormBallOptions& options) {
  const bool constrained = options.constrained().value_or(false);
  if (options.stepsize()) {
    if (!std::holds_alternative<AutoClipped>(parse_stepsize(*options.stepsize()))) {
      normball::throw_invalid("ClippedScion", "the stepsize '", *options.stepsize(),
                              "' does not clip; 'auto_clipped' does. Use Scion for the others");
    }
    if (options.rho() || options.short_step().value_or("plain") != "plain") {
      normball::throw_invalid("ClippedScion", "the stepsize '", *options.stepsize(),
                              "' finds its threshold itself: leave ",
                              options.rho() ? "rho" : "short_step", " out");
    }
    return scion_method(options);
  }
  if (!constrained && options.short_step().value_or("plain") != "plain") {
    normball::throw_invalid("ClippedScion", "short_step '", *options.short_step(),
                            "' is for constrained(true)");
  }
  return constrained ? "clipped_scion" : "unconstrained_clipped_scion";
}

std::string_view scion_method(const NormBallOptions& options) {
  if (options.rho()) {
    normball::throw_invalid("Scion", "there is no rho: its steps are not clipped; use ",
                            "ClippedScion");
  }
  if (options.short_step()) {
    normball::throw_invalid("Scion", "there is no short_step; use ClippedScion");
  }
  return options.constrained().value_or(false) ? "scion" : "unconstrained_scion";
}

}  // namespace normball::optim
