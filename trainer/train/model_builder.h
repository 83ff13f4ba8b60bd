// The model that a configuration describes, for given data.
#pragma once

#include <memory>

#include "trainer/config/config.h"
#include "trainer/models/make_model.h"
#include "trainer/train/data_source.h"

namespace normball::trainer::train {

// Throws where model and data do not fit together. Weights are zero until set.
std::unique_ptr<models::Model> build_model(const config::Config& config, const DataFacts& facts);

}  // namespace normball::trainer::train
