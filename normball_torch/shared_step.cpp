// What the ranks of a step ask each other before the core does: that all have come with the same
// parameters, weights and averaged gradients.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "normball/base/error.h"
#include "normball_torch/aten_norms.h"
#include "normball_torch/plan.h"
#include "normball_torch/ranks/ranks.h"

namespace normball::optim {
namespace {

using ::torch::Tensor;
constexpr auto step_name = "NormBall::step";

template <class T>
std::vector<T> gathered(ranks::Ranks& ranks, std::span<const T> own) {
  std::vector<T> all(own.size() * static_cast<size_t>(ranks.size()));
  ranks.gather(std::as_bytes(own), std::as_writable_bytes(std::span(all)));
  return all;
}

struct Arrival {
  std::uint64_t failed, ready, compare, members, steps, loss, memory;
};

std::string what_of(const std::exception_ptr& failure) {
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
  return {};
}

// The text of the first rank that failed, in all of them.
std::string reason_of(ranks::Ranks& ranks, size_t rank, const std::exception_ptr& failure) {
  constexpr size_t longest = 1000;
  std::array<char, longest> own = {};
  const std::string text = what_of(failure);
  std::memcpy(own.data(), text.data(), std::min(text.size(), longest - 1));
  const auto all = gathered<char>(ranks, own);
  return "rank " + std::to_string(rank) + ": " + (all.data() + rank * longest);
}

// Of the bytes, eight at a time.
std::uint64_t digest_of(std::span<const std::byte> bytes) {
  std::uint64_t digest = 14695981039346656037u;
  for (size_t i = 0; i < bytes.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<size_t>(8, bytes.size() - i));
    digest = (digest ^ word) * 1099511628211u;
    digest ^= digest >> 29;
  }
  return digest;
}

std::uint64_t digest_of(const Tensor& tensor) {
  const Tensor bytes = plain(tensor.detach());
  return digest_of({static_cast<const std::byte*>(bytes.data_ptr()), bytes.nbytes()});
}

// NaN is one value here.
std::uint64_t bits_of(double loss) {
  return std::bit_cast<std::uint64_t>(loss != loss ? no_loss : loss);
}

// All ranks must decide alike.
void require_same_numbers(const std::vector<Arrival>& all) {
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].steps != all[0].steps) {
      throw ranks::RanksError(normball::error_message(
          step_name, "rank ", rank, " has taken ", all[rank].steps, " steps, rank 0 ", all[0].steps,
          ": all ranks must load the same checkpoint"));
    }
    if (all[rank].loss != all[0].loss) {
      throw ranks::RanksError(normball::error_message(
          step_name, "the loss in rank ", rank, " is ", std::bit_cast<double>(all[rank].loss),
          ", in rank 0 ", std::bit_cast<double>(all[0].loss),
          ": give all ranks that of their batches together"));
    }
    if (all[rank].memory != all[0].memory) {
      throw ranks::RanksError(normball::error_message(step_name, "the stepsize in rank ", rank,
                                                      " has seen other steps than that of rank 0: ",
                                                      "all ranks must load the same checkpoint"));
    }
  }
}

}  // namespace

void NormBall::require_all_ready(bool ready, const std::exception_ptr& failure) {
  ranks::Ranks& ranks = *whole().ranks();
  size_t members = 0;
  if (ready) plan_->for_each_member([&](const Member&) { ++members; });
  const Arrival own{.failed = failure != nullptr,
                    .ready = ready,
                    .compare = ready && !plan_->compared,
                    .members = members,
                    .steps = static_cast<std::uint64_t>(steps_),
                    .loss = bits_of(plan_ ? plan_->loss : no_loss),
                    .memory = digest_of(std::as_bytes(std::span(memory_)))};
  const auto all = gathered<Arrival>(ranks, std::span(&own, 1));
  bool compare = false;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].failed == 0) continue;
    const std::string reason = reason_of(ranks, rank, failure);
    if (failure) std::rethrow_exception(failure);
    throw ranks::RanksError(normball::error_message(step_name, reason));
  }
  require_same_numbers(all);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    compare = compare || all[rank].compare != 0;
    if (all[rank].ready == all[0].ready && all[rank].members == all[0].members) continue;
    throw ranks::RanksError(normball::error_message(
        step_name, "rank ", rank, all[rank].ready == 0 ? " has no gradient at all" : " has ",
        all[rank].ready == 0 ? "" : std::to_string(all[rank].members) + " parameters", ", rank 0 ",
        all[0].ready == 0 ? "none" : "has " + std::to_string(all[0].members) + " with gradients"));
  }
  if (compare) compare_ranks(ranks, *plan_);
}

namespace {

// What ranks with the same weights must have alike, and what to do where they do not.
struct Compared {
  const char *what, *remedy;
};
constexpr std::array<Compared, 4> compared_tensors = {{
    {"weight", "all ranks must start from the same weights"},
    {"gradient", "average the gradients over all ranks before step(), as DDP does"},
    {"momentum", "all ranks must load the same checkpoint"},
    {"start",
     "it is where the stepsize measures distances from: all ranks must load the same checkpoint"},
}};
constexpr size_t momentum_index = 2;

std::uint64_t digest_if(bool compares, const Tensor& tensor) {
  return compares && tensor.defined() ? digest_of(tensor) : 0;
}

}  // namespace

