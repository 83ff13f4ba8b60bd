// Where a layer's average d and its direction u live: in buffers of the optimizer, in the caller's,
// or in the gradient's. Execution chooses, and nothing else in a step knows of it. Internal.
#pragma once

#include <string_view>
#include <vector>

#include "normball/internal/geometry.h"
#include "normball/internal/step/holding.h"
#include "normball/step.h"

namespace normball::detail {

// Throws for modes that exclude each other.
void validate(const Execution& execution);

template <class T>
class StepBuffers {
 public:
  StepBuffers(const Execution& execution, const Shape& shape, const GeometryRules& rules,
              const Holding& held);

  // The tensors and weights of the newest gradient of this step and of the next.
  void bind(const Parameter<T>& parameter, double alpha, double next_alpha);
  // Whether the average takes the gradient in as soon as the direction is looked for: where the
  // direction overwrites the gradient, or where nothing can fail any more (`certain`) and a second
  // average would cost time.
  void choose_early(bool certain) { early_ = overwrites() || (!light_ && !stored_ && certain); }
  bool early() const { return early_; }
  // Whether a step that fails after its first pass would leave traces: what can be seen to be bad
  // must be seen before.
  bool must_look_ahead() const { return early_ || some_overwrite_; }

  // What a step reads and writes: the rows that this process has. The light form keeps d / alpha: d
  // is scale() times this.
  MatrixView<T> average();
  MatrixView<T> average(Index begin, Index end) {  // rows of the layer
    return average().row_range(begin - held_.rows.begin, end - held_.rows.begin);
  }
  double scale() const { return light_ ? alpha_ : 1; }
  // u, where it is stored.
  MatrixView<T> direction();
  bool stored() const { return stored_; }
  // Whether the direction goes where the gradient was.
  bool overwrites() const { return stored_ && direction_in_gradient_; }
  bool writes_gradient() const { return light_ || overwrites(); }
  bool writes_momentum() const { return external_ && !held_.elsewhere(); }
  bool takes_momentum() const { return external_; }
  bool owns_average() const { return !light_ && !external_ && !held_.elsewhere(); }

  // Rows of the average as the step will leave it: in scratch memory, unless it is in place.
  ConstMatrixView<T> next_average(Index begin, Index end, Workspace& workspace);
  // d ← α g + (1−α) d on these rows, in place.
  void take_gradient(Index begin, Index end);
  // After the step: what the light form adds the next gradient to.
  void scale_for_next_gradient(Index begin, Index end);
  void expect_next_alpha() { scaled_for_ = light_ ? next_alpha_ : 0; }
  void forget_alpha() { scaled_for_ = 0; }
  // What the next gradient will be added to cannot be scaled anew: throws for another alpha.
  void require_scaled_for(std::string_view where, std::string_view layer, double alpha) const;

 private:
  bool light_, external_, stored_;
  bool some_overwrite_;  // of all layers
  bool direction_in_gradient_;
  bool early_ = false;
  Shape shape_;
  Holding held_;
  std::vector<T> own_average_, own_direction_;
  Parameter<T> parameter_ = {};
  double alpha_ = 1, next_alpha_ = 1;
  double scaled_for_ = 0;  // the alpha that the light form's buffer awaits; 0: any
};

}  // namespace normball::detail
