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
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "normball/matrix_view.h"
#include "normball/method.h"
#include "normball/workspace.h"

namespace normball {
namespace detail {
// Whether every piece of a layer has only a part of each length.
constexpr bool lengths_are_partial(Geometry geometry) {
  return geometry == Geometry::Frobenius || geometry == Geometry::ColL2;
}
}  // namespace detail

// A layer's weight and gradient. Without a gradient the layer takes no part in the step.
template <class T>
struct Parameter {
  MatrixView<T> weight;
  MatrixView<T> gradient;
  bool has_gradient = true;
  MatrixView<T> momentum = {};  // d, with Execution::external_momentum; zero before the first step
  double lr_factor = 1;         // this layer's lr as a multiple of the method's

  static Parameter without_gradient(MatrixView<T> weight) {
    return {.weight = weight, .gradient = {}, .has_gradient = false};
  }
};

enum class NonFinite { Throw, Skip };

// Of steps_taken(), far from where counting on would overflow.
constexpr std::int64_t max_steps = std::int64_t{1} << 62;

// How a step is carried out; none of this changes what it computes.
struct Execution {
  int threads = 0;  // 0: OpenMP's default; at most 4096. Results are the same for any number.
  // The gradient buffer of a spectral layer holds −lmo(d) after the step, which saves a buffer.
  bool overwrite_gradients = false;
  // No state at all: the average lives in the gradient buffer. Do not zero gradients between steps;
  // let the backward pass add to them. The buffer is scaled for the alpha of the next step, which
  // must therefore be known in time: by the schedule. set_alpha() refuses another one, and a step a
  // layer that was left out while alpha changed; load_state() and set_steps_taken() start afresh.
  bool light = false;
  // abandon() and revert() leave the averages as they were before prepare(), for drivers of several
  // optimizers of which one may fail. Layers whose direction is not stored then cost one more pass.
  // Gradients that were overwritten are in the averages all the same.
  bool undoable = false;
  // The averages live in Parameter::momentum and are the caller's: state() leaves them out.
  bool external_momentum = false;
  // What to do about NaN or infinity in a gradient or in s (from weights or a user's norm). Weights
  // and state stay as they were either way.
  NonFinite nonfinite = NonFinite::Throw;
  bool report_weight_norms = false;
  bool report_polar_errors = false;
};

struct LayerReport {
  double pairing = 0;      // ⟨d_l, v_l⟩
  double dual_norm = 0;    // r_l ‖d_l‖_l*
  double weight_norm = 0;  // ‖W_l‖_l / r_l before the step, if asked for
  PolarError polar_error;  // if asked for, on spectral layers
};

struct StepReport {
  std::int64_t step = 0;  // k, from 0
  double pairing = 0;     // s; for an unconstrained method the dual norm of d
  double eta = 0;
  double gamma = 0;             // lr / ρ
  double lr = 0;                // γρ at this step
  bool clipped = false;         // the rule clips, and η was cut at ρ
  bool stalled = false;         // constrained and s < 0, so η = 0: see scale_into_balls()
  double wolfe_gap = 0;         // s where constrained (for the averaged gradient), else 0
  double direction_norm = 0;    // ‖v‖, where the rule needs it
  bool skipped = false;         // nothing was done: no gradient at all, or one or s not finite
  std::string nonfinite_layer;  // then: the first layer that is not finite
  std::vector<LayerReport> layers;
};

// A piece of the optimizer's state, in place.
template <class T>
struct NamedBuffer {
  std::string name;
  MatrixView<T> view;
};

template <class T>
class Optimizer {
 public:
  Optimizer(Method method, std::vector<Layer> layers, Execution execution = {});
  Optimizer(Optimizer&&) noexcept = default;
  Optimizer& operator=(Optimizer&&) noexcept = default;
  Optimizer(const Optimizer&) = delete;  // two would share the caller's buffers
  Optimizer& operator=(const Optimizer&) = delete;

  // prepare, rule, apply. One parameter for each layer, in the same order every time. Where no
  // layer has a gradient there is no step, and none is counted. After an exception the weights are
  // as before, and so is the state: a bad gradient, weights that are not finite, a user's norm or a
  // solver that fails, lack of memory, and an s or a step that overflows are all seen in time. But
  // with overwrite_gradients, where a solver fails or s overflows, and where an average was not
  // finite to begin with, every average has taken its gradient in, as after abandon().
  const StepReport& step(std::span<const Parameter<T>> parameters);

  // The two passes apart, for drivers that shard layers over machines or search along v.
  // prepare() finds every v_l; the report then has the pairings. apply() moves the weights by
  // −γ η v. The buffers must live, and the gradients stay unchanged, from one to the other.
  const StepReport& prepare(std::span<const Parameter<T>> parameters);
  double eta(double pairing) const;  // the rule's answer to a pairing, e.g. summed over machines
  const StepReport& apply(double eta);
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

