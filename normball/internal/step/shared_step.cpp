#include "normball/internal/step/shared_step.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "normball/base/error.h"
#include "normball/internal/step/sign_codes.h"
#include "normball/internal/step/work.h"

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

// A message: what stops the process, the sums, the signs of its rows.
template <class T>
SharedStep<T>::SharedStep(std::shared_ptr<Peers<T>> peers, std::span<const Layer> layers)
    : peers_(std::move(peers)) {
  const int size = peers_->size();
  for (size_t l = 0; l < layers.size(); ++l) {
    const Shape& shape = layers[l].shape;
    SharedLayer layer{.shape = shape, .owner = peers_->owner(l)};
    if (layer.owner < by_rows || layer.owner >= size) {
      throw_invalid("Optimizer", "layer ", l, " has the owner ", layer.owner, " of ", size,
                    " processes");
    }
    if (layer.owner == by_rows && size == 1) layer.owner = every_process;
    if (layer.owner == by_rows) {
      layer.held = {Holding::Kind::Rows, rows_of(shape, peers_->rank(), size)};
      for (Index part = 0; part < part_count(shape); ++part) {
        summers_.push_back(process_with(shape, part * rows_in_a_part(shape)));
      }
    } else {
      const bool here = layer.owner == every_process || layer.owner == peers_->rank();
      if (here) layer.held.rows = {0, shape.rows};
      if (!here) layer.held.kind = Holding::Kind::Nothing;
      summers_.push_back(std::max(layer.owner, 0));
    }
    layers_.push_back(layer);
  }
  auto length = static_cast<Index>(sizeof(Sums) + summers_.size() * sizeof(LayerSum));
  for (auto& layer : layers_) {
    layer.codes = length;
    if (!layer.held.divided()) continue;
    Index most = 0;
    for (int rank = 0; rank < size; ++rank) {
      most = std::max(most, rows_of(layer.shape, rank, size).count());
    }
    length += most * sign_code_bytes(layer.shape.cols);
  }
  own_.resize(static_cast<size_t>(length));
  all_.resize(own_.size() * static_cast<size_t>(size));
}

template <class T>
int SharedStep<T>::process_with(const Shape& shape, Index row) const {
  int rank = 0;
  while (rows_of(shape, rank, peers_->size()).end <= row) ++rank;
  return rank;
}

template <class T>
std::byte* SharedStep<T>::own_codes(size_t layer, Index row) {
  const SharedLayer& shared = layers_[layer];
  return own_.data() + shared.codes +
         (row - shared.held.rows.begin) * sign_code_bytes(shared.shape.cols);
}

template <class T>
const std::byte* SharedStep<T>::codes(size_t layer, Index row) const {
  const SharedLayer& shared = layers_[layer];
  const int rank = process_with(shared.shape, row);
  const Index first = rows_of(shared.shape, rank, peers_->size()).begin;
  const auto message = static_cast<Index>(own_.size()) * rank;
  return all_.data() + message + shared.codes + (row - first) * sign_code_bytes(shared.shape.cols);
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
  const size_t length = own_.size();
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
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto rank = static_cast<size_t>(summers_[i]);
    std::memcpy(&sums[i], all_.data() + rank * length + sizeof head + i * sizeof(LayerSum),
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
