#include "trainer/train/evaluation.h"

#include <cmath>

namespace normball::trainer::train {

namespace {

// What each batch gave: its loss, its targets, how many were right and among the first five (-1:
// not counted). Batch i is rank i modulo their number's; the others leave zeros, so that the sum
// over ranks is exact. A batch of images that were all passed over has no targets.
torch::Tensor results_of(const models::Model& model, DataSource& data, const Team& team) {
  const std::int64_t batches = data.evaluation_batches();
  const auto results = torch::zeros({batches, 4}, torch::kFloat64);
  auto entries = results.accessor<double, 2>();
  for (std::int64_t i = team.rank(); i < batches; i += team.size()) {
    const models::Batch batch = data.evaluation_batch(i);
    if (batch.inputs.size(0) == 0) continue;
    const models::Outcome outcome = model.evaluate(batch);
    entries[i][0] = outcome.loss.item<double>();
    entries[i][1] = static_cast<double>(outcome.count);
    entries[i][2] = static_cast<double>(outcome.correct.value_or(-1));
    entries[i][3] = static_cast<double>(outcome.in_top5.value_or(-1));
  }
  team.sum(results);
  return results;
}

}  // namespace

Evaluation evaluate(const models::Model& model, DataSource& data, const Team& team) {
  const auto results = results_of(model, data, team);
  const auto entries = results.accessor<double, 2>();
  double loss = 0, correct = 0, near = 0;
  Evaluation result;
  for (std::int64_t i = 0; i < results.size(0); ++i) {
    if (entries[i][1] == 0) continue;
    loss += entries[i][0] * entries[i][1];
    result.targets += static_cast<std::int64_t>(entries[i][1]);
    if (entries[i][2] >= 0) {
      correct += entries[i][2];
      result.accuracy = correct / static_cast<double>(result.targets);
    }
    if (entries[i][3] >= 0) {
      near += entries[i][3];
      result.top5 = near / static_cast<double>(result.targets);
    }
  }
  result.loss = loss / static_cast<double>(result.targets);
  if (std::isnan(result.loss)) result.loss = std::nan("");  // whose sign means nothing
  return result;
}

}  // namespace normball::trainer::train
