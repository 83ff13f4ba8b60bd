#include "normball/internal/step/shared_step.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "normball/base/error.h"

namespace normball::detail {
namespace {

constexpr size_t longest_text = 1000;

// Bytes that travel between processes of one program on one kind of machine.
struct Arrival {
  StepFacts facts;
  unsigned char problem = 0;
  std::array<unsigned char, 7> unused = {};
};
struct Report {
  unsigned char nonfinite = 0;
  std::array<char, 256> layer = {};
  std::array<char, longest_text> text = {};
};
struct Sums {
  unsigned char problem = 0, taken = 0;
  std::array<unsigned char, 6> unused = {};
};

template <size_t N>
void put(const std::string& text, std::array<char, N>& into) {
  std::memcpy(into.data(), text.data(), std::min(text.size(), N - 1));
}

template <class Message>
std::span<const std::byte> bytes_of(const Message& message) {
  return std::as_bytes(std::span(&message, 1));
}

std::string rank_text(size_t rank) { return "rank " + std::to_string(rank) + ": "; }

// Empty where both are at the same step.
std::string difference(const StepFacts& first, const StepFacts& other) {
  const auto text = [](std::string_view what, auto a, auto b) {
    std::ostringstream out;
    out << what << ' ' << b << ", rank 0 " << a;
    return out.str();
  };
  if (first.step != other.step) return text("is at step", first.step, other.step);
  if (first.lr != other.lr) return text("has the lr", first.lr, other.lr);
  if (first.alpha != other.alpha) return text("has the alpha", first.alpha, other.alpha);
  if (first.loss != other.loss) {
    return text("has the loss", first.loss, other.loss) + ": all must give that of all, averaged";
  }
  if (first.layers != other.layers) return "has gradients for other parameters than rank 0";
  return {};
}

}  // namespace

template <class T>
SharedStep<T>::SharedStep(std::shared_ptr<Peers<T>> peers, size_t layers)
    : peers_(std::move(peers)) {
  for (size_t l = 0; l < layers; ++l) {
    const int owner = owners_.emplace_back(peers_->owner(l));
    if (owner < every_process || owner >= peers_->size()) {
      throw_invalid("Optimizer", "layer ", l, " has the owner ", owner, " of ", peers_->size(),
                    " processes");
    }
  }
}

template <class T>
StepProblem SharedStep<T>::agree(const StepFacts& facts, const StepProblem& own) {
  const auto size = static_cast<size_t>(peers_->size());
  std::vector<Arrival> all(size);
  const Arrival mine{.facts = facts, .problem = !own.text.empty()};
  peers_->gather(bytes_of(mine), std::as_writable_bytes(std::span(all)));
  std::vector<unsigned char> flags;
  flags.reserve(size);
  for (const auto& arrival : all) flags.push_back(arrival.problem);
  if (StepProblem found = first_problem(own, flags); !found.text.empty()) return found;
  for (size_t rank = 1; rank < size; ++rank) {
    const std::string text = difference(all[0].facts, all[rank].facts);
    if (!text.empty()) return {.text = rank_text(rank) + text};
  }
  return {};
}

template <class T>
StepProblem SharedStep<T>::exchange(std::span<LayerSum> sums, const StepProblem& own, bool& taken) {
  peers_->wait();
  const auto size = static_cast<size_t>(peers_->size());
  const size_t length = sizeof(Sums) + sums.size_bytes();
  own_.resize(length);
  all_.resize(length * size);
  const Sums head{.problem = !own.text.empty(), .taken = taken};
  std::memcpy(own_.data(), &head, sizeof head);
  if (!sums.empty()) std::memcpy(own_.data() + sizeof head, sums.data(), sums.size_bytes());
  peers_->gather(own_, all_);
  std::vector<unsigned char> flags;
  taken = false;
  for (size_t rank = 0; rank < size; ++rank) {
    Sums other;
    std::memcpy(&other, all_.data() + rank * length, sizeof other);
    flags.push_back(other.problem);
    taken = taken || other.taken != 0;
  }
  if (StepProblem found = first_problem(own, flags); !found.text.empty()) return found;
  for (size_t l = 0; l < sums.size(); ++l) {
    const auto rank = static_cast<size_t>(std::max(owners_[l], 0));
    std::memcpy(&sums[l], all_.data() + rank * length + sizeof head + l * sizeof(LayerSum),
                sizeof(LayerSum));
  }
  return {};
}

template <class T>
StepProblem SharedStep<T>::first_problem(const StepProblem& own,
                                         std::span<const unsigned char> flags) {
  const auto bad = std::ranges::find_if(flags, [](unsigned char flag) { return flag != 0; });
  if (bad == flags.end()) return {};
  Report mine{.nonfinite = own.nonfinite};
  put(own.layer, mine.layer);
  put(own.text, mine.text);
  std::vector<Report> all(flags.size());
  peers_->gather(bytes_of(mine), std::as_writable_bytes(std::span(all)));
  const auto rank = static_cast<size_t>(bad - flags.begin());
  return {.text = rank_text(rank) + all[rank].text.data(),
          .layer = all[rank].layer.data(),
          .nonfinite = all[rank].nonfinite != 0};
}

template class SharedStep<float>;
template class SharedStep<double>;

}  // namespace normball::detail
