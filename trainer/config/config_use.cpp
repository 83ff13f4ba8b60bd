#include "trainer/config/config_use.h"

#include <algorithm>

#include "normball/norms.h"
#include "trainer/config/config_method.h"

namespace normball::trainer::config {
namespace {

constexpr std::string_view all_but = "all but ";

// The core's methods of which this is true, as a list.
template <class Predicate>
std::string names_of(const Predicate& holds) {
  std::string list;
  for (const auto name : method_names()) {
    if (holds(name)) list.append(list.empty() ? "" : ", ").append(name);
  }
  return list;
}
template <class Predicate>
std::string methods_that(const Predicate& holds) {
  return names_of([&](std::string_view name) { return holds(method_use(name)); });
}
std::string readers(bool MethodUse::*option) {
  return methods_that([=](const MethodUse& use) { return use.*option; });
}
// The other optimizers have an lr, too.
std::string readers_of_lr() {
  return std::string(all_but) + methods_that([](const MethodUse& use) { return !use.lr; });
}

// Both start on spheres and neither has norms of its own to take them from.
bool starts_on_layer_norms(const Config& config) {
  return config.model.init == "sphere" && !is_core_method(config.optimizer.method);
}
bool steps_in_layer_norms(const Config& config) {
  const auto& method = config.optimizer.method;
  return is_core_method(method) && method_use(method).layer_norms;
}
bool sets_radii(const Config& config) {
  const auto& method = config.optimizer.method;
  return is_core_method(method) && !method_use(method).layer_radii;
}
bool has_input(const Config& config) { return !config.model.hidden.empty(); }
bool has_hidden(const Config& config) {
  return config.model.kind != "mlp" || config.model.hidden.size() >= 2;
}

// Auto is spectral for matrices that are neither an embedding nor an output layer.
bool takes_solver(const std::string& norm, bool auto_is_spectral) {
  if (std::holds_alternative<Auto>(parse_norm(norm))) return auto_is_spectral;
  return parse_norm(norm, SvdPolar{}) != parse_norm(norm, ExactPolar{});
}

bool uses_solver(const Config& config) {
  const auto& method = config.optimizer.method;
  if (is_core_method(method) && method_use(method).own_spectral_norm) return true;
  if (method != "muon" && !steps_in_layer_norms(config)) return false;
  for (const Key& key : config_keys()) {
    const auto* place = std::get_if<At<std::string>>(&key.place);
    if (key.section != "norm" || key.name == "radii" || place == nullptr ||
        !why_unused(key, config).empty())
      continue;
    const bool inner = key.name == "hidden" || key.name == "input";
    if (takes_solver((*place)(const_cast<Config&>(config)), inner)) return true;  // only read
  }
  return std::ranges::any_of(config.norm.route, [](const Route& route) {
    return route.norm && takes_solver(*route.norm, true);
  });
}

const Condition by_layer_norms = {
    [](const Config& c) { return steps_in_layer_norms(c) || starts_on_layer_norms(c); },
    "optimizer.method steps in these norms"};
const Condition by_layer_norms_or_muon = {
    [](const Config& c) { return by_layer_norms.holds(c) || c.optimizer.method == "muon"; },
    "optimizer.method steps in these norms"};
const Condition by_layer_radii = {
    [](const Config& c) { return by_layer_norms.holds(c) && !sets_radii(c); },
    "optimizer.method takes these radii"};
const Condition by_layer_radii_or_muon = {
    [](const Config& c) { return by_layer_norms_or_muon.holds(c) && !sets_radii(c); },
    "optimizer.method takes these radii"};
const Condition with_input = {has_input, "model.hidden has a layer"};
const Condition with_hidden = {has_hidden, "model.hidden has two layers or more (mlp)"};

const Condition given_radii = {[](const Config& c) { return c.norm.radii == "given"; },
                               "norm.radii is given"};
const Condition with_operations = {[](const Config& c) { return c.augment.operations > 0; },
                                   "augment.operations is not 0"};

struct Row {
  std::string_view keys;
  Use use;
};

// What is not listed always has an effect.
const std::vector<Row>& table() {
  static const std::vector<Row> rows = {
      {"run.layers_every, run.gap_every, run.probe_every",
       {.methods = "all but muon, adam, adamw, sgd"}},
      {"run.gap_batches",
       {.methods = "all but muon, adam, adamw, sgd",
        .conditions = {{[](const Config& c) { return c.run.gap_every > 0; },
                        "run.gap_every is not 0"}}}},
      {"model.layers, model.width, model.heads", {.models = "gpt, vit"}},
      {"model.context, model.vocab, model.rope_base", {.models = "gpt"}},
      {"model.patch, model.norm, model.gelu", {.models = "vit"}},
      {"model.drop",
       {.models = "vit",
        .conditions = {{[](const Config& c) { return c.model.layers > 1; },
                        "model.layers is 2 or more"}}}},
      {"model.width_factor, model.scaling_factor", {.models = "cnn"}},
      {"model.hidden", {.models = "mlp"}},
      {"data.validation, data.bpe", {.data = "shards, text"}},
      {"data.validation_fraction",
       {.data = "text",
        .conditions = {{[](const Config& c) { return c.data.validation.empty(); },
                        "data.validation is empty"}}}},
      {"data.flip, data.translate", {.data = "fashion-mnist, cifar10"}},
      {"data.size, data.bad_images, data.threads, augment.crop_area, augment.crop_ratio, "
       "augment.flip, "
       "augment.operations, augment.erase, augment.mixup, augment.cutmix, augment.repeats, "
       "eval.crop",
       {.data = "folder"}},
      {"augment.magnitude, augment.deviation, augment.probability",
       {.data = "folder", .conditions = {with_operations}}},
      {"train.label_smoothing", {.models = "cnn, mlp, vit"}},
      {"optimizer.lr",
       {.methods = readers_of_lr(),
        .conditions = {{[](const Config& c) { return !finds_scale(c.optimizer); },
                        "optimizer.stepsize is not distance_aware, whose steps are in the units of "
                        "the balls"}}}},
      {"schedule.kind, schedule.warmup", {.methods = readers_of_lr()}},
      {"schedule.decay",
       {.methods = readers_of_lr(),
        .conditions = {{[](const Config& c) { return c.schedule.kind == "warmdown"; },
                        "schedule.kind is warmdown"}}}},
      {"schedule.end",
       {.methods = readers_of_lr(),
        .conditions = {{[](const Config& c) { return c.schedule.kind == "cosine"; },
                        "schedule.kind is cosine"}}}},
      {"schedule.exponent",
       {.methods = readers_of_lr(),
        .conditions = {{[](const Config& c) { return c.schedule.kind == "power"; },
                        "schedule.kind is power"}}}},
      {"optimizer.alpha_schedule", {.methods = readers(&MethodUse::alpha)}},
      {"optimizer.alpha",
       {.methods = readers(&MethodUse::alpha),
        .conditions = {{[](const Config& c) { return c.optimizer.alpha_schedule == "none"; },
                        "optimizer.alpha_schedule is none"}}}},
      {"optimizer.rho_schedule", {.methods = readers(&MethodUse::rho)}},
      {"optimizer.rho",
       {.methods = readers(&MethodUse::rho),
        .conditions = {{[](const Config& c) { return c.optimizer.rho_schedule == "none"; },
                        "optimizer.rho_schedule is none"}}}},
      {"optimizer.stepsize", {.methods = names_of(takes_stepsize)}},
      {"optimizer.line_search",
       {.methods = "all but muon, adam, adamw, sgd",
        .conditions = {{[](const Config& c) {
                          return c.optimizer.stepsize == "none" &&
                                 !(c.optimizer.rho && c.optimizer.rho->automatic);
                        },
                        "optimizer.stepsize is none and optimizer.rho not auto, which find steps "
                        "themselves"}}}},
      {"optimizer.short_step",
       {.methods = methods_that([](const MethodUse& use) { return use.short_steps.size() > 1; }),
        .conditions = {{[](const Config& c) { return !finds_rho(c.optimizer); },
                        "optimizer.rho is not auto"}}}},
      {"optimizer.solver",
       {.conditions = {{uses_solver,
                        "optimizer.method steps in a spectral norm that names no solver"}}}},
      {"optimizer.beta", {.methods = readers(&MethodUse::beta)}},
      {"optimizer.l0, optimizer.l1", {.methods = readers(&MethodUse::l0)}},
      {"optimizer.betas, optimizer.eps", {.methods = "muon, adam, adamw"}},
      {"optimizer.weight_decay, optimizer.grad_clip", {.methods = "muon, adam, adamw, sgd"}},
      {"optimizer.momentum", {.methods = "muon, sgd"}},
      {"optimizer.nesterov",
       {.methods = "muon, sgd",
        .conditions = {{[](const Config& c) { return c.optimizer.momentum > 0; },
                        "optimizer.momentum is not 0"}}}},
      {"norm.input", {.models = "mlp", .conditions = {with_input, by_layer_norms}}},
      {"norm.input_radius",
       {.models = "mlp", .conditions = {with_input, by_layer_radii, given_radii}}},
      {"norm.embedding", {.models = "gpt, vit", .conditions = {by_layer_norms}}},
      {"norm.embedding_radius",
       {.models = "gpt, vit", .conditions = {by_layer_radii, given_radii}}},
      {"norm.hidden", {.conditions = {with_hidden, by_layer_norms_or_muon}}},
      {"norm.hidden_radius", {.conditions = {with_hidden, by_layer_radii_or_muon, given_radii}}},
      {"norm.output", {.models = "cnn, mlp, vit", .conditions = {by_layer_norms}}},
      {"norm.output_radius",
       {.models = "cnn, mlp, vit", .conditions = {by_layer_radii, given_radii}}},
      {"norm.radii", {.conditions = {by_layer_radii}}},
      // Vectors start at 0, not on a sphere.
      {"norm.vector",
       {.models = "cnn, mlp, vit",
        .conditions = {{steps_in_layer_norms, "optimizer.method steps in these norms"}}}},
      {"norm.vector_radius",
       {.models = "cnn, mlp, vit",
        .conditions = {{[](const Config& c) { return steps_in_layer_norms(c) && !sets_radii(c); },
                        "optimizer.method takes these radii"},
                       given_radii}}},
      {"norm.route", {.conditions = {by_layer_norms_or_muon}}},
      {"eval.tta", {.models = "cnn"}},
      {"sample.every, sample.prompt, sample.length, sample.temperature, sample.top_k",
       {.models = "gpt"}},
  };
  return rows;
}

std::string mismatch(std::string_view key, std::string_view allowed, const std::string& now) {
  return list_has(allowed, now) ? "" : std::string(key) + " is " + now;
}

}  // namespace

bool list_has(std::string_view list, std::string_view name) {
  if (list.empty()) return true;
  if (list.starts_with(all_but)) return !list_has(list.substr(all_but.size()), name);
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(", ", begin), list.size());
    if (list.substr(begin, end - begin) == name) return true;
    begin = end + 2;
  }
  return false;
}

