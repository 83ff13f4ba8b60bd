// The validation loss (and accuracy, for images) over the data's fixed batches.
#pragma once

#include <optional>

#include "trainer/models/model.h"
#include "trainer/train/data_source.h"
#include "trainer/train/team.h"

namespace normball::trainer::train {

struct Evaluation {
  double loss = 0;                      // mean over the targets
  std::optional<double> accuracy = {};  // of images: the right class is on top
  std::optional<double> top5 = {};      // among the first five; where there are more than ten
  std::int64_t targets = 0;
};

// Nothing of the model or of the training's randomness changes. The ranks of a team share the
// batches, and all get the result that one process would have.
Evaluation evaluate(const models::Model& model, DataSource& data, const Team& team = {});

}  // namespace normball::trainer::train
