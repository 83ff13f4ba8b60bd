// The table of which key has an effect where (config_use.cpp) against training itself: for every
// model, kind of data and method, a key that the table calls used changes what a run leaves behind,
// and one that it does not changes nothing and is refused.
#include "trainer/config/config_use.h"

#include <ATen/Parallel.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "testing.h"
#include "tests/trainer/data/data_samples.h"
#include "tests/trainer/data/image_samples.h"
#include "tests/trainer/run_testing.h"
#include "trainer/config/config_keys.h"
#include "trainer/config/kinds.h"
#include "trainer/data/token_data.h"
#include "trainer/train/model_builder.h"
#include "trainer/train/trainer.h"

namespace normball::trainer::train {
namespace {

namespace fs = std::filesystem;
using config::Key;
using testing::ScratchDirectory;

// Small files of every kind, twice: the second of each in "other-...".
class Files {
 public:
  Files() {
    for (const std::string prefix : {"", "other-"}) {
      const size_t shift = prefix.empty() ? 0 : 3;
      testing::write(path(prefix + "text.txt"), text(shift));
      make_shards(path(prefix + "shards"), text(shift));
      make_idx(path(prefix + "fashion-mnist"), shift);
      make_cifar10(path(prefix + "cifar10"), shift);
      testing::make_image_folders(path(prefix + "folder"), 8, 4, 1 + 100 * shift);
    }
    fs::create_directory(path("bpe"));
    testing::write(path("bpe/vocab.bpe"), testing::toy_vocabulary());
  }
  std::string path(const std::string& name) const { return scratch_ / name; }
  // data.path of a kind.
  std::string of(const std::string& kind, const std::string& prefix = "") const {
    return path(prefix + (kind == "text" ? "text.txt" : kind));
  }

 private:
  static std::string text(size_t shift) {
    std::string text;
    for (size_t i = 0; i < 60; ++i)
      text += "the hello " + std::to_string((i + shift) * 7919) + "\n";
    return text;
  }
  static void make_shards(const std::string& directory, const std::string& text) {
    fs::create_directory(directory);
    const std::vector<std::uint16_t> tokens(text.begin(), text.end());
    const auto cut = static_cast<std::ptrdiff_t>(tokens.size() * 3 / 4);
    const std::vector<std::uint16_t> train(tokens.begin(), tokens.begin() + cut);
    const std::vector<std::uint16_t> validation(tokens.begin() + cut, tokens.end());
    testing::write(directory + "/train_0.bin", testing::shard_file(train));
    testing::write(directory + "/val_0.bin", testing::shard_file(validation));
    testing::write(
        directory + "/dataset.json",
        data::to_json({.tokenizer = "bytes",
                       .vocabulary = 256,
                       .train_tokens = static_cast<std::int64_t>(train.size()),
                       .validation_tokens = static_cast<std::int64_t>(validation.size())}));
  }
  static void make_idx(const std::string& directory, size_t shift) {
    fs::create_directory(directory);
    for (const std::string part : {"train", "t10k"}) {
      constexpr std::uint32_t images = 24, side = 10;
      testing::ByteVector pixels = noise(images * side * side, shift), labels(images);
      for (size_t i = 0; i < images; ++i) labels[i] = static_cast<std::uint8_t>((i + shift) % 4);
      testing::write(directory + "/" + part + "-images-idx3-ubyte",
                     testing::idx_file({images, side, side}, pixels));
      testing::write(directory + "/" + part + "-labels-idx1-ubyte",
                     testing::idx_file({images}, labels));
    }
  }
  static void make_cifar10(const std::string& directory, size_t shift) {
    fs::create_directory(directory);
    for (const std::string name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                                   "data_batch_5", "test_batch"}) {
      testing::ByteVector file = noise(6 * 3073, shift + name.size());
      for (size_t i = 0; i < 6; ++i) file[i * 3073] = static_cast<std::uint8_t>((i + shift) % 10);
      testing::write(directory + "/" + name + ".bin", file);
    }
  }
  static testing::ByteVector noise(size_t size, size_t seed) {
    Random random(seed);
    testing::ByteVector bytes(size);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.below(256));
    return bytes;
  }

  ScratchDirectory scratch_;
};

struct Kinds {
  std::string model, data, method, init = "customary";
};

