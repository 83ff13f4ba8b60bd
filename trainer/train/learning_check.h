// Whether a run that took all its steps has learned anything, as far as numbers can tell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/config/config.h"
#include "trainer/models/model.h"
#include "trainer/train/evaluation.h"

namespace normball::trainer::train {

class LearningCheck {
 public:
  // Of a run of so many steps; `first_loss` where an earlier process took the first one.
  explicit LearningCheck(std::int64_t steps, std::optional<double> first_loss = {});

  // Step numbers count from 1. A step that was skipped has no loss that means anything.
  void trained(std::int64_t step, double loss);
  void skipped(std::int64_t step);
  std::optional<double> first_loss() const { return first_loss_; }

  struct Verdict {
    bool diverged = false;  // the weights are of no use
    std::string text = {};  // what was measured; empty where all is well
  };
  // The loss of the first step is compared with the mean over the last tenth of the run, at least
  // ten steps. In a run of less than twenty steps the last loss counts, which is a warning only
  // where it has risen tenfold. Weights out of all proportion with a loss that has hardly fallen
  // are of no use, however short the run. Where most of the last steps were skipped, nothing was
  // learned.
  Verdict judge(const config::Config& config, const models::Model& model,
                const std::optional<Evaluation>& evaluation) const;

 private:
  std::int64_t steps_, window_;
  std::optional<double> first_loss_;
  double late_sum_ = 0, last_loss_ = 0;
  std::int64_t late_count_ = 0, late_skipped_ = 0;
};

}  // namespace normball::trainer::train
