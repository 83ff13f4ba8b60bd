// What metrics.jsonl has of each layer ("pairing/blocks.0.query"), as tables of layers and steps.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "trainer/run/metrics.h"

namespace normball::trainer::report {

struct LayerMap {
  std::vector<std::string> layers;  // in the order of the model
  std::vector<std::int64_t> steps;
  std::vector<std::vector<double>> values;  // of a layer, at each step; NaN where there is none
};

// By quantity: "pairing", "weight_norm", ...; at most `steps` of them, evenly.
std::map<std::string, LayerMap> layer_maps(std::span<const run::MetricsLine> lines,
                                           size_t steps = 240);

}  // namespace normball::trainer::report
