// The joint step of all parts: one s, one η.
#include "normball/joint_step.h"

#include <algorithm>
#include <utility>

#include "normball/base/error.h"
#include "normball_torch/aten_norms.h"
#include "normball_torch/plan.h"

namespace normball::optim {

void NormBall::step_with_gradients(const GivenLoss& loss) {
  const bool shared = defaults_ && whole().ranks();
  bool ready = false;
  std::exception_ptr failure;
  try {
    ready = get_ready(loss);
  } catch (...) {
    if (!shared) throw;
    failure = std::current_exception();  // the others must know
  }
  if (shared) require_all_ready(ready, failure);
  if (!ready) return;
  Plan& plan = *plan_;
  try {
    combine(plan);
  } catch (...) {
    plan.abandon();
    throw;
  }
  if (report_.skipped) return;
  ++steps_;
  warn_of_a_stall(plan);
}

// All checks that need no other rank; whether there is a gradient at all.
bool NormBall::get_ready(const GivenLoss& loss) {
  Plan& plan = this->plan();
  plan.loss = no_loss;
  search_report_.reset();
  if (plan.search && evaluate_ == nullptr) {
    normball::throw_invalid("NormBall::step", "the line search '", *plan.search, "' evaluates the ",
                            "loss at other weights: call step(closure), or step(loss, evaluate)");
  }
  if (!plan.any_gradient()) return false;
  plan.for_each_member(require_fitting);
  if (plan.parts.size() > 1) plan.require_apart();
  const double lr = set_lrs(plan);
  for (const auto& part : plan.parts) part->set_lr(lr);
  return take_loss(plan, loss, lr);
}

// Whether there is one, where the rule needs it.
bool NormBall::take_loss(Plan& plan, const GivenLoss& loss, double lr) {
  constexpr auto where = "NormBall::step";
  const StepRule& rule = plan.method.rule;
  if (!needs_loss(rule) && !plan.search) return true;
  const auto given = loss();
  if (!plan.search) require_loss(where, rule, given);
  plan.loss = *given;
  if (std::isfinite(plan.loss)) return true;
  if (!whole().skip_nonfinite().value_or(false)) {
    throw NonFiniteError(
        normball::error_message(where, "the loss is ", plan.loss, "; nothing was changed"));
  }
  StepReport because;
  because.lr = lr;
  because.gamma = lr / rho(rule);
  skip(plan, because);
  return false;
}

// Changing the numbers of a rule keeps its memory, another rule starts with an empty one.
void NormBall::remember_for(const Stepsize& stepsize) {
  const size_t size = stepsize.memory_size();
  if (!is_same_kind(stepsize.text(), remembering_) || memory_.size() != size) {
    memory_.assign(size, 0);
  }
  remembering_ = stepsize.text();
}

// x_0 is where the rule starts.
void NormBall::take_starts(Plan& plan) {
  const bool first = std::ranges::all_of(memory_, [](double number) { return number == 0; });
  plan.for_each_member([&](Member& member) {
    ::torch::Tensor& start = member.state->start();
    if (first) start.reset();
    start = start_of(member, compute_type(member.tensor.scalar_type()));
  });
}

// A rule's lr keeps its ratio to the group's.
double NormBall::lr_of(const Plan& plan, size_t group, const Route& route) {
  double own = group_options(group).get_lr();
  if (route.lr) {
    const double first = first_lrs_[group];
    if (first == 0) {
      normball::throw_invalid("NormBall", "a rule gives '", route.name, "' the lr ", *route.lr,
                              ", which follows its group's; that started at 0, so there is no ",
                              "ratio to keep");
    }
    own *= *route.lr / first;
  }
  require_lr("NormBall", plan.method, own, route.name);
  return own;
}

// Every member's lr as a factor of the largest of the groups', which is returned.
double NormBall::set_lrs(Plan& plan) {
  double lr = 0;
  for (size_t g = 0; g < param_groups_.size(); ++g) {
    const double own = group_options(g).get_lr();
    if (!(std::isfinite(own) && own >= 0)) {
      normball::throw_invalid("NormBall::step", "the lr of group ", g,
                              " must be finite and not negative, got ", own);
    }
    lr = std::max(lr, own);
  }
  plan.for_each_member([&](Member& member) {
    const double own = lr_of(plan, member.group, *member.route);
    member.lr_factor = lr == 0 ? 1 : own / lr;
  });
  return lr;
}

// Pass one: every v_l and its pairing. Then one η. Pass two: the weights.
void NormBall::combine(Plan& plan) {
  const bool follows = report_.step + 1 == steps_ && !report_.skipped;
  const double last = follows ? report_.gamma * report_.eta : 0;
  auto& [pairings, norms, slopes, distances, shares] = plan.joint;
  for (auto* const numbers : {&pairings, &norms, &slopes, &distances}) numbers->clear();
  if (needs_distance(plan.method.rule)) take_starts(plan);
  for (const auto& part : plan.parts) {
    const StepReport& own = part->prepare();
    if (own.skipped) return skip(plan, own);
    pairings.push_back(own.pairing);
    norms.push_back(own.direction_norm);
    slopes.push_back(own.slope);
    distances.push_back(own.distance);
  }
  shares.resize(pairings.size());
  JointStep joint = join_parts(plan.method, {pairings, norms, slopes, distances},
                               {.step = steps_,
                                .gamma = plan.parts.front()->report().gamma,
                                .alpha = plan.method.alpha.at(steps_),
                                .loss = plan.loss,
                                .memory = memory_},
                               shares);
  if (!std::isfinite(joint.pairing + joint.direction_norm + joint.input.distance)) {
    if (whole().skip_nonfinite().value_or(false)) return skip(plan, plan.parts.front()->report());
    throw NonFiniteError(normball::error_message("NormBall::step", "s = ", joint.pairing,
                                                 " and the norm of v = ", joint.direction_norm,
                                                 " must be finite; nothing was changed"));
  }
  try {
    if (plan.search) search(plan, joint);
  } catch (const NonFiniteError&) {
    if (whole().skip_nonfinite().value_or(false)) return skip(plan, plan.parts.front()->report());
    throw;
  }
  try {
    for (size_t p = 0; p < plan.parts.size(); ++p) plan.parts[p]->check(joint.eta * shares[p]);
  } catch (const std::invalid_argument& error) {
    if (whole().skip_nonfinite().value_or(false)) return skip(plan, plan.parts.front()->report());
    throw NonFiniteError(normball::error_message("NormBall::step", "at s = ", joint.pairing, ": ",
                                                 error.what(), "; nothing was changed"));
  }
  const std::string standstill = normball::standstill(plan.method.rule, joint.input, last);
  for (size_t p = 0; p < plan.parts.size(); ++p) plan.parts[p]->apply(joint.eta * shares[p]);
  write_report(plan, joint);
  if (!standstill.empty() && !std::exchange(warned_, true)) {
    TORCH_WARN("[NormBall::step] ", standstill);
  }
  if (plan.search) {
    memory_ = plan.memory_after;
  } else {
    remember(plan.method.rule, joint.input, joint.eta, memory_);
  }
}

void NormBall::write_report(const Plan& plan, const JointStep& joint) {
  const StepReport& first = plan.parts.front()->report();
  report_.step = first.step;
  report_.lr = first.lr;
  report_.gamma = first.gamma;
  report_.pairing = joint.pairing;
  report_.direction_norm = joint.direction_norm;
  report_.wolfe_gap = joint.wolfe_gap;
  report_.eta = joint.eta;
  report_.clipped = joint.clipped;
  report_.threshold = threshold(plan.method.rule, memory_);
  report_.distance = joint.input.distance;
  report_.slope = joint.input.slope;
  report_.stalled = joint.stalled;
  report_.skipped = false;
  report_.nonfinite_layer.clear();
  report_.layers.assign(plan.layer_count, {});
  for (const auto& part : plan.parts) {
    auto layer = part->report().layers.begin();
    for (const auto& member : part->members()) {
      for (size_t b = 0; b < member.route->blocks.size(); ++b) {
        report_.layers[member.first_layer + b] = *layer++;
      }
    }
  }
}

void NormBall::skip(Plan& plan, const StepReport& because) {
  StepReport report;
  report.step = steps_;
  report.lr = because.lr;
  report.gamma = because.gamma;
  report.skipped = true;
  report.nonfinite_layer = because.nonfinite_layer;
  plan.abandon();
  report_ = std::move(report);
}

// Once: a run that stands still would say it at every step.
void NormBall::warn_of_a_stall(Plan& plan) {
  if (!report_.stalled || warned_) return;
  warned_ = true;
  const auto worst = std::ranges::min_element(report_.layers, {}, &LayerReport::pairing);
  const auto index = static_cast<size_t>(worst - report_.layers.begin());
  TORCH_WARN("[NormBall::step] s = ", report_.pairing,
             " is negative: weights lie outside of their ", "balls (above all '",
             plan.routing.layers()[index].name, "'), and the constrained ",
             "step has length 0. Nothing moves. Call scale_into_balls() once, start from ",
             "initialize(), or give larger radii.");
}

}  // namespace normball::optim