class ConfigUse : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    at::set_num_threads(1);
    files = std::make_unique<Files>();
  }
  static void TearDownTestSuite() { files.reset(); }

  // A configuration in which every key that counts can show it.
  static std::vector<std::string> settings_of(const Kinds& kinds) {
    std::vector<std::string> settings = {"run.steps=3",
                                         "run.log_every=1",
                                         "run.eval_every=2",
                                         "run.name=run",
                                         "run.threads=1",
                                         "run.checkpoint_every=1",
                                         "run.keep_last=2",
                                         "run.keep_best=false",
                                         "train.batch=4",
                                         "eval.batches=2",
                                         "model.init=" + kinds.init,
                                         "data.path=" + files->of(kinds.data),
                                         "data.kind=" + kinds.data,
                                         "model.kind=" + kinds.model,
                                         "optimizer.method=" + kinds.method};
    const std::map<std::string, std::vector<std::string>> by_model = {
        {"gpt",
         {"model.layers=1", "model.width=8", "model.heads=2", "model.context=8", "model.vocab=300",
          "sample.every=2", "sample.length=8"}},
        {"cnn", {"model.width_factor=0.03"}},
        {"mlp", {"model.hidden=[6, 5]"}},
        {"vit",
         {"model.layers=2", "model.width=8", "model.heads=2",
          "model.patch=" + std::string(kinds.data == "cifar10" ? "8" : "5")}}};
    if (kinds.data == "folder") settings.push_back("data.size=10");
    const auto& more = by_model.at(kinds.model);
    settings.insert(settings.end(), more.begin(), more.end());
    // Needed, or far enough from what would hide another key.
    for (const std::string setting : {"optimizer.rho=100", "optimizer.beta=1", "optimizer.l0=1",
                                      "optimizer.l1=1", "optimizer.lr=0.3"}) {
      if (used(setting, kinds)) settings.push_back(setting);
    }
    return settings;
  }

  // What must be set as well to give a key its chance.
  static std::vector<std::string> companions(const std::string& key) {
    if (key == "schedule.decay") return {"schedule.kind=warmdown"};
    if (key == "schedule.end") return {"schedule.kind=cosine"};
    if (key == "schedule.exponent") return {"schedule.kind=power"};
    if (key == "run.gap_batches") return {"run.gap_every=2"};
    if (key == "run.epochs") return {"run.steps=0"};
    if (key == "augment.magnitude" || key == "augment.deviation" || key == "augment.probability") {
      return {"augment.operations=5"};
    }
    return {};
  }

  // Another valid value.
  static std::string other_value(const std::string& key, const Kinds& kinds) {
    const std::map<std::string, std::string> values = {
        {"run.name", "another"},
        {"run.dir", files->path("elsewhere")},
        {"run.seed", "1"},
        {"run.steps", "4"},
        {"run.epochs", "1"},
        {"run.log_every", "2"},
        {"run.eval_every", "1"},
        {"run.checkpoint_every", "3"},
        {"run.layers_every", "2"},
        {"run.gap_every", "2"},
        {"run.gap_batches", "1"},
        {"run.probe_every", "2"},
        {"run.keep_last", "1"},
        {"model.init", kinds.init == "sphere" ? "customary" : "sphere"},
        {"model.layers", "3"},
        {"model.width", "16"},
        {"model.heads", "1"},
        {"model.context", "6"},
        {"model.vocab", "310"},
        {"model.rope_base", "100"},
        {"model.patch", "2"},
        {"model.drop", "0.9"},
        {"model.norm", "layer"},
        {"model.gelu", "plain"},
        {"model.width_factor", "0.05"},
        {"model.scaling_factor", "0.5"},
        {"model.hidden", "[4, 7]"},
        {"data.path", files->of(kinds.data, "other-")},
        {"data.validation", kinds.data == "text" ? files->of("text", "other-")
                                                 : files->path("other-shards/val_0.bin")},
        {"data.validation_fraction", "0.3"},
        {"data.bpe", files->path("bpe")},
        {"data.translate", "1"},
        {"data.size", "12"},
        {"augment.crop_area", "[0.5, 0.9]"},
        {"augment.crop_ratio", "[0.5, 2]"},
        {"augment.flip", "0"},
        {"augment.operations", "2"},
        {"augment.magnitude", "4"},
        {"augment.deviation", "2"},
        {"augment.probability", "0.9"},
        {"augment.erase", "1"},
        {"augment.mixup", "0.8"},
        {"augment.cutmix", "1"},
        {"augment.repeats", "3"},
        {"train.batch", "6"},
        {"train.micro_batch", "2"},
        {"train.label_smoothing", "0.3"},
        {"train.loss", "sum"},
        {"train.average", "soda"},
        {"optimizer.lr", "0.2"},
        {"optimizer.alpha", "0.5"},
        {"optimizer.rho", "70"},
        {"optimizer.alpha_schedule", "power(1, exponent=0.5)"},
        {"optimizer.rho_schedule", "linear(70, steps=9)"},
        {"optimizer.stepsize", "adagrad"},
        {"optimizer.line_search", "backtracking"},
        {"optimizer.short_step", "diameter"},
        {"optimizer.solver", "muon"},
        {"optimizer.beta", "2"},
        {"optimizer.l0", "2"},
        {"optimizer.l1", "2"},
        {"optimizer.betas", "[0.5, 0.6]"},
        {"optimizer.eps", "0.1"},
        {"optimizer.weight_decay", "0.2"},
        {"optimizer.grad_clip", "0.01"},
        {"optimizer.momentum", "0.5"},
        {"schedule.kind", "linear"},
        {"schedule.warmup", "0.7"},
        {"schedule.decay", "0.9"},
        {"schedule.end", "0.01"},
        {"schedule.exponent", "0.5"},
        {"norm.input", "sign"},
        {"norm.embedding", "spectral"},
        {"norm.hidden", "sign"},
        {"norm.output", "spectral"},
        {"norm.vector", "sign"},
        {"norm.radii", "auto"},
        {"norm.route", "[{ pattern = \"*\", norm = \"row\" }]"},
        {"eval.batches", "1"},
        {"eval.batch", "3"},
        {"eval.tta", "2"},
        {"eval.crop", "0.6"},
        {"sample.every", "1"},
        {"sample.prompt", "he"},
        {"sample.length", "3"},
        {"sample.temperature", "0"},
        {"sample.top_k", "1"}};
    const auto found = values.find(key);
    if (found != values.end()) return found->second;
    return key.ends_with("_radius") ? "3" : "";
  }

  static std::string changed(const config::Key& key, const Kinds& kinds) {
    if (const auto* flag = std::get_if<config::At<bool>>(&key.place)) {
      config::Config defaults;
      return key.full_name() + ((*flag)(defaults) ? "=false" : "=true");
    }
    const std::string value = other_value(key.full_name(), kinds);
    EXPECT_NE(value, "") << "no other value known for " << key.full_name();
    return key.full_name() + "=" + value;
  }

  static config::Config configured(const std::vector<std::string>& settings) {
    config::Config config;
    config.run.dir = files->path("runs");
    for (const auto& setting : settings) config::apply_setting(config, setting);
    return config;
  }

  static bool used(const std::string& setting, const Kinds& kinds) {
    config::Config config = configured({"model.kind=" + kinds.model, "data.kind=" + kinds.data,
                                        "optimizer.method=" + kinds.method});
    return config::why_unused(*config::apply_setting(config, setting).key, config).empty();
  }

  // What a run leaves behind, without times and without the configuration itself.
  static std::map<std::string, std::string> trained(const config::Config& config) {
    for (const char* directory : {"runs", "elsewhere"}) fs::remove_all(files->path(directory));
    std::ostringstream screen;
    runtime::Progress progress(screen, false);
    Trainer(config).run(progress);
    std::map<std::string, std::string> result;
    for (const char* directory : {"runs", "elsewhere"}) {
      if (!fs::exists(files->path(directory))) continue;
      for (const auto& entry : fs::recursive_directory_iterator(files->path(directory))) {
        const std::string name = entry.path().filename();
        if (name.ends_with(".safetensors")) result[entry.path()] = testing::read(entry.path());
        if (name == "metrics.jsonl") {
          result[entry.path()] =
              std::regex_replace(testing::read(entry.path()),
                                 std::regex(", \"(seconds|[a-z]+_per_second)\": [^,}]+"), "");
        }
      }
    }
    const std::string shown = screen.str();
    const std::regex sample("--- step [^]*?\n---");
    for (std::sregex_iterator i(shown.begin(), shown.end(), sample), end; i != end; ++i) {
      result["sample"] += i->str();
    }
    return result;
  }

  static void expect_effects(const Kinds& kinds, const std::set<std::string_view>& sections) {
    SCOPED_TRACE(kinds.model + ", " + kinds.data + ", " + kinds.method + ", " + kinds.init);
    std::map<std::vector<std::string>, std::map<std::string, std::string>> bases;
    for (const config::Key& key : config::config_keys()) {
      const std::string name = key.full_name();
      if (!sections.contains(key.section) || without_trace.contains(name)) continue;
      auto settings = settings_of(kinds);
      const auto more = companions(name);
      settings.insert(settings.end(), more.begin(), more.end());
      // An epoch is compared with the steps that it replaces.
      const auto base = name == "run.epochs" ? settings_of(kinds) : settings;
      if (!bases.contains(base)) bases[base] = trained(configured(base));
      config::Config other = configured(settings);
      const bool is_used = config::why_unused(key, other).empty();
      config::apply_setting(other, changed(key, kinds));
      EXPECT_EQ(trained(other) != bases[base], is_used)
          << changed(key, kinds) << (is_used ? " changed nothing" : " changed something");
      ++(is_used ? used_seen : unused_seen);
    }
  }

  static void expect_refusals(const Kinds& kinds) {
    for (const config::Key& key : config::config_keys()) {
      const std::string name = key.full_name();
      auto settings = settings_of(kinds);
      const auto more = companions(name);
      settings.insert(settings.end(), more.begin(), more.end());
      // The companion may be what has no effect, and is refused on its own account.
      const bool fits = std::ranges::all_of(more, [&](const auto& s) { return used(s, kinds); });
      if (!fits || without_trace.contains(name) ||
          config::why_unused(key, configured(settings)).empty())
        continue;
      settings.push_back(changed(key, kinds));
      SCOPED_TRACE(settings.back() + " with " + kinds.model + ", " + kinds.data + ", " +
                   kinds.method);
      const auto empty = files->path("empty.toml");
      testing::write(empty, "");
      testing::expect_invalid([&] { config::load_config(empty, settings); },
                              {"--set " + settings.back(), name + " has no effect: "});
      settings.pop_back();
      EXPECT_NO_THROW(config::load_config(empty, settings));
    }
  }

  // These act on other things than what a first run leaves: see run_checkpoint_test (keep_best),
  // train_cli_test (nonfinite, resume), data_folder_test (bad_images, data.threads) and the choice
  // of kinds above.
  static inline const std::set<std::string> without_trace = {
      "run.threads",      "run.keep_best", "run.nonfinite",   "run.resume",  "model.kind",
      "optimizer.method", "data.kind",     "data.bad_images", "data.threads"};
  static inline std::unique_ptr<Files> files;
  static inline int used_seen = 0, unused_seen = 0;
};

