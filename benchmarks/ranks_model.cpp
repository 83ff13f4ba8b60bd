#include "benchmarks/ranks_model.h"

#include <algorithm>
#include <numeric>

#include "normball/base/error.h"

namespace normball::benchmarks {
namespace {

constexpr double backward_share = 2.0 / 3;  // of both passes: two products for the forward's one
// A step's questions to all: of the loss, of what is ready, of steps and lr, of the sums, whether
// to stop.
constexpr int questions = 5;

double bytes_of(const Layer& layer) {
  return static_cast<double>(layer.shape.size()) * sizeof(float);
}

double total_bytes(std::span<const Layer> layers) {
  return std::accumulate(layers.begin(), layers.end(), 0.0,
                         [](double sum, const Layer& layer) { return sum + bytes_of(layer); });
}

// What is sent around a ring of N, by each rank, of something that all have or get: (N-1)/N of it.
double around(double bytes, int ranks) { return bytes * (ranks - 1) / ranks; }

constexpr double bits_of_a_sign = 2, bits_of_a_float = 32;

bool goes_to_one(int owner, int ranks) { return owner >= 0 && ranks <= most_direct_processes; }

// From the end of the passes to the last sum. Gradients are found from the last layer to the first,
// in proportion to their size.
double exposed_sums(const RanksWork& work, std::span<const int> owners, const Link& link,
                    int ranks) {
  if (ranks == 1) return 0;
  const double backward = backward_share * work.passes_seconds, all = total_bytes(work.layers);
  std::vector<double> sends(static_cast<size_t>(ranks)), receives(sends.size());
  double found = 0, last = 0;
  for (size_t l = work.layers.size(); l-- > 0;) {
    const double bytes = bytes_of(work.layers[l]);
    found += backward * bytes / all;
    if (goes_to_one(owners[l], ranks)) {
      const auto owner = static_cast<size_t>(owners[l]);
      for (size_t rank = 0; rank < sends.size(); ++rank) {
        if (rank == owner) continue;
        const double start = std::max({found, sends[rank], receives[owner]});
        sends[rank] = receives[owner] = start + bytes / link.bytes_per_second;
        last = std::max(last, receives[owner] + link.latency);
      }
    } else {  // once around the ring, or twice where all or the one owner get all of it
      const double rounds = owners[l] == by_rows ? 1 : 2;
      double free = std::max(found, *std::ranges::max_element(sends));
      free = std::max(free, *std::ranges::max_element(receives)) +
             rounds * ((ranks - 1) * link.latency + around(bytes, ranks) / link.bytes_per_second);
      std::ranges::fill(sends, free);
      std::ranges::fill(receives, free);
      last = std::max(last, free);
    }
  }
  return last - backward;
}

// The signs of divided layers, gathered when all directions are there.
double exposed_signs(const RanksWork& work, std::span<const int> owners, const Link& link,
                     int ranks) {
  double bytes = 0;
  for (size_t l = 0; l < owners.size(); ++l) {
    if (owners[l] == by_rows) bytes += bytes_of(work.layers[l]) * bits_of_a_sign / bits_of_a_float;
  }
  return around(bytes, ranks) / link.bytes_per_second;
}

// When all ranks have all directions, from the start of the first LMO.
double all_directions(const RanksWork& work, std::span<const int> owners, const Link& link,
                      int ranks) {
  const auto count = static_cast<size_t>(ranks);
  std::vector<double> busy(count), sends(count), receives(count), has(count);
  double last = 0;
  for (const size_t l : sending_order(work.layers, owners)) {
    const auto root = static_cast<size_t>(owners[l]);
    const double transfer = bytes_of(work.layers[l]) / link.bytes_per_second;
    has[root] = busy[root] += work.lmo_seconds[l];
    size_t half = 1;
    while (half < count) half *= 2;
    for (half /= 2; half >= 1; half /= 2) {  // ranks counted from the root: v sends to v + half
      for (size_t v = 0; v + half < count; v += 2 * half) {
        const size_t from = (root + v) % count, to = (root + v + half) % count;
        const double start = std::max({has[from], sends[from], receives[to]});
        sends[from] = receives[to] = start + transfer;
        has[to] = start + transfer + link.latency;
      }
    }
    last = std::max(last, *std::ranges::max_element(has));
  }
  return last;
}

// Every rank checks all gradients, averages its own, and moves all weights: reads of the gradient;
// of gradient and average and a write; of direction and weight and a write.
double memory_bytes(const RanksWork& work, std::span<const int> owners, int ranks) {
  double bytes = 0;
  for (size_t l = 0; l < owners.size(); ++l) {
    const double averaged = owners[l] == every_process ? 1 : 1.0 / ranks;
    bytes += bytes_of(work.layers[l]) * (1 + 3 * averaged + 3);
  }
  return bytes;
}

}  // namespace

double gradient_bytes(std::span<const Layer> layers, int ranks) {
  const auto owners = share_layers(layers, ranks);
  double bytes = 0;
  for (size_t l = 0; l < layers.size(); ++l) {
    const bool twice = owners[l] == every_process;
    // A ring's sum, of which every rank then sends its part to the owner.
    const double extra = owners[l] >= 0 && !goes_to_one(owners[l], ranks) ? 1.0 / ranks : 0;
    bytes += around(bytes_of(layers[l]), ranks) * ((twice ? 2 : 1) + extra);
  }
  return bytes;
}

double direction_bytes(std::span<const Layer> layers, int ranks) {
  const auto owners = share_layers(layers, ranks);
  double bytes = 0;
  for (size_t l = 0; l < layers.size(); ++l) {
    if (owners[l] == every_process) continue;
    bytes += bytes_of(layers[l]) * (owners[l] == by_rows ? bits_of_a_sign / bits_of_a_float : 1);
  }
  return around(bytes, ranks);
}

RanksForecast forecast(const RanksWork& work, const Link& link, int ranks) {
  if (work.lmo_seconds.size() != work.layers.size()) {
    throw_invalid("forecast", "got ", work.lmo_seconds.size(), " times for ", work.layers.size(),
                  " layers");
  }
  const auto owners = share_layers(work.layers, ranks);
  std::vector<double> load(static_cast<size_t>(ranks));
  for (size_t l = 0; l < owners.size(); ++l) {
    if (owners[l] >= 0) load[static_cast<size_t>(owners[l])] += work.lmo_seconds[l];
  }
  RanksForecast result;
  result.passes = work.passes_seconds;
  result.exposed_gradients = exposed_sums(work, owners, link, ranks);
  result.longest_lmos = *std::ranges::max_element(load);
  result.mean_lmos = std::accumulate(load.begin(), load.end(), 0.0) / ranks;
  result.exposed_directions =
      std::max(0.0, all_directions(work, owners, link, ranks) - result.longest_lmos) +
      exposed_signs(work, owners, link, ranks);
  result.messages = questions * (ranks - 1) * link.latency;
  if (work.copy_bytes > 0) result.memory = memory_bytes(work, owners, ranks) / work.copy_bytes;
  result.seconds = result.passes + result.exposed() + result.longest_lmos + result.memory;
  result.sent_bytes = gradient_bytes(work.layers, ranks) + direction_bytes(work.layers, ranks);
  return result;
}

double split_seconds(double seconds, const Shape& shape, const Link& link, int ranks) {
  const auto n = static_cast<double>(std::min(shape.rows, shape.cols));
  const double gather =
      (ranks - 1) * link.latency + around(n * n * sizeof(float), ranks) / link.bytes_per_second;
  return seconds / ranks + products_of_an_lmo * gather;
}

SplitLmo best_split(double seconds, const Shape& shape, const Link& link, int most_ranks) {
  SplitLmo best{1, seconds};
  for (int ranks = 2; ranks <= most_ranks; ++ranks) {
    const double split = split_seconds(seconds, shape, link, ranks);
    if (split < best.seconds) best = {ranks, split};
  }
  return best;
}

double split_lmos(const RanksWork& work, const Link& link, int ranks) {
  const auto owners = share_layers(work.layers, ranks);
  double sum = 0, longest = 0;
  for (size_t l = 0; l < owners.size(); ++l) {
    if (owners[l] < 0) continue;
    sum += work.lmo_seconds[l];
    const auto split = best_split(work.lmo_seconds[l], work.layers[l].shape, link, ranks);
    longest = std::max(longest, split.seconds);
  }
  return std::max(sum / ranks, longest);
}

}  // namespace normball::benchmarks
