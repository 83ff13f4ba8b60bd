// What stays the same from step to step: the routes of all parameters and the parts that step them.
// Internal.
#pragma once

#include "normball_torch/norm_ball.h"
#include "normball_torch/part.h"

namespace normball::optim {

// What finds the step: the method's rule, or the line search around it.
class Stepsize {
 public:
  Stepsize(StepRule rule, const std::optional<std::string>& line_search);

  const std::optional<SearchRule>& search() const { return search_; }
  size_t memory_size() const;
  std::string text() const;
  void require_memory(std::string_view where, std::span<const double> memory,
                      bool may_be_left_out) const;

 private:
  StepRule rule_;
  std::optional<SearchRule> search_;
};
// Whether two texts are of stepsizes of one kind, which have each other's memory.
bool is_same_kind(std::string_view stepsize, std::string_view other);

struct NormBall::Plan {
  // What a tensor is to routing and to the choice of the part.
  struct Signature {
    const void* tensor;
    const void* data;
    ::torch::ScalarType type;
    ::torch::Device device;
    bool plain;
    bool requires_grad;
    std::vector<int64_t> sizes;

    explicit Signature(const ::torch::Tensor& t);
    bool is_of(const ::torch::Tensor& t) const;
    bool fits_core() const;
  };

  // A parameter of a group; aliases come after all of these.
  struct Entry {
    ::torch::Tensor tensor;
    size_t group;
    bool named;  // by its group
  };

  std::vector<Signature> signatures;     // of the groups' parameters, in order
  std::vector<NormBallOptions> options;  // of the groups, then of the whole
  Method method;
  std::vector<Entry> entries;
  Routing routing;  // one route for each entry
  size_t layer_count = 0;
  std::vector<std::unique_ptr<Part>> parts;
  // What the parts of a step say and get, for their memory.
  struct {
    std::vector<double> pairings, norms, slopes, distances, shares;
  } joint;
  double loss = no_loss;             // of this step, where the stepsize needs it
  std::optional<SearchRule> search;  // where there is one
  std::vector<double> memory_after;  // what it will have seen when the step is taken

  // A tensor's memory in a step.
  struct Span {
    const char *begin, *end;
    const std::string* name;
    const char* what;
    bool written;
  };
  std::vector<Span> spans;  // scratch memory of require_apart()
  bool compared = false;    // the ranks' weights and gradients

  bool any_gradient() const;
  // Throws for a gradient or a momentum on memory that the step writes to. Where there is one part,
  // it sees to that itself.
  void require_apart();
  void abandon();
  // Marks what is the output head here, for a plan with further parameters.
  void keep_heads(std::vector<ParameterInfo>& infos, const std::vector<Entry>& of) const;

  // f(member) for every parameter that takes part.
  template <class F>
  void for_each_member(F&& f) const {
    for (const auto& part : parts) {
      for (auto& member : part->members()) f(member);
    }
  }
};

}  // namespace normball::optim