const std::vector<std::pair<std::string, std::string>> kinds_of_data = {
    {"gpt", "text"},    {"gpt", "shards"},        {"cnn", "fashion-mnist"},
    {"cnn", "cifar10"}, {"mlp", "fashion-mnist"}, {"mlp", "cifar10"},
    {"mlp", "folder"},  {"vit", "fashion-mnist"}};

std::vector<std::string> methods() {
  const auto& choices =
      std::ranges::find(config::config_keys(), "method", &config::Key::name)->choices;
  return {choices.begin(), choices.end()};
}

TEST_F(ConfigUse, AKeyHasAnEffectExactlyIfTheTableSaysSoForEveryModelAndData) {
  for (const auto& [model, data] : kinds_of_data) {
    expect_effects({model, data, "unconstrained_clipped_scion"},
                   {"run", "model", "data", "train", "eval", "sample"});
  }
  EXPECT_GT(used_seen, 100);
  EXPECT_GT(unused_seen, 50);
}

TEST_F(ConfigUse, AKeyHasAnEffectExactlyIfTheTableSaysSoForEveryModelAndMethod) {
  for (const auto& [model, data] : {kinds_of_data[0], kinds_of_data[2], kinds_of_data[4]}) {
    for (const auto& method : methods()) {
      expect_effects({model, data, method}, {"optimizer", "schedule", "norm"});
    }
  }
}

