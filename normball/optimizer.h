// The one loop behind every method (Algorithms 1-4 of the paper):
//
//   d_l ← α g_l + (1−α) d_l                 momentum estimator
//   v_l ← −r_l lmo_l(d_l)                   unconstrained
//   v_l ← W_l − r_l lmo_l(d_l)              constrained
//   s   ← Σ_l ⟨d_l, v_l⟩                    one number for the whole model
//   η   ← rule(s)
//   W_l ← W_l − γ η v_l
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "normball/method.h"
#include "normball/peers.h"
#include "normball/step.h"

namespace normball {
namespace detail {
template <class T>
class Passes;
}  // namespace detail

template <class T>
class Optimizer {
 public:
  // With peers every step is taken together with other processes: all call the same functions in
  // the same order with the same weights, lr and alpha, and the same (averaged) gradients where
  // they find the direction. What stops one process stops all, and its rank is in every message.
  // With overwrite_gradients a norm or solver that fails in one process leaves every average with
  // its gradient.
  Optimizer(Method method, std::vector<Layer> layers, Execution execution = {},
            std::shared_ptr<Peers<T>> peers = nullptr);
  Optimizer(Optimizer&&) noexcept = default;
  Optimizer& operator=(Optimizer&&) noexcept = default;
  Optimizer(const Optimizer&) = delete;  // two would share the caller's buffers
  Optimizer& operator=(const Optimizer&) = delete;

  // prepare, rule, apply. One parameter for each layer, in the same order every time. Where no
  // layer has a gradient there is no step, and none is counted. After an exception the weights are
  // as before, and so is the state: a bad gradient, weights that are not finite, a user's norm or a
  // solver that fails, lack of memory, and an s or a step that overflows are all seen in time. But
  // with overwrite_gradients, where a solver fails or s overflows, and where an average was not
  // finite to begin with, every average has taken its gradient in, as after abandon(). `loss` is f
  // at these weights, of all processes together; only rules that need it look at it (Momo), and
  // they refuse a step without it.
  const StepReport& step(std::span<const Parameter<T>> parameters, std::optional<double> loss = {});

  // The two passes apart, for drivers that shard layers over machines or search along v.
  // prepare() finds every v_l; the report then has the pairings. apply() moves the weights by
  // −γ η v. The buffers must live, and the gradients stay unchanged, from one to the other. An η of
  // the driver's leaves rule_memory() as it is: a driver keeps the memory itself (decide_step()).
  const StepReport& prepare(std::span<const Parameter<T>> parameters);
  // The rule's answer to a pairing, e.g. summed over machines. Not for rules with a memory.
  double eta(double pairing) const;
  const StepReport& apply(double eta);
  // After prepare(), with Execution::undoable: out[l] ← v_l times the layer's lr factor, 0 for a
  // layer that takes no part. apply(η) moves the weights by −γη times it.
  void direction(std::span<const MatrixView<T>> out);
  bool prepared() const { return prepared_; }           // neither applied nor abandoned
  const StepReport& report() const { return report_; }  // of the last step or prepare()
  // Throws what apply(eta) would, and changes nothing: for drivers of several optimizers.
  void require_step(double eta) const;
  // Forgets the prepared directions; the averages keep the gradients, unless Execution::undoable.
  void abandon();
  // The same after an error, as step() does it: the averages are as before prepare(), unless they
  // had to take their gradients in. That is so without Execution::undoable where no step of this
  // optimizer alone could overflow, and for gradients that were overwritten.
  void revert();

  // Scales every weight outside its ball back to the sphere, W_l ← W_l min(1, r_l / ‖W_l‖_l), where
  // the product norm is the maximum (all together else). For weights that start outside, where the
  // rules of constrained methods may stand still (StepReport::stalled). Returns ‖x‖ before.
  double scale_into_balls(std::span<const Parameter<T>> parameters);

  // The averages, low-rank bases and, where the rule needs it, x_0, valid as long as the optimizer.
  // With steps_taken() and rule_memory() they are all that a resumed run needs.
  std::vector<NamedBuffer<T>> state();
  // What the rule has seen: a few numbers, or none for most rules.
  std::span<const double> rule_memory() const { return memory_; }
  // Checks everything first, then copies: on an error nothing has changed. The memory may be left
  // out where the rule has none, or before the first step.
  void load_state(std::span<const NamedBuffer<const T>> buffers, std::int64_t steps_taken,
                  std::span<const double> rule_memory = {});
  std::int64_t steps_taken() const { return step_; }
  // For a caller that put the state back in place itself.
  void set_steps_taken(std::int64_t steps);

  // What may change between steps; a bad value changes nothing.
  void set_lr(Schedule lr);
  void set_alpha(Schedule alpha);
  void set_rule(StepRule rule);  // one of another kind starts with an empty memory
  void set_rho(double rho);      // of a rule that clips; lr stays γρ
  const Method& method() const { return method_; }
  const std::vector<Layer>& layers() const { return layers_; }
  const Execution& execution() const { return execution_; }  // as it was constructed with

 private:
  struct Delete {
    void operator()(detail::Passes<T>* passes) const;
  };
  detail::Passes<T>& passes() const;
  enum class Lines { All, UpToPairing, FromEta };
  void begin(std::span<const Parameter<T>> parameters, bool decides, std::optional<double> loss);
  StepInput rule_input() const;
  double rule_eta() const;
  void run(Lines lines, double given_eta);
  void decide(double eta);
  void clear_report();
  void refuse();
  void require_unprepared(std::string_view where, std::string_view error) const;
  void require_prepared(std::string_view where) const;
  void change(const std::function<void(Method&)>& edit);

  Method method_;
  std::vector<Layer> layers_;
  Execution execution_;
  std::int64_t step_ = 0;
  bool prepared_ = false;
  std::vector<double> memory_;  // of the rule
  double loss_ = no_loss;
  StepReport report_;
  std::unique_ptr<detail::Passes<T>, Delete> passes_;
};

}  // namespace normball
