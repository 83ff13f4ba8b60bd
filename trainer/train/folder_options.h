// What the keys of a configuration ask of the loader of image folders. Without LibTorch, for
// commands that do without it, too.
#pragma once

#include <memory>

#include "normball/base/processor.h"
#include "trainer/config/config.h"
#include "trainer/data/folder_loader.h"

namespace normball::trainer::train {

inline data::FolderLoaderOptions folder_options(const config::Config& config,
                                                std::int64_t classes = 0) {
  const auto& from = config.augment;
  data::FolderLoaderOptions options{.batch = config.train.micro(),
                                    .mix = {.mixup = from.mixup, .cutmix = from.cutmix},
                                    .classes = classes,
                                    .repeats = from.repeats};
  options.augment = {.size = static_cast<int>(config.data.size),
                     .area_min = from.crop_area[0],
                     .area_max = from.crop_area[1],
                     .ratio_min = from.crop_ratio[0],
                     .ratio_max = from.crop_ratio[1],
                     .flip = from.flip,
                     .operations = static_cast<int>(from.operations),
                     .magnitude = from.magnitude,
                     .deviation = from.deviation,
                     .probability = from.probability,
                     .erase = from.erase,
                     .middle = config.eval.crop};
  options.threads = config.data.threads > 0 ? static_cast<int>(config.data.threads) : usable_cpus();
  if (config.data.bad_images == "skip") options.skipped = std::make_shared<data::BadImages>();
  return options;
}

}  // namespace normball::trainer::train
