// What a step on many ranks would take, from times of single LMOs and of a link: the schedule of
// docs/distributed.md, played through. No thread and no byte moves.
//
// Each rank sends and receives one message at a time, both at once, and a message of b bytes takes
// latency + b / rate. Gradients go to their owners while the backward pass runs, those without one
// and those of more ranks than send to an owner directly around a ring. Directions go down a binary
// tree in the order of sending_order(), texts and the signs of divided layers around a ring.
#pragma once

#include <span>
#include <vector>

#include "normball/peers.h"

namespace normball::benchmarks {

struct Link {
  double bytes_per_second = 1e9;
  double latency = 0;  // seconds a message
};

// What one rank alone would do in a step.
struct RanksWork {
  std::vector<Layer> layers = {};
  std::vector<double> lmo_seconds = {};  // of each layer; of those without an owner none counts
  double passes_seconds = 0;             // of a rank's own part of the batch
  double copy_bytes = 0;  // read plus written a second, for the steps' passes; 0: free
};

struct RanksForecast {
  double seconds = 0;             // of the step: the sum of the six that follow
  double passes = 0;              // forward and backward
  double exposed_gradients = 0;   // waited for when the passes are over
  double longest_lmos = 0;        // of the owner with the most to do
  double exposed_directions = 0;  // waited for when it is done
  double messages = 0;            // that all are well, and the layers' sums
  double memory = 0;              // averages and weights
  double mean_lmos = 0;           // over the ranks
  double sent_bytes = 0;          // by a rank, on average
  double balance() const { return longest_lmos > 0 ? mean_lmos / longest_lmos : 1; }
  double exposed() const { return exposed_gradients + exposed_directions + messages; }
};

RanksForecast forecast(const RanksWork& work, const Link& link, int ranks);

// What a rank sends in a step by docs/distributed.md, on average over the ranks.
double gradient_bytes(std::span<const Layer> layers, int ranks);
double direction_bytes(std::span<const Layer> layers, int ranks);

// An LMO of an n x m matrix whose products are divided by rows over several ranks: each forms its
// rows of every n x n product, and all gather the result before the next one.
struct SplitLmo {
  int ranks = 1;
  double seconds = 0;
};
inline constexpr int products_of_an_lmo = 15;  // n x n: five quintic steps in Gram form

double split_seconds(double seconds, const Shape& shape, const Link& link, int ranks);
SplitLmo best_split(double seconds, const Shape& shape, const Link& link, int most_ranks);

// The time of the LMO phase if every matrix could be split as well as the largest: no less than the
// mean over ranks.
double split_lmos(const RanksWork& work, const Link& link, int ranks);

}  // namespace normball::benchmarks