  // The averages and low-rank bases, valid as long as the optimizer. With steps_taken() they are
  // all that a resumed run needs.
  std::vector<NamedBuffer<T>> state();
  // Checks every buffer first, then copies: on an error nothing has changed.
  void load_state(std::span<const NamedBuffer<const T>> buffers, std::int64_t steps_taken);
  std::int64_t steps_taken() const { return step_; }
  // For a caller that put the state back in place itself.
  void set_steps_taken(std::int64_t steps);

  // What may change between steps; a bad value changes nothing.
  void set_lr(Schedule lr);
  void set_alpha(Schedule alpha);
  void set_rule(StepRule rule);
  void set_rho(double rho);  // of a rule that clips; lr stays γρ
  const Method& method() const { return method_; }
  const std::vector<Layer>& layers() const { return layers_; }

 private:
  // A layer's norm on its shape and its memory.
  struct Slot {
    ResolvedNorm norm;
    double radius = 1;
    std::vector<T> momentum = {};
    std::vector<T> direction = {};  // u, where it is stored and not in the gradient buffer
    std::vector<double> lengths = {};
    std::vector<T> polar_state = {};
    std::vector<T> next_polar_state = {};
    double dual = 0;            // r ‖d‖*
    double weight_pairing = 0;  // ⟨d, W⟩ where constrained
    double share = 1;           // of this layer in the product norm's LMO
    double scaled_for = 0;      // the alpha that the light form's buffer awaits; 0: any
  };
  // A share of a layer's rows: what one thread does at a time. Layers whose direction is a
  // function of d are cut into pieces of fixed size, whose partial sums are added in order:
  // independent of the threads.
  struct Piece {
    size_t layer;
    Index begin, end;
    std::vector<double> lengths = {};  // this piece's part of the layer's lengths
    double dual = 0;
    double weight_pairing = 0;
    bool finite = true;
    bool taken = false;  // the average has taken the gradient in
    bool team = false;   // all threads work on it, one such piece after the other
  };

  // What is written to.
  struct Target {
    MatrixView<T> view;
    size_t layer;
    const char* what;
  };

  void plan_pieces();
  void bind(std::span<const Parameter<T>> parameters);
  void require_apart(std::span<const Parameter<T>> parameters);
  void require_targets_apart(std::string_view where);
  void require_scaled_for(std::string_view where, size_t layer, double alpha) const;
  bool may_overflow() const;
  void find_directions();
  // The order in which directions are found.
  enum class Stage { Stored, Overwriting, Elementwise };
  Stage stage(size_t layer) const;
  void find_stage(Stage now);
  void find_piece(Piece& piece, Workspace& workspace, int threads);
  bool inputs_finite(const Piece& piece);
  bool all_pieces_finite() const;
  void combine_layers();
  void measure_direction();
  void measure_weights(std::span<const Parameter<T>> parameters);
  void clear_report();
  const StepReport& refuse();
  void take_gradient(Piece& piece);
  void settle();
  void move_weights(double step);
  void update_piece(Piece& piece, double step, Workspace& workspace);
  bool owns_momentum() const { return !execution_.light && !execution_.external_momentum; }

  // Whether the layer's direction goes where its gradient was.
  bool overwrites(size_t layer) const {
    return execution_.overwrite_gradients && slots_[layer].norm.geometry == Geometry::Operator;
  }

  // Whether its average takes the gradient in with the first pass: where the direction overwrites
  // it, or where nothing can fail any more and a second average would cost time.
  bool takes_early(size_t layer) const {
    if (execution_.light || overwrites(layer)) return !execution_.light;
    return !execution_.undoable && !may_overflow_ && !needs_buffer(slots_[layer].norm.geometry) &&
           !needs_direction_norm(method_.rule);
  }

  MatrixView<T> average(size_t layer);
  ConstMatrixView<T> next_average(size_t layer, Index begin, Index end, Workspace& workspace);
  Direction<T> direction(size_t layer, Piece* piece);
  double unit(size_t layer) const;  // r · scale · share: u times this is −r lmo(d)
  template <class Body>
  void for_each_piece(const Body& body);
  void even_out_workspaces();
  double alpha_at(std::int64_t step) const;
  void change(const std::function<void(Method&)>& edit);

  Method method_;
  std::vector<Layer> layers_;
  Execution execution_;
  std::int64_t step_ = 0;
  bool prepared_ = false;
  bool settled_ = true;        // all averages have taken their gradients in, or none
  double alpha_ = 1;           // of the prepared step
  double next_alpha_ = 1;      // of the step after it, in light form
  bool may_overflow_ = false;  // likewise: s or the step could

  std::vector<Slot> slots_;
  std::vector<Piece> pieces_;
  std::vector<Parameter<T>> parameters_;
  std::vector<Target> targets_;
  std::vector<Workspace> workspaces_;
  size_t update_scratch_ = 0;  // bytes that apply() needs in a workspace
  std::vector<double> duals_, shares_, norms_;
  StepReport report_;
};

}  // namespace normball
