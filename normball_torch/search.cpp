// Steps with a line search: the loss at trial weights, and everything back in its place.
#include <algorithm>
#include <cmath>

#include "normball/base/error.h"
#include "normball/joint_step.h"
#include "normball/line_search.h"
#include "normball_torch/aten_norms.h"
#include "normball_torch/plan.h"
#include "normball_torch/ranks/ranks.h"

namespace normball::optim {
namespace {

using ::torch::Tensor;
constexpr auto searching_step = "NormBall::step";

// What a rank's evaluation gave.
struct Evaluated {
  double loss = 0;
  double failed = 0;
};

// The loss of a trial, which all ranks must see alike: they decide by it.
double evaluate_together(const std::function<double()>& evaluate, ranks::Ranks* ranks) {
  if (ranks == nullptr) return evaluate();
  Evaluated own;
  std::exception_ptr failure;
  try {
    own.loss = evaluate();
  } catch (...) {
    failure = std::current_exception();  // the others must know
    own.failed = 1;
  }
  std::vector<Evaluated> all(static_cast<size_t>(ranks->size()));
  ranks->gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  if (failure) std::rethrow_exception(failure);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].failed != 0) {
      throw ranks::RanksError(normball::error_message(searching_step,
                                                      "the evaluation of the loss in rank ", rank,
                                                      " has failed; nothing was changed"));
    }
    const bool same =
        all[rank].loss == all[0].loss || (std::isnan(all[rank].loss) && std::isnan(all[0].loss));
    if (same) continue;
    throw ranks::RanksError(normball::error_message(
        searching_step, "the loss of a trial in rank ", rank, " is ", all[rank].loss,
        ", in rank 0 ", all[0].loss,
        ": give all ranks that of their batches together; nothing was changed"));
  }
  return own.loss;
}

// The weights of a step, x and v times its share, while trials move them.
class Trials {
 public:
  Trials(const std::vector<std::unique_ptr<Part>>& parts, const std::vector<double>& shares) {
    for (size_t p = 0; p < parts.size(); ++p) {
      const auto directions = parts[p]->directions();
      for (size_t i = 0; i < directions.size(); ++i) {
        const Member& member = parts[p]->members()[i];
        if (!member.tensor.grad().defined()) continue;
        const Tensor weight = member.tensor.detach();
        moved_.push_back({weight, weight.clone(), shares[p] * directions[i]});
        const Tensor gradient = gradient_of(member, directions[i].scalar_type());
        const Tensor products = gradient * moved_.back().direction;
        slope_ += products.sum(::torch::kFloat64).item<double>();
        longest_factor_ = std::max(longest_factor_, member.lr_factor);
      }
    }
  }
  ~Trials() { move(0); }
  Trials(const Trials&) = delete;
  Trials& operator=(const Trials&) = delete;

  double slope() const { return slope_; }
  double longest_factor() const { return longest_factor_; }

  void move(double t) const {
    for (const auto& [weight, start, direction] : moved_) {
      weight.copy_(t == 0 ? start : start.to(direction.scalar_type()).sub(direction, t));
    }
  }

 private:
  struct Moved {
    Tensor weight, start, direction;
  };
  std::vector<Moved> moved_;
  double slope_ = 0, longest_factor_ = 0;
};

// Gradients put aside, so that a closure may compute others.
class KeptGradients {
 public:
  explicit KeptGradients(const std::vector<::torch::optim::OptimizerParamGroup>& groups) {
    for (const auto& group : groups) {
      for (const auto& tensor : group.params()) kept_.emplace_back(tensor, tensor.grad());
    }
    clear();
  }
  ~KeptGradients() { restore(); }
  KeptGradients(const KeptGradients&) = delete;
  KeptGradients& operator=(const KeptGradients&) = delete;

