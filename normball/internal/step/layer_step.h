// One layer's part of a step: its norm and radius on its shape, its buffers, and the lines of the
// algorithm for it. A layer may be worked on in several parts of its rows at once. Internal.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "normball/internal/step/shared_step.h"
#include "normball/internal/step/step_buffers.h"
#include "normball/product_norm.h"

namespace normball::detail {

// Some rows of a layer, and what a thread has for them.
struct Share {
  size_t part;
  Workspace& workspace;
  int threads = 1;
};

template <class T>
class LayerStep {
 public:
  LayerStep(const Layer& layer, const Execution& execution, const Holding& held);
  void add_part(Index begin, Index end);  // parts in the order of their rows
  // Of a divided layer, for all steps: where its sign codes go here and where all of them come in.
  void connect(SharedStep<T>& shared, size_t layer);

  void bind(const Parameter<T>& parameter, bool constrained, double alpha, double next_alpha);
  bool takes_part() const { return parameter_.has_gradient; }
  bool elsewhere() const { return held_.elsewhere(); }  // another process finds the direction
  bool has(size_t part) const { return held_.has(parts_[part].begin); }
  const std::string& name() const { return name_; }
  const Shape& shape() const { return shape_; }
  const Parameter<T>& parameter() const { return parameter_; }
  const GeometryRules& rules() const { return rules_; }
  StepBuffers<T>& buffers() { return buffers_; }

  // The algorithm. v is never formed: with u = −lmo of the geometry, v = unit() u, and W more where
  // constrained.
  void look_ahead(size_t part);
  ConstMatrixView<T> average(const Share& share);
  void find_direction(ConstMatrixView<T> d, const Share& share);
  void add_up_parts();  // of a divided layer when it has those of all: take_sums()
  void move(double step, const Share& share);

  // Whether all that was met so far is.
  bool finite() const;
  // What of it is not: "gradient", "momentum", "weight", or null.
  const char* nonfinite_input();
  void take_gradient(size_t part);

  double dual() const { return dual_; }                      // r ‖d‖*
  double weight_pairing() const { return weight_pairing_; }  // ⟨d, W⟩ where constrained
  double unit() const { return radius_ * norm_.scale * share_; }
  double radius() const { return norm_.scale * radius_; }  // in the geometry
  // What processes tell each other: one for a layer, for a divided one one for each part. take_sums
  // returns the rest.
  void append_sums(std::vector<LayerSum>& sums) const;
  std::span<const LayerSum> take_sums(std::span<const LayerSum> sums);
  void set_share(double share) { share_ = share; }
  LayerReport& report() { return report_; }

  double weight_norm(ConstMatrixView<T> weight, Workspace& workspace) const;  // ‖W‖ / r
  double direction_norm(Workspace& workspace);                                // ‖v‖ / r
  void write_direction(MatrixView<T> out, Workspace& workspace);  // v times the lr factor
  void make_start();                                              // memory for x_0
  void take_start(ConstMatrixView<T> weight);
  MatrixView<T> start();                  // that memory, or empty
  double distance(Workspace& workspace);  // ‖W − W_0‖ / r
  std::size_t move_scratch() const;       // bytes that move() needs in a workspace
  Shape held_shape() const { return {held_.rows.count(), shape_.cols}; }  // of the average

  // What a solver keeps between steps (the basis of a low-rank one), rows as long as the longer
  // side; else empty.
  MatrixView<T> solver_state();

 private:
  // Results of a part of the rows.
  struct Part {
    Index begin, end;
    std::vector<double> lengths = {};  // this part's part of the layer's lengths
    double dual = 0;
    double weight_pairing = 0;
    bool finite = true;
    bool taken = false;  // the average has taken the gradient in
    std::byte* own_codes = nullptr;
    const std::byte* codes = nullptr;
  };

  Direction<T> direction(Part* own, Index begin);
  ConstMatrixView<T> whole_average(Workspace& workspace);
  template <class Body>
  void naming(const Body& body) const;

  std::string name_;
  Shape shape_;
  ResolvedNorm norm_;
  const GeometryRules& rules_;
  double radius_;
  bool report_polar_error_;
  Holding held_;
  StepBuffers<T> buffers_;
  std::vector<double> lengths_;
  std::vector<T> start_;               // W_0, where the rule needs it and it is not the caller's
  std::vector<T> state_, next_state_;  // what a solver keeps, before and after this step
  std::vector<Part> parts_;

  Parameter<T> parameter_ = Parameter<T>::without_gradient({});
  bool constrained_ = false;
  double dual_ = 0, weight_pairing_ = 0;
  double share_ = 1;  // of this layer in the product norm's LMO
  LayerReport report_ = {};
};

}  // namespace normball::detail
