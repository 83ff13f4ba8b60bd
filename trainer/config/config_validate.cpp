// What the keys of a configuration must fulfil together.
#include <algorithm>

#include "normball/average.h"
#include "trainer/config/config.h"
#include "trainer/config/config_error.h"
#include "trainer/config/config_method.h"
#include "trainer/config/kinds.h"
#include "trainer/runtime/terminal.h"

namespace normball::trainer::config {
namespace {

void validate_augment(const AugmentConfig& augment, std::string_view where) {
  const auto ascending = [&](const char* key, const std::vector<double>& pair) {
    if (pair.size() != 2 || pair[0] > pair[1]) {
      wrong(where, key, " must be two numbers, the smallest and the largest, such as [0.08, 1]");
    }
  };
  ascending("augment.crop_area", augment.crop_area);
  ascending("augment.crop_ratio", augment.crop_ratio);
}

void validate_model(const Config& config, std::string_view where) {
  const ModelKind& model = model_kind(config);
  const DataKind& data = data_kind(config);
  if (model.unit != data.unit) {
    wrong(where, "model.kind = \"", model.name, "\" cannot learn from data.kind = \"", data.name,
          "\"; gpt takes shards or text, cnn, mlp and vit take images");
  }
  if (model.validate != nullptr) model.validate(config, where);
  if (data.name == "text" && config.data.bpe.empty() && config.model.vocab < 256) {
    wrong(where, "model.vocab = ", config.model.vocab,
          " must be 256 or more for the bytes of a text");
  }
  if (data.pixels > 0 && config.data.translate >= data.pixels) {
    wrong(where, "data.translate = ", config.data.translate, " must be below ", data.pixels,
          ": the images of data.kind = \"", data.name, "\" have ", data.pixels,
          " pixels in height and width");
  }
  if (data.name == "folder") validate_augment(config.augment, where);
  if ((data.unit == "tokens" || data.name == "folder") && config.data.path.empty()) {
    wrong(where, "data.kind = \"", data.name, "\" needs data.path");
  }
}

void validate_optimizer(const Config& config, std::string_view where) {
  const auto& options = config.optimizer;
  if (options.betas.size() != 2) {
    wrong(where, "optimizer.betas must have two numbers, got ", options.betas.size());
  }
  if (options.method == "muon" && config.model.kind == "mlp" && config.model.hidden.size() < 2) {
    wrong(where,
          "optimizer.method = \"muon\" steps the matrices between the first and the last; an ",
          "mlp has such a matrix only if model.hidden has two layers or more");
  }
  const bool radii = std::ranges::any_of(
      config.norm.route, [](const Route& route) { return route.radius.has_value(); });
  if (options.method == "s3cg" && radii) {
    wrong(where, "norm.route gives a radius, but every radius of optimizer.method = \"s3cg\" is ",
          "optimizer.beta; leave it out");
  }
  const bool elsewhere = std::holds_alternative<ScheduleFree>(parse_average(config.train.average));
  if (elsewhere && line_search_of(config)) {
    wrong(where, "train.average = ", config.train.average,
          " takes gradients at other weights than ",
          "its steps start from, so optimizer.line_search has nothing to compare with: use ema or ",
          "tail, or no line search");
  }
  if (!is_core_method(options.method)) return;
  try {  // the core knows what its methods need; how long the run is does not matter for that
    core_method(config, 1000);
  } catch (const std::invalid_argument& error) {
    wrong(where, "[optimizer]: ", error.what());
  }
}

}  // namespace

void validate(const Config& config, std::string_view where) {
  if ((config.run.steps > 0) == (config.run.epochs > 0)) {
    wrong(where, "set one of run.steps (now ", config.run.steps, ") and run.epochs (now ",
          config.run.epochs, "), and leave the other 0");
  }
  if (config.train.batch % config.train.micro() != 0) {
    wrong(where, "train.batch = ", config.train.batch,
          " must be a multiple of train.micro_batch = ", config.train.micro_batch);
  }
  const auto& schedule = config.schedule;
  if (schedule.kind == "warmdown" && schedule.warmup + schedule.decay > 1) {
    wrong(where, "schedule.warmup + schedule.decay must not exceed 1, got ", schedule.warmup, " + ",
          schedule.decay);
  }
  if (schedule.kind == "cosine" && schedule.end > first_lr(config.optimizer)) {
    wrong(where, "schedule.end = ", schedule.end, " must not exceed ",
          finds_scale(config.optimizer) ? "the first lr" : "optimizer.lr", " = ",
          first_lr(config.optimizer));
  }
  if (config.run.resume.empty()) {
    wrong(where, "run.resume must be never, auto or a checkpoint's directory, not empty");
  }
  validate_model(config, where);
  validate_optimizer(config, where);
}

void validate_name(std::string_view name, std::string_view where) {
  constexpr size_t longest = 200;  // file systems allow 255 bytes
  const bool control = std::ranges::any_of(
      name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (name.empty() || name.size() > longest || name.starts_with('.') || name.starts_with('-') ||
      name.find('/') != std::string_view::npos || control) {
    wrong(where, "run.name must be a plain name: 1 to ", longest,
          " bytes, not beginning with '.' or '-', without '/' and control characters, got \"",
          runtime::one_line(name), "\"; run.dir takes the directory");
  }
}

}  // namespace normball::trainer::config
