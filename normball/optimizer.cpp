#include "normball/optimizer.h"

#include <algorithm>

#include "normball/base/error.h"
#include "normball/internal/step/passes.h"
#include "normball/joint_step.h"

namespace normball {

using detail::LayerStep;
using detail::Share;

// Algorithms 3 and 4, line by line as optimizer.h states them. A driver has them in two: up to the
// pairing, and from an η of its own on.
template <class T>
void Optimizer<T>::run(Lines lines, double given_eta) {
  if (lines != Lines::FromEta) {
    passes().find_directions([](LayerStep<T>& layer, const Share& share) {
      const auto d = layer.average(share);  // d_l ← α g_l + (1−α) d_l
      layer.find_direction(d, share);  // v_l ← −r_l lmo_l(d_l),  or  W_l − r_l lmo_l(d_l)
    });
    report_.pairing = passes().combine(method_, report_.layers);  // s ← Σ_l ⟨d_l, v_l⟩
    if (!passes().measure(method_, report_)) return refuse();
  }
  if (lines == Lines::UpToPairing) return;
  const bool given = lines == Lines::FromEta;
  decide(given ? given_eta : rule_eta());  // η ← rule(s)
  passes().for_each([&](LayerStep<T>& layer, const Share& share) {
    const double step = report_.gamma * report_.eta * layer.parameter().lr_factor;
    layer.move(step, share);  // W_l ← W_l − γ η v_l
  });
  passes().finish();
  if (!given) remember(method_.rule, rule_input(), report_.eta, memory_);
  ++step_;
}

template <class T>
Optimizer<T>::Optimizer(Method method, std::vector<Layer> layers, Execution execution,
                        std::shared_ptr<Peers<T>> peers)
    : method_(std::move(method)), layers_(std::move(layers)), execution_(execution) {
  validate(method_);
  detail::name_layers(layers_);
  detail::validate(execution);
  for (auto& layer : layers_) {
    validate(layer);  // its own radius too, where the method has another
    if (method_.norm) layer.norm = *method_.norm;
    if (method_.radius) layer.radius = *method_.radius;
    detail::require_suitable(layer, method_.constrained, execution.light);
  }
  if (peers && execution.light) {
    throw_invalid("Optimizer", "light keeps every average in its gradient buffer; with peers an ",
                  "average is its owner's alone: choose one");
  }
  passes_.reset(new detail::Passes<T>(layers_, execution, std::move(peers)));
  passes_->make_starts(method_);
  memory_.resize(memory_size(method_.rule));
  report_.layers.resize(layers_.size());
}

template <class T>
const StepReport& Optimizer<T>::step(std::span<const Parameter<T>> parameters,
                                     std::optional<double> loss) {
  begin(parameters, true, loss);
  const bool idle = passes().idle();
  try {
    run(idle ? Lines::UpToPairing : Lines::All, 0);
  } catch (...) {
    revert();  // or every later step would be refused
    throw;
  }
  report_.skipped = report_.skipped || idle;
  return report_;
}

template <class T>
const StepReport& Optimizer<T>::prepare(std::span<const Parameter<T>> parameters) {
  begin(parameters, false, {});
  try {
    run(Lines::UpToPairing, 0);
  } catch (...) {
    revert();
    throw;
  }
  prepared_ = !report_.skipped;
  return report_;
}

template <class T>
const StepReport& Optimizer<T>::apply(double eta) {
  require_prepared("Optimizer::apply");
  run(Lines::FromEta, eta);
  prepared_ = false;
  return report_;
}

template <class T>
void Optimizer<T>::begin(std::span<const Parameter<T>> parameters, bool decides,
                         std::optional<double> loss) {
  require_unprepared("Optimizer::prepare",
                     "the last directions were neither applied nor abandoned");
  if (step_ >= max_steps) {
    throw_invalid("Optimizer::step", "steps_taken() is ", step_, ", the largest count: no ",
                  "further step can be counted");
  }
  const bool first = std::ranges::all_of(memory_, [](double number) { return number == 0; });
  passes().begin(parameters, method_, {step_, first, decides, loss});
  loss_ = loss.value_or(no_loss);
  clear_report();
}

template <class T>
void Optimizer<T>::require_unprepared(std::string_view where, std::string_view error) const {
  if (prepared_) throw std::logic_error(error_message(where, error));
}

template <class T>
void Optimizer<T>::require_prepared(std::string_view where) const {
  if (!prepared_) {
    throw std::logic_error(error_message(where, "call prepare() first: it finds the directions"));
  }
}

template <class T>
void Optimizer<T>::clear_report() {
  report_.step = step_;
  report_.lr = method_.lr.at(step_);
  report_.gamma = report_.lr / rho(method_.rule);
  report_.pairing = report_.wolfe_gap = report_.direction_norm = report_.eta = 0;
  report_.distance = report_.slope = report_.threshold = 0;
  report_.clipped = report_.stalled = report_.skipped = false;
  report_.nonfinite_layer.clear();
  std::ranges::fill(report_.layers, LayerReport{});
}

// Names the first layer with an entry, or else a pairing, that is not finite.
template <class T>
void Optimizer<T>::refuse() {
  passes().settle();
  clear_report();
  report_.skipped = true;
  const detail::StepProblem problem = passes().problem();
  report_.nonfinite_layer = problem.layer;
  if (execution_.nonfinite == NonFinite::Throw) {
    const std::string reason =
        problem.text.empty() ? "s, the norm of v or the distance overflows" : problem.text;
    throw NonFiniteError(error_message("Optimizer::step", reason), problem.layer);
  }
}

// Takes an η over into the report, unless it is none.
template <class T>
void Optimizer<T>::decide(double eta) {
  detail::require_step("Optimizer::apply", passes().layers(), report_.gamma * eta,
                       method_.constrained);
  const JointStep joint =
      decide_step_with_eta(method_, report_.pairing, report_.direction_norm, eta);
  report_.eta = joint.eta;
  report_.threshold = threshold(method_.rule, memory_);
  report_.clipped = joint.clipped;
  report_.stalled = joint.stalled;
}

template <class T>
void Optimizer<T>::require_step(double eta) const {
  require_prepared("Optimizer::require_step");
  detail::require_step("Optimizer::apply", passes().layers(), report_.gamma * eta,
                       method_.constrained);
}

// The other members are instantiated beside their definitions.
#define NORMBALL_INSTANTIATE(T)                                                    \
  template Optimizer<T>::Optimizer(Method, std::vector<Layer>, Execution,          \
                                   std::shared_ptr<Peers<T>>);                     \
  template const StepReport& Optimizer<T>::step(std::span<const Parameter<T>>,     \
                                                std::optional<double>);            \
  template const StepReport& Optimizer<T>::prepare(std::span<const Parameter<T>>); \
  template const StepReport& Optimizer<T>::apply(double);                          \
  template void Optimizer<T>::require_step(double) const;                          \
  template void Optimizer<T>::require_unprepared(std::string_view, std::string_view) const;
NORMBALL_INSTANTIATE(float)
NORMBALL_INSTANTIATE(double)
#undef NORMBALL_INSTANTIATE

}  // namespace normball
