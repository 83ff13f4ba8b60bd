// The parameter shapes of the models whose optimizer step is measured.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "normball/product_norm.h"

namespace normball::benchmarks {

struct ParameterSet {
  std::string name;
  std::string about;
  std::vector<Layer> layers;
};

// gpt2-124m, airbench, vit-base.
const std::vector<ParameterSet>& parameter_sets();

// gpt2-124m, gpt-1b, gpt-7b: for what is computed from shapes alone.
const std::vector<ParameterSet>& shape_sets();

// Throws std::invalid_argument with the known names.
const ParameterSet& parameter_set(std::string_view name);

}  // namespace normball::benchmarks
