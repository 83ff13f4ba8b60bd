// What each of several ranks does in `normball bench ranks`: passes, the sum of the gradients, a
// step, with a watch on each. The gradients are summed by the trainer's code, the step is the
// core's, whose directions travel as in the trainer.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/timed_peers.h"
#include "normball/optimizer.h"
#include "trainer/models/model.h"
#include "trainer/train/gradient_sum.h"

namespace normball::benchmarks {

// Of one rank and step; in the order in which they are printed.
struct RankFigures {
  double seconds = 0;      // of the whole
  double processor = 0;    // of all threads of the process, Gloo's as well
  double passes = 0;       // forward and backward
  double gradients = 0;    // waited for their sums after that
  double optimizer = 0;    // of the step
  double lmos = 0;         // until this rank's last direction was found
  double directions = 0;   // waited for those of others after that
  double sent_bytes = 0;   // written, to sockets nearly all; 0 where the system does not tell
  double state_bytes = 0;  // momenta of this rank
};
// "0.5 0.4 ...", and back.
std::string to_text(const RankFigures& figures);
RankFigures parse_figures(const std::string& text);

class RanksTask {
 public:
  static const std::vector<std::string_view>& cases();  // gpt-bytes, gpt2-124m

  // Of a case, over the ranks of the team; the threads are each rank's own.
  RanksTask(const trainer::train::Team& team, std::string_view name, int threads,
            const std::string& solver);
  RankFigures run();

  // Bytes a second from each rank to the next while all send, and seconds of a message: between the
  // ranks here. Both 0 where there is one.
  struct Speed {
    double bytes_per_second = 0, latency = 0;
  };
  Speed measure_link() const;

  const std::vector<Layer>& layers() const { return layers_; }

 private:
  void pass();

  const trainer::train::Team& team_;
  std::int64_t sequences_ = 0;  // of this rank; 0 where there is no model
  std::unique_ptr<trainer::models::Model> model_;
  std::vector<trainer::models::ModelParameter> parameters_;
  std::vector<torch::Tensor> given_;  // gradients, where there is no model
  std::vector<Layer> layers_;
  std::shared_ptr<TimedPeers> peers_;
  std::unique_ptr<trainer::train::GradientSum> sum_;
  std::unique_ptr<Optimizer<float>> optimizer_;
};

}  // namespace normball::benchmarks