TEST_F(ConfigUse, OfTheVisionTransformerToo) {
  for (const auto* method : {"unconstrained_clipped_scion", "muon", "adamw"}) {
    expect_effects({"vit", "fashion-mnist", method}, {"optimizer", "norm"});
  }
}

TEST_F(ConfigUse, WhereWeightsStartOnSpheresToo) {
  for (const auto& [model, data] : {kinds_of_data[0], kinds_of_data[2], kinds_of_data[4]}) {
    for (const auto* method : {"adam", "muon", "s3cg", "lars", "scion"}) {
      expect_effects({model, data, method, "sphere"}, {"norm"});
      expect_effects({model, data, method}, {"model"});
    }
  }
}

TEST_F(ConfigUse, WhatTheTableCallsUnusedIsRefusedForEveryModelDataAndMethod) {
  for (const auto& [model, data] : kinds_of_data) {
    for (const auto& method : methods()) expect_refusals({model, data, method});
  }
}

// The table of kinds against what opens the data and builds the models.
TEST_F(ConfigUse, EveryKindIsOpenedAndBuiltWhereItsUnitFits) {
  for (const auto& model : config::model_kinds()) {
    for (const auto& data : config::data_kinds()) {
      SCOPED_TRACE(std::string(model.name) + " on " + std::string(data.name));
      config::Config config;
      const Kinds kinds{std::string(model.name), std::string(data.name), "adam"};
      for (const auto& setting : settings_of(kinds)) config::apply_setting(config, setting);
      config.model.context = 8;  // the texts are short
      const auto source = open_data(config);
      EXPECT_EQ(source->facts().unit, data.unit);
      if (model.unit == data.unit) {
        EXPECT_FALSE(build_model(config, source->facts())->parameters().empty());
      } else {
        testing::expect_invalid([&] { build_model(config, source->facts()); },
                                {"[build_model]", kinds.model, kinds.data});
      }
    }
  }
}

}  // namespace
}  // namespace normball::trainer::train
