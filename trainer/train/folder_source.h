// Image folders and packed images as batches of tensors.
#pragma once

#include <memory>

#include "trainer/train/data_source.h"

namespace normball::trainer::train {

std::unique_ptr<DataSource> open_folder(const config::Config& config);

}  // namespace normball::trainer::train
