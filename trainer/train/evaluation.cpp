#include "trainer/train/evaluation.h"

#include <cmath>

namespace normball::trainer::train {

Evaluation evaluate(const models::Model& model, DataSource& data) {
  double loss = 0, correct = 0;
  Evaluation result;
  for (std::int64_t i = 0; i < data.evaluation_batches(); ++i) {
    const models::Outcome outcome = model.evaluate(data.evaluation_batch(i));
    loss += outcome.loss.item<double>() * static_cast<double>(outcome.count);
    result.targets += outcome.count;
    if (outcome.correct) {
      correct += static_cast<double>(*outcome.correct);
      result.accuracy = correct / static_cast<double>(result.targets);
    }
  }
  result.loss = loss / static_cast<double>(result.targets);
  if (std::isnan(result.loss)) result.loss = std::nan("");  // whose sign means nothing
  return result;
}

}  // namespace normball::trainer::train