std::string Use::text() const {
  std::string text;
  const auto add = [&text](std::string_view part, std::string_view more = "") {
    if (part.empty() && more.empty()) return;
    text.append(text.empty() ? "" : "; ").append(part).append(more);
  };
  add(models);
  add(data);
  add(methods);
  for (const auto& condition : conditions) add("where ", condition.words);
  return text;
}

Use use_of(const Key& key) {
  const std::string name = key.full_name();
  const auto row =
      std::ranges::find_if(table(), [&](const Row& r) { return list_has(r.keys, name); });
  return row == table().end() ? Use{} : row->use;
}

std::string why_unused(const Key& key, const Config& config) {
  const Use use = use_of(key);
  for (const auto& cause : {mismatch("model.kind", use.models, config.model.kind),
                            mismatch("data.kind", use.data, config.data.kind),
                            mismatch("optimizer.method", use.methods, config.optimizer.method)}) {
    if (!cause.empty()) return cause;
  }
  for (const auto& [holds, words] : use.conditions) {
    if (!holds(config)) return "it counts only where " + std::string(words);
  }
  return "";
}

bool has_effect(std::string_view key, const Config& config) {
  const auto found = std::ranges::find(config_keys(), key, &Key::full_name);
  return found != config_keys().end() && why_unused(*found, config).empty();
}

