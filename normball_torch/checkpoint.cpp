// The state of the parameters, and LibTorch's archives of it.
#include <algorithm>

#include "normball/base/error.h"
#include "normball_torch/aten_norms.h"
#include "normball_torch/plan.h"

namespace normball::optim {

using ::torch::Tensor;

NormBallParamState* NormBall::find_state(const Member& member) const {
  const auto found = state_.find(member.key);
  return found == state_.end() ? nullptr : static_cast<NormBallParamState*>(found->second.get());
}

NormBallParamState& NormBall::state_of(const Tensor& parameter) {
  auto& state = state_[state_key(parameter)];
  if (!state) state = std::make_unique<NormBallParamState>();
  return static_cast<NormBallParamState&>(*state);
}

// The state belongs to the user as well, who may have cleared it.
void NormBall::find_states() const {
  plan_->for_each_member([&](Member& member) {
    if (find_state(member) != member.state) member.state = nullptr;
  });
}

std::vector<std::pair<std::string, Tensor>> NormBall::layer_state() {
  const Plan& now = plan();
  require_whole_state("NormBall::layer_state");
  for (const auto& part : now.parts) part->store_bases();
  std::vector<std::pair<std::string, Tensor>> result;
  for (size_t i = 0; i < now.routing.routes.size(); ++i) {
    const Route& route = now.routing.routes[i];
    if (route.blocks.empty()) continue;
    const Tensor& tensor = now.entries[i].tensor;
    Member member{.tensor = tensor, .route = &route, .state = &state_of(tensor)};
    const auto type = compute_type(tensor.scalar_type());
    member.state->momentum_buffer() = momentum_of(member, type);
    Tensor& basis = member.state->basis();
    const Index total = basis_size(route);
    if (total > 0 && !(basis.defined() && basis.numel() == total)) {
      basis = ::torch::zeros({total}, tensor.options().dtype(type).requires_grad(false));
    }
    Index offset = 0;
    for (const auto& block : route.blocks) {
      result.emplace_back("momentum." + block.name,
                          block_view(member.state->momentum_buffer(), block));
      const Index own = basis_size(block, route.norm);
      if (own == 0) continue;
      const Index longer = std::max(block.shape.rows, block.shape.cols);
      result.emplace_back("basis." + block.name,
                          basis.narrow(0, offset, own).view({own / longer, longer}));
      offset += own;
    }
    if (!needs_distance(now.method.rule)) continue;
    member.state->start() = start_of(member, type);
    for (const auto& block : route.blocks) {
      result.emplace_back("start." + block.name, block_view(member.state->start(), block));
    }
  }
  return result;
}

const std::vector<double>& NormBall::rule_memory() {
  plan();
  return memory_;
}

void NormBall::set_steps_taken(int64_t steps, std::span<const double> rule_memory) {
  constexpr auto here = "NormBall::set_steps_taken";
  if (steps < 0 || steps > max_steps) {
    normball::throw_invalid(here, "the number of steps must be from 0 to ", max_steps, ", got ",
                            steps);
  }
  const Stepsize own = stepsize();
  own.require_memory(here, rule_memory, steps == 0);
  steps_ = steps;
  memory_.assign(rule_memory.begin(), rule_memory.end());
  remembering_ = own.text();
  plan_.reset();  // its parts have bases and counts of their own
}

void NormBall::save(::torch::serialize::OutputArchive& archive) const {
  require_whole_state("NormBall::save");
  if (plan_) {
    find_states();
    for (const auto& part : plan_->parts) part->store_bases();
  }
  ::torch::optim::serialize<NormBallParamState, NormBallOptions>(archive, *this);
  archive.write("steps", ::torch::IValue(steps_));
  archive.write("method", ::torch::IValue(method_));
  archive.write("first_lrs", ::torch::IValue(first_lrs_));
  if (memory_.empty()) return;
  archive.write("stepsize", ::torch::IValue(remembering_));
  archive.write("stepsize_memory", ::torch::IValue(memory_));
}

namespace {

// What the file's stepsize has seen; nothing where it has none.
std::vector<double> read_memory(std::string_view where, ::torch::serialize::InputArchive& archive,
                                const Stepsize& own) {
  ::torch::IValue text, numbers;
  if (!archive.try_read("stepsize", text) || !archive.try_read("stepsize_memory", numbers)) {
    return {};
  }
  if (!text.isString() || !numbers.isDoubleList()) {
    normball::throw_invalid(where, "the file's stepsize_memory is not a list of numbers");
  }
  if (!is_same_kind(text.toStringRef(), own.text())) {
    normball::throw_invalid(where, "this file is from the stepsize '", text.toStringRef(),
                            "', but that of this optimizer is '", own.text(),
                            "': create one with the file's stepsize");
  }
  const std::vector<double> memory = numbers.toDoubleVector();
  own.require_memory(where, memory, false);
  return memory;
}

// Throws for a state that a step could not go on with. Where the file's stepsize has a start, every
// parameter that was stepped has one.
void require_saved(std::string_view where, const std::string& whose, const Tensor& parameter,
                   const NormBallParamState& state, bool keeps_start) {
  for (const auto& [what, saved] :
       {std::pair("momentum", state.momentum_buffer()), std::pair("start", state.start())}) {
    if (!saved.defined()) continue;
    if (saved.sizes() != parameter.sizes()) {
      normball::throw_invalid(where, "the saved ", what, " of ", whose, " has the shape ",
                              saved.sizes(), ", the parameter ", parameter.sizes());
    }
    if (!at::isFloatingType(saved.scalar_type())) {
      normball::throw_invalid(where, "the saved ", what, " of ", whose, " has the type ",
                              saved.scalar_type(), "; it must be real floating-point");
    }
    if (!saved.isfinite().all().item<bool>()) {
      normball::throw_invalid(where, "the saved ", what, " of ", whose,
                              " has an entry that is not finite");
    }
  }
  if (keeps_start && state.momentum_buffer().defined() && !state.start().defined()) {
    normball::throw_invalid(where, "the file has no start of ", whose,
                            ", from which its stepsize measures distances");
  }
}

}  // namespace

// On an error nothing has changed. Options are the program's: LibTorch 2 would replace them by what
// the archive has, which is not all of them.
void NormBall::load(::torch::serialize::InputArchive& archive) {
  constexpr auto here = "NormBall::load";
  check_groups();
  ::torch::IValue steps;
  if (!archive.try_read("steps", steps) || !steps.isInt() || steps.toInt() < 0 ||
      steps.toInt() > max_steps) {
    normball::throw_invalid(
        here, "this file has no count of steps: it is not the state of an ",
        "optimizer of this library; it may belong to another optimizer or to a model");
  }
  ::torch::IValue method;  // files of before have none
  if (archive.try_read("method", method) && method.isString() && method.toStringRef() != method_) {
    normball::throw_invalid(here, "this file is from the method '", method.toStringRef(),
                            "', but this optimizer is '", method_,
                            "': create one with the file's method");
  }
  const Stepsize own = stepsize();
  const std::vector<double> memory = read_memory(here, archive, own);
  const bool begun = std::ranges::any_of(memory, [](double number) { return number != 0; });
  const bool keeps_start = begun && needs_distance(this->method().rule);
  std::vector<NormBallOptions> options;
  for (size_t g = 0; g < param_groups_.size(); ++g) options.push_back(group_options(g));
  const auto restore_options = [&] {
    for (size_t g = 0; g < options.size(); ++g) group_options(g) = options[g];
  };
  auto before = std::move(state_);
  state_.clear();
  try {
    ::torch::optim::serialize<NormBallParamState, NormBallOptions>(archive, *this);
    restore_options();
    for (size_t g = 0; g < param_groups_.size(); ++g) {
      const auto& parameters = param_groups_[g].params();
      for (size_t i = 0; i < parameters.size(); ++i) {
        const auto& names = options[g].names();
        require_saved(here,
                      names.empty()
                          ? "parameter " + std::to_string(i) + " of group " + std::to_string(g)
                          : "'" + names[i] + "'",
                      parameters[i], state_of(parameters[i]), keeps_start);
      }
    }
  } catch (const c10::Error& error) {
    restore_options();
    state_ = std::move(before);
    normball::throw_invalid(
        here, "the file does not fit this optimizer: ", error.what_without_backtrace());
  } catch (...) {
    restore_options();
    state_ = std::move(before);
    throw;
  }
  steps_ = steps.toInt();
  memory_ = memory;
  remembering_ = own.text();
  ::torch::IValue first_lrs;  // files of before have none
  if (archive.try_read("first_lrs", first_lrs) && first_lrs.isDoubleList() &&
      first_lrs.toDoubleVector().size() == first_lrs_.size()) {
    first_lrs_ = first_lrs.toDoubleVector();
  }
  plan_.reset();  // it points into the state of before
}

}  // namespace normball::optim
