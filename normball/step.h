// What goes into a step and what comes out of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "normball/matrix_view.h"
#include "normball/polar.h"

namespace normball {

// A layer's weight and gradient. Without a gradient the layer takes no part in the step.
template <class T>
struct Parameter {
  MatrixView<T> weight;
  MatrixView<T> gradient;
  bool has_gradient = true;
  // d, with Execution::external_momentum; zero before the first step. Of a layer that Peers divide
  // by rows only those of this process.
  MatrixView<T> momentum = {};
  double lr_factor = 1;  // this layer's lr as a multiple of the method's
  // x_0, with Execution::external_momentum and a rule that measures the distance from it.
  ConstMatrixView<T> start = {};

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
  // The averages live in Parameter::momentum and are the caller's: state() leaves them out. So does
  // x_0, for a rule that needs it, in Parameter::start.
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
  double gamma = 0;           // lr / ρ
  double lr = 0;              // γρ at this step
  bool clipped = false;       // the rule clips, and η was cut at ρ
  double threshold = 0;       // the ρ of a rule that clips, also where it finds it; else 0, as at
                              // the first step of one that finds it, which counts as clipped
  bool stalled = false;       // constrained and s < 0, so η = 0: see scale_into_balls()
  double wolfe_gap = 0;       // s where constrained (for the averaged gradient), else 0
  double direction_norm = 0;  // ‖v‖, where the rule needs it
  double distance = 0;        // ‖x − x_0‖ before the step, where the rule needs it
  double slope = 0;           // Σ_l ⟨d_l, v_l⟩ times the layers' lr factors: see StepInput
  bool skipped = false;       // nothing was done: no gradient at all, or one or s not finite
  std::string nonfinite_layer;  // then: the first layer that is not finite
  std::vector<LayerReport> layers;
};

// A piece of the optimizer's state, in place.
template <class T>
struct NamedBuffer {
  std::string name;
  MatrixView<T> view;
};

}  // namespace normball
