// The configuration of a run: TOML files and --set section.key=value, read into typed structs.
// The table in config_keys.cpp holds each key's limits and help; the defaults are here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace normball::trainer::config {

struct RunConfig {
  std::string name = "";
  std::string dir = "runs";
  std::int64_t seed = 0;
  std::int64_t threads = 0;
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  std::int64_t log_every = 10;
  std::int64_t eval_every = 250;
  std::int64_t checkpoint_every = 500;
  std::int64_t layers_every = 0;
  std::int64_t gap_every = 0;
  std::int64_t gap_batches = 0;
  std::int64_t probe_every = 0;
  std::int64_t keep_last = 2;
  bool keep_best = true;
  std::string nonfinite = "stop";
  std::string resume = "never";
};

struct ModelConfig {
  std::string kind = "mlp";
  std::string init = "customary";
  // gpt, vit
  std::int64_t layers = 12;
  std::int64_t width = 768;
  std::int64_t heads = 6;
  // gpt
  std::int64_t context = 1024;
  std::int64_t vocab = 50304;
  double rope_base = 10000;
  // vit
  std::int64_t patch = 16;
  double drop = 0.1;
  std::string norm = "rms";
  std::string gelu = "scaled";
  // cnn
  double width_factor = 1;
  double scaling_factor = 1.0 / 9;
  // mlp
  std::vector<std::int64_t> hidden = {256};

  std::int64_t head_dim() const { return width / heads; }
};

struct DataConfig {
  std::string kind = "fashion-mnist";
  std::string path = "";
  std::string validation = "";
  double validation_fraction = 0.1;
  std::string bpe = "";
  bool flip = false;
  std::int64_t translate = 0;
  // folder
  std::int64_t size = 224;
  std::string bad_images = "stop";
  std::int64_t threads = 0;
};

// Of image folders, as timm does it.
struct AugmentConfig {
  std::vector<double> crop_area = {0.08, 1};
  std::vector<double> crop_ratio = {3.0 / 4, 4.0 / 3};
  double flip = 0.5;
  std::int64_t operations = 0;
  double magnitude = 9;
  double deviation = 0.5;
  double probability = 0.5;
  double erase = 0;
  double mixup = 0;
  double cutmix = 0;
  std::int64_t repeats = 1;
};

struct TrainConfig {
  std::int64_t batch = 500;
  std::int64_t micro_batch = 0;
  double label_smoothing = 0;
  std::string loss = "mean";
  bool overfit_batch = false;
  std::string average = "none";

  // Samples of one forward pass, and how many of those make a step.
  std::int64_t micro() const { return micro_batch == 0 ? batch : micro_batch; }
  std::int64_t accumulation() const { return batch / micro(); }
};

// Or "auto": found from what the run sees.
struct NumberOrAuto {
  double number = 0;
  bool automatic = false;

  NumberOrAuto() = default;
  NumberOrAuto(double value) : number(value) {}  // NOLINT: a number is one of its values
  friend bool operator==(const NumberOrAuto&, const NumberOrAuto&) = default;
};

struct OptimizerConfig {
  std::string method = "unconstrained_clipped_scion";
  double lr = 0.01;
  double alpha = 0.1;
  std::string alpha_schedule = "none";
  std::optional<NumberOrAuto> rho = {};
  std::string rho_schedule = "none";
  std::string stepsize = "none";
  std::string line_search = "none";
  std::string short_step = "plain";
  std::string solver = "exact";
  std::optional<double> beta = {}, l0 = {}, l1 = {};
  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0;
  double grad_clip = 0;
  double momentum = 0.95;
  bool nesterov = true;
};

struct ScheduleConfig {
  std::string kind = "constant";
  double warmup = 0;
  double decay = 0.285;
  double end = 0;
  double exponent = 0.75;
};

// Overrides what the role gives to the parameters whose name matches: * and ? as in a shell.
struct Route {
  std::string pattern;
  std::optional<std::string> norm = {};
  std::optional<double> radius = {};
  friend bool operator==(const Route&, const Route&) = default;
};

// A norm and a radius for each role a parameter can have; the model knows the roles.
struct NormConfig {
  std::string input = "spectral(input)";
  double input_radius = 1;
  std::string embedding = "sign";
  double embedding_radius = 1;
  std::string hidden = "spectral";
  double hidden_radius = 1;
  std::string output = "sign";
  double output_radius = 1;
  std::string vector = "rms";
  double vector_radius = 1;
  std::string radii = "given";
  std::vector<Route> route = {};
};

struct EvalConfig {
  std::int64_t batches = 0;
  std::int64_t batch = 0;
  std::int64_t tta = 0;
  double crop = 0.875;
};

struct SampleConfig {
  std::int64_t every = 0;
  std::string prompt = "";
  std::int64_t length = 200;
  double temperature = 0.8;
  std::int64_t top_k = 0;
};

struct Config {
  RunConfig run;
  ModelConfig model;
  DataConfig data;
  AugmentConfig augment;
  TrainConfig train;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  NormConfig norm;
  EvalConfig eval;
  SampleConfig sample;
};

// Every error is a std::invalid_argument that names the file and line (or the --set), the key, the
// value and what would be right. Where an option of the command line is at fault it is this one:
class SettingError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// A key that was given, and where: "mine.toml:3", "--set run.steps=3".
struct Key;
struct GivenKey {
  const Key* key;
  std::string where;
  bool inherited = false;  // by a file that extends the one that gives it
};

// Applies TOML text; `where` names its source.
std::vector<GivenKey> apply_toml(Config& config, std::string_view text, std::string_view where);
// Applies "section.key=value". A text needs no quotes. `where` is the option that gave it; empty:
// --set.
GivenKey apply_setting(Config& config, std::string_view setting, std::string_view where = "");
// What keys must fulfil together.
void validate(const Config& config, std::string_view where);
// What names of new runs must fulfil.
void validate_name(std::string_view name, std::string_view where);

// A file or a preset's name (with what it extends, config_layers.h), then the settings, then
// validate(). A key that has no effect (config_use.h) is refused, unless it is inherited; where it
// had one before the settings (which may choose another method) it is a warning.
Config load_config(std::string_view name_or_file, std::span<const std::string> settings = {},
                   std::vector<std::string>* warnings = nullptr);

// Every key that has an effect; reading it back gives the same text.
std::string to_toml(const Config& config);

// What the run directory's config.toml says. A key that an older file lacks has its default. The
// settings are those of a command on the trained model ("eval", "sample"): they may change how it
// works, but not what was trained.
Config stored_config(const std::filesystem::path& run_directory,
                     std::span<const std::string> settings = {}, std::string_view command = "eval");

// "optimizer.lr: 0.1 before, 0.2 now", for each key that decides what the numbers of a run are: a
// resumed run must have the same. The number of steps counts only where the schedule depends on it.
std::vector<std::string> resume_conflicts(const Config& before, const Config& now);
// What makes the results of two runs incomparable: these, and what a resumed run may change but
// what its figures depend on (data paths, evaluations, how often is logged).
std::vector<std::string> result_conflicts(const Config& before, const Config& now);

}  // namespace normball::trainer::config
