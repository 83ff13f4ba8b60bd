// Which keys have an effect: by model, data and method, and by other keys. A key without one is an
// error where the user gave it; tests/trainer/train/config_use_test.cpp holds the table against
// training.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/config/config_keys.h"

namespace normball::trainer::config {

struct Condition {
  bool (*holds)(const Config&);
  std::string_view words;  // "schedule.kind is cosine"
};

struct Use {
  // Lists as people read them: "cnn, mlp" or "all but cg"; empty: all.
  std::string_view models = {}, data = {};
  std::string methods = {};
  std::vector<Condition> conditions = {};

  // "gpt; text; where data.validation is empty"; empty if always.
  std::string text() const;
};

Use use_of(const Key& key);

// "optimizer.method is gd", or empty where the key has an effect.
std::string why_unused(const Key& key, const Config& config);

// Whether "section.key" has an effect.
bool has_effect(std::string_view key, const Config& config);

// What has no effect gets its default, so that two configurations that do the same are the same.
void reset_unused(Config& config);

// The keys of [model] that decide what the tensors of a checkpoint mean, with their values, as a
// checkpoint records them.
std::map<std::string, std::string> model_facts(const Config& config);

// The method and its numbers, for people: "ggnc, lr 0.01, alpha 0.1, rho 8.0".
std::string optimizer_text(const Config& config);

// What can still be chosen for a model that is trained, by the command that uses it.
std::string_view keys_after_training(std::string_view command);
// Whether a list such as those above has the name.
bool list_has(std::string_view list, std::string_view name);

}  // namespace normball::trainer::config
