// The kinds of models and of data that a configuration can name, and what each learns from or
// gives. train/model_builder.cpp makes the models, train/data_source.cpp opens the data.
#pragma once

#include <span>
#include <string_view>

#include "trainer/config/config.h"

namespace normball::trainer::config {

struct ModelKind {
  std::string_view name;
  std::string_view unit;  // what it learns from: "tokens" or "images"
  // What its keys must fulfil together; nullptr where nothing. Throws SettingError.
  void (*validate)(const Config& config, std::string_view where);
};

struct DataKind {
  std::string_view name;
  std::string_view unit;  // what it gives
  std::int64_t pixels;    // in height and width; 0: no images, or as data.size says
};

std::span<const ModelKind> model_kinds();
std::span<const DataKind> data_kinds();

// Of a configuration whose names have been checked.
const ModelKind& model_kind(const Config& config);
const DataKind& data_kind(const Config& config);

}  // namespace normball::trainer::config