  void clear() {
    for (auto& [tensor, gradient] : kept_) tensor.mutable_grad() = Tensor();
  }
  bool any() const {
    return std::ranges::any_of(kept_, [](const auto& each) { return each.first.grad().defined(); });
  }
  void restore() {
    for (auto& [tensor, gradient] : kept_) tensor.mutable_grad() = gradient;
  }
  // The gradients that are there now stay.
  void keep_new() {
    for (auto& [tensor, gradient] : kept_) gradient = tensor.grad();
  }

 private:
  std::vector<std::pair<Tensor, Tensor>> kept_;
};

double number_of(const Tensor& loss) {
  if (loss.defined() && loss.numel() == 1) return loss.item<double>();
  normball::throw_invalid(searching_step, "the closure must return the loss, one number");
}

}  // namespace

Stepsize::Stepsize(StepRule rule, const std::optional<std::string>& line_search)
    : rule_(std::move(rule)) {
  if (line_search) search_ = parse_line_search(*line_search);
}

size_t Stepsize::memory_size() const {
  return search_ ? normball::memory_size(*search_) : normball::memory_size(rule_);
}

std::string Stepsize::text() const { return search_ ? to_string(*search_) : to_string(rule_); }

void Stepsize::require_memory(std::string_view where, std::span<const double> memory,
                              bool may_be_left_out) const {
  if (!search_) return require_rule_memory(where, rule_, memory, may_be_left_out);
  if (memory.empty() && may_be_left_out) return;
  require_search_memory(where, *search_, memory);
}

bool is_same_kind(std::string_view stepsize, std::string_view other) {
  const auto name = [](std::string_view text) { return text.substr(0, text.find('(')); };
  return name(stepsize) == name(other);
}

Stepsize NormBall::stepsize() const { return {method().rule, whole().line_search()}; }

// Finds η, with the weights as they were afterwards.
void NormBall::search(Plan& plan, JointStep& joint) {
  ranks::Ranks* const ranks = whole().ranks().get();
  const double gamma = plan.parts.front()->report().gamma;
  const Trials trials(plan.parts, plan.joint.shares);
  SearchInput input{.loss = plan.loss, .slope = trials.slope(), .own = gamma * joint.eta};
  if (plan.method.constrained) input.longest = 1 / trials.longest_factor();
  std::vector<double> memory = memory_;
  search_report_ = search_along(*plan.search, input, memory, [&](double t) {
    trials.move(t);
    return evaluate_together(evaluate_, ranks);
  });
  joint.eta = search_report_->step > 0 ? search_report_->step / gamma : 0;
  plan.memory_after = std::move(memory);
}

void NormBall::step(double loss, const std::function<double()>& evaluate) {
  if (!whole().line_search()) {
    normball::throw_invalid(searching_step,
                            "there is no line search that would evaluate the loss: set the ",
                            "option line_search, or call step(loss)");
  }
  const ::torch::NoGradGuard no_grad;
  evaluate_ = evaluate;
  try {
    step_with_gradients([loss] { return std::optional(loss); });
  } catch (...) {
    evaluate_ = nullptr;
    throw;
  }
  evaluate_ = nullptr;
}

Tensor NormBall::step_by_closure(const LossClosure& closure) {
  KeptGradients gradients(param_groups_);
  Tensor loss;
  bool backward = false;
  {
    const ::torch::AutoGradMode enable_grad(true);
    loss = closure();
    number_of(loss);
    backward = gradients.any();
    if (!backward && !loss.requires_grad()) {
      normball::throw_invalid(searching_step, "the closure has no gradient: compute the loss in ",
                              "it, with backward() or without");
    }
    if (!backward) loss.backward();
  }
  gradients.keep_new();
  step(loss.item<double>(), [&] {
    if (!backward) return number_of(closure());
    gradients.clear();
    try {
      const ::torch::AutoGradMode enable_grad(true);
      const double found = number_of(closure());
      gradients.restore();
      return found;
    } catch (...) {
      gradients.restore();  // what was prepared looks at them
      throw;
    }
  });
  return loss.detach();
}

}  // namespace normball::optim