void reset_unused(Config& config) {
  Config defaults;
  const Config given = config;
  for (const Key& key : config_keys()) {
    if (why_unused(key, given).empty()) continue;
    std::visit([&](auto place) { place(config) = place(defaults); }, key.place);
  }
}

std::map<std::string, std::string> model_facts(const Config& config) {
  std::map<std::string, std::string> facts;
  for (const Key& key : config_keys()) {
    if (key.section != "model" || key.name == "init") continue;  // where weights started
    if (why_unused(key, config).empty()) facts[key.full_name()] = value_text(key, config);
  }
  return facts;
}

std::string optimizer_text(const Config& config) {
  std::string text = config.optimizer.method;
  for (const Key& key : config_keys()) {
    const std::string value = value_text(key, config);
    if (key.section != "optimizer" || key.name == "method" || value.empty()) continue;
    if (why_unused(key, config).empty()) text.append(", ").append(key.name).append(" ") += value;
  }
  return text;
}

std::string_view keys_after_training(std::string_view command) {
  return command == "eval"
             ? "eval.batches, eval.batch, eval.tta, eval.crop, data.path, data.validation, "
               "data.bpe, data.bad_images, data.threads, run.threads"
             : "sample.prompt, sample.length, sample.temperature, sample.top_k, data.path, "
               "data.bpe, run.threads";
}

}  // namespace normball::trainer::config
