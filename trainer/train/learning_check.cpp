#include "trainer/train/learning_check.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "trainer/config/config_use.h"

namespace normball::trainer::train {
namespace {

constexpr std::int64_t least_window = 10;
// Weights of trained models stay below 1e5. From 1e8 on the float grid is coarser than 8: steps of
// a sensible size no longer change them.
constexpr double absurd_weight = 1e8;
constexpr double clearly_fallen = 0.9;  // of the first loss
constexpr double risen = 10;            // times the first loss: no noise, however short the run

double largest_weight(const models::Model& model) {
  double largest = 0;
  for (const auto& parameter : model.parameters()) {
    if (parameter.tensor.numel() == 0) continue;
    const double value = parameter.tensor.detach().abs().max().item<double>();
    if (!std::isfinite(value)) return value;
    largest = std::max(largest, value);
  }
  return largest;
}

}  // namespace

LearningCheck::LearningCheck(std::int64_t steps, std::optional<double> first_loss)
    : steps_(steps), window_(std::max(least_window, steps / 10)), first_loss_(first_loss) {}

void LearningCheck::trained(std::int64_t step, double loss) {
  if (step == 1) first_loss_ = loss;
  last_loss_ = loss;
  if (step <= steps_ - window_) return;
  late_sum_ += loss;
  ++late_count_;
}

void LearningCheck::skipped(std::int64_t step) {
  if (step > steps_ - window_) ++late_skipped_;
}

LearningCheck::Verdict LearningCheck::judge(const config::Config& config,
                                            const models::Model& model,
                                            const std::optional<Evaluation>& evaluation) const {
  const double weight = largest_weight(model);
  const bool by_loss = first_loss_ && late_count_ >= least_window && steps_ >= 2 * least_window;
  const double last = late_sum_ / static_cast<double>(std::max<std::int64_t>(1, late_count_));
  const bool stuck = late_skipped_ > late_count_;
  const bool useless =
      stuck || !std::isfinite(weight) || (evaluation && !std::isfinite(evaluation->loss));
  const bool absurd = !(weight <= absurd_weight);
  const bool flat = by_loss && !(last < *first_loss_);
  const bool hardly = first_loss_ && late_count_ > 0 &&
                      !((by_loss ? last : last_loss_) < clearly_fallen * *first_loss_);
  const bool far_up = !by_loss && first_loss_ && late_count_ > 0 && *first_loss_ > 0 &&
                      !(last_loss_ < risen * *first_loss_);
  if (!useless && !absurd && !flat && !far_up) return {};

  std::ostringstream text;
  if (evaluation && !std::isfinite(evaluation->loss)) text << "the validation loss is not finite; ";
  if (stuck) {
    text << late_skipped_ << " of the last " << late_count_ + late_skipped_
         << " steps were skipped as not finite; ";
  }
  if (by_loss) {
    text << "the training loss was " << *first_loss_ << " at the first step and " << last
         << " over the last " << late_count_ << "; ";
  }
  if (far_up || (absurd && !by_loss && first_loss_ && late_count_ > 0)) {
    text << "the training loss was " << *first_loss_ << " at the first step and " << last_loss_
         << " at the last; ";
  }
  text << "the largest weight is " << weight << ": the stepsize "
       << (useless || absurd || far_up ? "is too large"
                                       : "may be too large, or too small to learn by")
       << " (" << config::optimizer_text(config) << ")";
  return {.diverged = useless || (absurd && hardly), .text = text.str()};
}

}  // namespace normball::trainer::train