// Once for a plan, of which there is a new one after load() too: a program that forgets to average
// would train as many models as it has ranks. Of the momenta those that are here: most are with one
// rank alone, once steps were taken.
void NormBall::compare_ranks(ranks::Ranks& ranks, Plan& plan) {
  const bool in_parts = whole().gradients_in_parts().value_or(false);
  const bool begun = std::ranges::any_of(memory_, [](double number) { return number != 0; });
  const bool keeps_start = begun && needs_distance(plan.method.rule);  // else this step takes it
  std::vector<std::uint64_t> digests;
  std::vector<std::string> names;
  plan.for_each_member([&](const Member& member) {
    const Tensor& gradient = member.tensor.grad();
    const bool partial = in_parts && member.owner != every_process;
    const Tensor& momentum = member.state->momentum_buffer();
    digests.push_back(digest_of(member.tensor));
    digests.push_back(digest_if(!partial, gradient));
    digests.push_back(digest_if(!is_elsewhere(momentum), momentum));
    digests.push_back(digest_if(keeps_start, member.state->start()));
    names.push_back(member.route->name);
  });
  const auto all = gathered<std::uint64_t>(ranks, digests);
  const size_t count = digests.size(), every = static_cast<size_t>(ranks.size());
  for (size_t value = 0; value < count; ++value) {
    const size_t kind = value % compared_tensors.size();
    const auto has = [&](size_t rank) {
      return kind != momentum_index || all[rank * count + value] != 0;
    };
    size_t first = 0;
    while (first < every && !has(first)) ++first;
    for (size_t rank = first; rank < every; ++rank) {
      if (!has(rank) || all[rank * count + value] == all[first * count + value]) continue;
      throw ranks::RanksError(normball::error_message(
          step_name, "the ", compared_tensors[kind].what, " of '",
          names[value / compared_tensors.size()], "' in rank ", rank, " is not that of rank ",
          first, ": ", compared_tensors[kind].remedy));
    }
  }
  plan.compared = true;
}

// Asks the state itself, which may outlive the plan.
void NormBall::require_whole_state(std::string_view where) const {
  for (const auto& [key, state] : state_) {
    const auto* const own = dynamic_cast<const NormBallParamState*>(state.get());
    if (own == nullptr || !is_elsewhere(own->momentum_buffer())) continue;
    normball::throw_invalid(where, "a momentum is with another rank, its owner: call ",
                            "consolidate_state() in all ranks first");
  }
}

std::vector<int64_t> NormBall::gradient_parts(const Tensor& parameter) {
  if (whole().line_search()) return {};
  Plan& plan = this->plan();
  const auto& ranks = whole().ranks();
  std::vector<int64_t> parts;
  plan.for_each_member([&](const Member& member) {
    if (!ranks || !member.tensor.is_same(parameter) || member.owner == every_process) return;
    if (member.owner == by_rows) {
      const Shape& shape = member.route->blocks.front().shape;
      parts = normball::gradient_parts(shape, by_rows, ranks->size());
    } else {  // of all its matrices
      parts.assign(static_cast<size_t>(ranks->size()), 0);
      parts[static_cast<size_t>(member.owner)] = parameter.numel();
    }
  });
  return parts;
}

namespace {

// The rows of all ranks.
void put_together(Member& member, ranks::Ranks& ranks, ::torch::ScalarType type) {
  const Tensor own = momentum_rows_of(member, type);
  const Shape& shape = member.route->blocks.front().shape;
  const Tensor whole = ::torch::zeros(member.tensor.sizes(), own.options());
  const Tensor matrix = whole.view({shape.rows, shape.cols});
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const Rows rows = rows_of(shape, rank, ranks.size());
    if (rows.count() == 0) continue;
    const Tensor part = matrix.narrow(0, rows.begin, rows.count());
    if (rank == ranks.rank()) part.copy_(own);
    ranks.broadcast(part, rank)->wait();
  }
  member.state->momentum_buffer() = whole;
  member.state->momentum_rows().reset();
}

}  // namespace

void NormBall::consolidate_state() {
  Plan& plan = this->plan();
  const auto& ranks = whole().ranks();
  if (!ranks) return;
  for (const auto& part : plan.parts) part->store_bases();
  plan.for_each_member([&](Member& member) {
    if (member.owner == every_process) return;
    const auto type = compute_type(member.tensor.scalar_type());
    if (member.owner == by_rows) return put_together(member, *ranks, type);
    const auto bring = [&](Tensor& buffer, at::IntArrayRef sizes) {
      if (member.elsewhere) {
        buffer = ::torch::zeros(sizes, member.tensor.options().dtype(type).requires_grad(false));
      }
      ranks->broadcast(buffer, member.owner)->wait();
    };
    if (!member.elsewhere) member.state->momentum_buffer() = momentum_of(member, type);
    bring(member.state->momentum_buffer(), member.tensor.sizes());
    const Index basis = basis_size(*member.route);
    if (basis > 0) bring(member.state->basis(), {basis});
  });
}

}  // namespace normball::optim
