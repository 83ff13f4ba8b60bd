// The passes of a step over a model's layers: on which threads, in which order, and what becomes of
// the averages where a step fails. Internal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "normball/base/parallel.h"
#include "normball/internal/step/layer_step.h"
#include "normball/internal/step/step_checks.h"
#include "normball/internal/step/work.h"
#include "normball/method.h"

namespace normball::detail {

// Of a step, beside its tensors.
struct StepStart {
  std::int64_t step = 0;
  bool first = false;    // for the rule, whose memory is empty: x_0 is where it starts
  bool decides = false;  // the rule does, not a driver
  std::optional<double> loss = {};
};

template <class T>
class Passes {
 public:
  // With peers: layers whose owner is another process are found there.
  Passes(const std::vector<Layer>& layers, const Execution& execution,
         std::shared_ptr<Peers<T>> peers = nullptr);

  std::vector<LayerStep<T>>& layers() { return layers_; }
  const std::vector<LayerStep<T>>& layers() const { return layers_; }

  // Checks everything, then binds the tensors of this step: an error has changed nothing.
  void begin(std::span<const Parameter<T>> parameters, const Method& method,
             const StepStart& start);
  bool idle() const;  // no layer has a gradient

  // body(layer, share) for the parts of every layer that takes part. What may fail comes first and
  // only reads; averages take their gradients in when nothing but the arithmetic of sums is left:
  // see docs/design.md.
  using Find = void (*)(LayerStep<T>& layer, const Share& share);
  void find_directions(Find body);

  void write_directions(std::span<const MatrixView<T>> out);
  // Memory for x_0, where the rule needs it and it is not the caller's.
  void make_starts(const Method& method);

  // Adds up the parts, then the layers: s, or NaN where something is not finite.
  double combine(const Method& method, std::span<LayerReport> reports);
  // What else the rule looks at, beside s; false where something is not finite.
  bool measure(const Method& method, StepReport& report);

  template <class Body>
  void for_each(const Body& body) {
    parallel_for(static_cast<Index>(work_.items.size()), work_.threads, [&](Index i, int thread) {
      const WorkItem& item = work_.items[static_cast<size_t>(i)];
      LayerStep<T>& layer = layers_[item.layer];
      if (layer.takes_part())
        body(layer, Share{item.part, workspaces_[static_cast<size_t>(thread)]});
    });
  }

  void finish();  // all weights have moved
  // Some averages had to take their gradients in before the step was certain: now the others do.
  void settle();
  void keep_gradients() { settled_ = false; }  // ... also where none had to
  void start_afresh();                         // at another step

  // Why s is NaN: the first layer that is not finite, of the first process that has one.
  StepProblem problem();

  // ‖W_l‖_l / r_l of every layer.
  std::span<const double> weight_norms(std::span<const Parameter<T>> parameters);

 private:
  void bind(std::string_view where, std::span<const Parameter<T>> parameters, const Method& method,
            const StepStart& start);
  void measure_distance();
  double slope() const;  // of the layers' pairings: see StepInput
  // ‖v‖, where the rule needs it, else 0.
  double measure_direction(const Method& method);

  // The order in which directions are found.
  enum class Stage { Stored, Overwriting, Elementwise };
  static Stage stage(LayerStep<T>& layer);
  void find_stage(Stage now, Find body);
  bool finite() const {
    return problem_.text.empty() && loss_finite_ &&
           std::ranges::all_of(layers_, &LayerStep<T>::finite);
  }
  StepProblem own_problem();
  void find_stages(Find body);
  void agree(const StepProblem& own);
  void start_sharing();
  void exchange_sums();
  bool may_overflow(const Method& method, std::int64_t step) const;
  void even_out_workspaces();

  std::optional<SharedStep<T>> shared_;
  std::vector<LayerStep<T>> layers_;
  bool undoable_, report_weight_norms_, external_;
  bool measures_distance_ = false, loss_finite_ = true;
  Combination combination_ = Combination::Max;
  double distance_ = 0;
  Work work_;
  std::vector<Workspace> workspaces_;
  std::size_t move_scratch_ = 0;  // bytes that the last pass needs in a workspace
  bool settled_ = true;           // all averages have taken their gradients in, or none
  std::vector<Target<T>> targets_;
  std::vector<double> duals_, shares_, norms_;

  // Of a step that is shared.
  StepFacts facts_;
  StepProblem problem_;         // that all processes know of
  std::exception_ptr failure_;  // of this process, until the others know
  std::vector<LayerSum> sums_;
  std::vector<MatrixView<T>> directions_;
};

}  // namespace normball::detail
