#include "trainer/config/config_keys.h"

#include <type_traits>

#include "normball/average.h"
#include "normball/base/text.h"
#include "normball/method.h"
#include "normball/norms.h"
#include "normball/polar.h"
#include "normball/search_rule.h"
#include "normball/step_rule.h"
#include "trainer/config/kinds.h"

namespace normball::trainer::config {
namespace {

template <auto Section, auto Member>
constexpr auto at = [](Config& config) -> auto& {
  return config.*Section.*Member;
};

// The pointer types spell out what the variant cannot deduce from a lambda.
template <auto Section, auto Member>
Place place() {
  using T = std::remove_reference_t<decltype(at<Section, Member>(std::declval<Config&>()))>;
  return At<T>(at<Section, Member>);
}

// Weights are floats: no number beyond their range makes sense.
constexpr Range positive{.low = 1e-30, .high = 1e30};
constexpr Range not_negative{.low = 0, .high = 1e30};
// Far below the largest integer, so that products do not overflow.
constexpr Range count{.low = 0, .high = 1e12};
constexpr Range at_least_one{.low = 1, .high = 1e12};
constexpr Range below_one{.low = 0, .high = 1, .high_open = true};
constexpr Range zero_to_one{.low = 0, .high = 1};
constexpr Range above_zero_to_one{.low = 0, .high = 1, .low_open = true};

std::vector<std::string_view> methods() {
  std::vector<std::string_view> names(method_names().begin(), method_names().end());
  names.insert(names.end(), {"muon", "adam", "adamw", "sgd"});
  return names;
}

template <class Kind>
std::vector<std::string_view> names_of(std::span<const Kind> kinds) {
  std::vector<std::string_view> names;
  for (const Kind& kind : kinds) names.push_back(kind.name);
  return names;
}

void check_norm(std::string_view text) { parse_norm(text); }
void check_solver(std::string_view text) { parse_polar_solver(text); }
void check_average(std::string_view text) { parse_average(text); }
void check_schedule(std::string_view text) {
  if (text != "none") parse_schedule(text);
}
void check_stepsize(std::string_view text) {
  if (text != "none") parse_stepsize(text);
}
void check_line_search(std::string_view text) {
  if (text != "none") parse_line_search(text);
}

std::vector<Key> make_keys() {
  using enum OnResume;
  std::vector<Key> keys;
  const auto run = [&](std::string_view name, Place p, Range range, std::string_view help,
                       OnResume on_resume = Free, std::vector<std::string_view> choices = {}) {
    keys.push_back({"run", name, p, range, std::move(choices), nullptr, on_resume, help});
  };
  using R = RunConfig;
  run("name", place<&Config::run, &R::name>(), {},
      "name of the run's directory; empty: that of the preset or file");
  run("dir", place<&Config::run, &R::dir>(), {}, "where run directories are made");
  run("seed", place<&Config::run, &R::seed>(), {.low = 0},
      "seed of weights, shuffling and augmentation", Same);
  run("threads", place<&Config::run, &R::threads>(), {.low = 0, .high = 4096},
      "threads that compute; 0: all cores. Resuming is bit-exact only with the same number");
  run("steps", place<&Config::run, &R::steps>(), count,
      "optimizer steps; this or epochs, the other 0", Same);
  run("epochs", place<&Config::run, &R::epochs>(), {.low = 0, .high = 1e6},
      "passes over the training data; this or steps, the other 0", Same);
  run("log_every", place<&Config::run, &R::log_every>(), at_least_one,
      "steps between lines in metrics.jsonl");
  run("eval_every", place<&Config::run, &R::eval_every>(), count,
      "steps between evaluations; 0: only at the end");
  run("checkpoint_every", place<&Config::run, &R::checkpoint_every>(), count,
      "steps between checkpoints; 0: only at the end");
  run("layers_every", place<&Config::run, &R::layers_every>(), count,
      "steps between lines on every layer: its part of s, its weight's norm; 0: none");
  run("gap_every", place<&Config::run, &R::gap_every>(), count,
      "steps between passes over the training data for its gradient's dual norm and gap; 0: none");
  run("gap_batches", place<&Config::run, &R::gap_batches>(), count,
      "batches of such a pass; 0: an epoch");
  run("probe_every", place<&Config::run, &R::probe_every>(), count,
      "steps between probes of how fast the gradient changes, of one more pass each; 0: none");
  run("keep_last", place<&Config::run, &R::keep_last>(), {.low = 1, .high = 1000},
      "checkpoints kept, the newest ones");
  run("keep_best", place<&Config::run, &R::keep_best>(), {},
      "also keep the checkpoint with the best validation result");
  run("nonfinite", place<&Config::run, &R::nonfinite>(), {},
      "on NaN or infinity in loss or gradient: stop, or skip the step", Same, {"stop", "skip"});
  run("resume", place<&Config::run, &R::resume>(), {},
      "never, auto (the newest valid checkpoint, if any), or a checkpoint's directory");

  const auto model = [&](std::string_view name, Place p, Range range, std::string_view help,
                         std::vector<std::string_view> choices = {}) {
    keys.push_back({"model", name, p, range, std::move(choices), nullptr, Same, help});
  };
  using M = ModelConfig;
  model("kind", place<&Config::model, &M::kind>(), {}, "the architecture", names_of(model_kinds()));
  model("init", place<&Config::model, &M::init>(), {},
        "where weights start: as is customary for the model, or on the spheres of their norms and "
        "radii (adam, adamw, sgd, muon: those of [norm])",
        {"customary", "sphere"});
  model("layers", place<&Config::model, &M::layers>(), {.low = 1, .high = 1000},
        "transformer blocks");
  model("width", place<&Config::model, &M::width>(), {.low = 1, .high = 1 << 20},
        "size of the residual stream");
  model("heads", place<&Config::model, &M::heads>(), {.low = 1, .high = 1 << 16},
        "attention heads; width / heads is a head's size");
  model("context", place<&Config::model, &M::context>(), {.low = 1, .high = 1 << 24},
        "tokens of a sequence");
  model("vocab", place<&Config::model, &M::vocab>(), {.low = 2, .high = 1 << 24},
        "size of the vocabulary; 256 for bytes, 50304 for GPT-2 (50257, rounded up)");
  model("rope_base", place<&Config::model, &M::rope_base>(),
        {.low = 1, .high = 1e30, .low_open = true}, "base of the rotary embedding's frequencies");
  model("patch", place<&Config::model, &M::patch>(), {.low = 1, .high = 4096},
        "pixels in height and width of a patch, of which an image has a whole number");
  model("drop", place<&Config::model, &M::drop>(), below_one,
        "stochastic depth: probability of dropping a branch of the last block for an image; rises "
        "from 0 in the first");
  model("norm", place<&Config::model, &M::norm>(), {},
        "rms: without gain. layer: LayerNorm with gain and bias", {"rms", "layer"});
  model("gelu", place<&Config::model, &M::gelu>(), {}, "scaled: times the root of 2",
        {"scaled", "plain"});
  model("width_factor", place<&Config::model, &M::width_factor>(),
        {.low = 0, .high = 64, .low_open = true}, "times (64, 256, 256) channels");
  model("scaling_factor", place<&Config::model, &M::scaling_factor>(), positive,
        "times the logits");
  model("hidden", place<&Config::model, &M::hidden>(), {.low = 1, .high = 1 << 20},
        "sizes of the hidden layers");

  const auto data = [&](std::string_view name, Place p, Range range, std::string_view help,
                        OnResume on_resume = Same, std::vector<std::string_view> choices = {}) {
    keys.push_back({"data", name, p, range, std::move(choices), nullptr, on_resume, help});
  };
  using D = DataConfig;
  data("kind", place<&Config::data, &D::kind>(), {}, "the kind of data", Same,
       names_of(data_kinds()));
  data("path", place<&Config::data, &D::path>(), {},
       "file, directory or pattern (shards: *.bin); empty: where the kind's package puts it", Free);
  data("validation", place<&Config::data, &D::validation>(), {},
       "the validation data; empty: a part of path", Free);
  data("validation_fraction", place<&Config::data, &D::validation_fraction>(), below_one,
       "share at the end of the text that is not trained on");
  data("bpe", place<&Config::data, &D::bpe>(), {},
       "directory with GPT-2's vocab.bpe and encoder.json; empty: text as bytes, shards as "
       "their dataset.json says",
       Free);
  data("flip", place<&Config::data, &D::flip>(), {}, "flip left and right");
  data("translate", place<&Config::data, &D::translate>(), {.low = 0, .high = 31},
       "shift by up to this many pixels, fewer than the images have");
  data("size", place<&Config::data, &D::size>(), {.low = 8, .high = 4096},
       "pixels in height and width that images are brought to");
  data("bad_images", place<&Config::data, &D::bad_images>(), {},
       "on an image that cannot be decoded: stop, or skip it and take the next", Free,
       {"stop", "skip"});
  data("threads", place<&Config::data, &D::threads>(), {.low = 0, .high = 256},
       "threads that decode and augment; 0: all cores. The batches are the same for any number",
       Free);

  const auto augment = [&](std::string_view name, Place p, Range range, std::string_view help) {
    keys.push_back({"augment", name, p, range, {}, nullptr, Same, help});
  };
  using A = AugmentConfig;
  augment("crop_area", place<&Config::augment, &A::crop_area>(), above_zero_to_one,
          "smallest and largest share of an image that is cut out");
  augment("crop_ratio", place<&Config::augment, &A::crop_ratio>(), {.low = 0.01, .high = 100},
          "smallest and largest ratio of its width to its height");
  augment("flip", place<&Config::augment, &A::flip>(), zero_to_one,
          "probability of flipping left and right");
  augment("operations", place<&Config::augment, &A::operations>(), {.low = 0, .high = 15},
          "operations of RandAugment on every image; 0: none");
  augment("magnitude", place<&Config::augment, &A::magnitude>(), {.low = 0, .high = 10},
          "how strong they are on average");
  augment("deviation", place<&Config::augment, &A::deviation>(), {.low = 0, .high = 100},
          "standard deviation of that, which stays in 0 to 10");
  augment("probability", place<&Config::augment, &A::probability>(), zero_to_one,
          "probability of each of them");
  augment("erase", place<&Config::augment, &A::erase>(), zero_to_one,
          "probability of filling a rectangle with noise");
  augment("mixup", place<&Config::augment, &A::mixup>(), {.low = 0, .high = 1000},
          "a of Beta(a, a), the weight in averages of two images; 0: none");
  augment("cutmix", place<&Config::augment, &A::cutmix>(), {.low = 0, .high = 1000},
          "a of Beta(a, a), the share in which an image keeps its pixels; 0: none. With mixup, a "
          "batch has one of the two");
  augment("repeats", place<&Config::augment, &A::repeats>(), {.low = 1, .high = 100},
          "how often an image of an epoch is shown in it; an epoch then has fewer distinct images");

  const auto train = [&](std::string_view name, Place p, Range range, std::string_view help,
                         OnResume on_resume = Same, std::vector<std::string_view> choices = {}) {
    keys.push_back({"train", name, p, range, std::move(choices), nullptr, on_resume, help});
  };
  using T = TrainConfig;
  train("batch", place<&Config::train, &T::batch>(), {.low = 1, .high = 1 << 30},
        "images or sequences of an optimizer step");
  train(
      "micro_batch", place<&Config::train, &T::micro_batch>(), {.low = 0, .high = 1 << 30},
      "images or sequences of a forward pass; their gradients add up to those of the batch. 0: the "
      "whole batch");
  train("label_smoothing", place<&Config::train, &T::label_smoothing>(), below_one,
        "weight of the uniform distribution in the targets");
  train("loss", place<&Config::train, &T::loss>(), {},
        "reduction over the batch; sum scales s, so rho is in other units", Same, {"mean", "sum"});
  train(
      "overfit_batch", place<&Config::train, &T::overfit_batch>(), {},
      "train on the first batch again and again: a correct model and stepsize bring its loss to 0");
  keys.push_back({"train",
                  "average",
                  place<&Config::train, &T::average>(),
                  {},
                  {},
                  check_average,
                  Same,
                  "of the iterates, evaluated and saved: none, ema(0.9999), tail(0.25), "
                  "schedule_free(0.9), soda or uniform"});

  const auto optimizer = [&](std::string_view name, Place p, Range range, std::string_view help,
                             std::vector<std::string_view> choices = {},
                             void (*check)(std::string_view) = nullptr) {
    keys.push_back({"optimizer", name, p, range, std::move(choices), check, Same, help});
  };
  using O = OptimizerConfig;
  optimizer("method", place<&Config::optimizer, &O::method>(), {},
            "the method. sd, adaptive_sd, ucg, ggnc, cg, s3cg and the scions step in the norms of "
            "[norm], muon in norm.hidden, the others in none of them",
            methods());
  optimizer("lr", place<&Config::optimizer, &O::lr>(), not_negative,
            "the largest step, gamma rho; for muon, adam, adamw and sgd their learning rate");
  optimizer("alpha", place<&Config::optimizer, &O::alpha>(), above_zero_to_one,
            "weight of the newest gradient in the average");
  optimizer("alpha_schedule", place<&Config::optimizer, &O::alpha_schedule>(), {},
            "alpha over the steps, in place of optimizer.alpha: none, linear(0.5, steps=1000), "
            "warmdown, cosine or power(1, exponent=0.5)",
            {}, check_schedule);
  optimizer("rho", place<&Config::optimizer, &O::rho>(), positive,
            "clipping threshold on s, in the units of the loss's reduction. auto (clipped_gd, "
            "clipped_lars and the clipped scions): the lower median of the last 100 s");
  optimizer("rho_schedule", place<&Config::optimizer, &O::rho_schedule>(), {},
            "rho over the steps, in place of optimizer.rho; lr stays gamma rho", {},
            check_schedule);
  optimizer("stepsize", place<&Config::optimizer, &O::stepsize>(), {},
            "a rule that finds the length of steps: none (all have the length lr), adagrad, "
            "distance_aware(most=0.01) (which needs no lr, but a bound), momo(f_star=0) or "
            "auto_clipped(quantile=0.5)",
            {}, check_stepsize);
  optimizer("line_search", place<&Config::optimizer, &O::line_search>(), {},
            "tries steps by the loss of the same batch, in forward passes: none, backtracking or "
            "smoothness, which estimates (L0, L1); lr is then the first trial",
            {}, check_line_search);
  optimizer("short_step", place<&Config::optimizer, &O::short_step>(), {},
            "clip s itself, or variant 1 or 2 as printed (s3cg: plain is norm)",
            {"plain", "norm", "diameter"});
  optimizer("solver", place<&Config::optimizer, &O::solver>(), {},
            "solver of spectral norms: exact, damped, muon, polar_express ...", {}, check_solver);
  optimizer("beta", place<&Config::optimizer, &O::beta>(), positive,
            "the ball's radius, of all layers");
  optimizer("l0", place<&Config::optimizer, &O::l0>(), not_negative, "L0");
  optimizer("l1", place<&Config::optimizer, &O::l1>(), not_negative, "L1; not both 0");
  optimizer("betas", place<&Config::optimizer, &O::betas>(), below_one,
            "decays of both averages; muon: for the parameters that AdamW steps");
  optimizer("eps", place<&Config::optimizer, &O::eps>(), not_negative, "added to the denominator");
  optimizer("weight_decay", place<&Config::optimizer, &O::weight_decay>(), not_negative,
            "pulls weights to 0; muon: only those that AdamW steps");
  optimizer("grad_clip", place<&Config::optimizer, &O::grad_clip>(), not_negative,
            "largest Euclidean norm of the gradient; 0: no clipping. muon: of the part that AdamW "
            "steps");
  optimizer("momentum", place<&Config::optimizer, &O::momentum>(), below_one,
            "weight of the old average");
  optimizer("nesterov", place<&Config::optimizer, &O::nesterov>(), {}, "look ahead by one step");

  const auto schedule = [&](std::string_view name, Place p, Range range, std::string_view help,
                            std::vector<std::string_view> choices = {}) {
    keys.push_back({"schedule", name, p, range, std::move(choices), nullptr, Same, help});
  };
  using S = ScheduleConfig;
  schedule("kind", place<&Config::schedule, &S::kind>(), {}, "how lr changes over the run",
           {"constant", "linear", "warmdown", "cosine", "power"});
  schedule("warmup", place<&Config::schedule, &S::warmup>(), below_one,
           "share of the steps during which lr rises linearly");
  schedule("decay", place<&Config::schedule, &S::decay>(), above_zero_to_one,
           "share of the steps, at the end, during which lr falls linearly to 0");
  schedule("end", place<&Config::schedule, &S::end>(), not_negative, "the last lr");
  schedule("exponent", place<&Config::schedule, &S::exponent>(), {.low = 0, .high = 10},
           "lr is that of the first step times k^-exponent in step k");

  const auto norm = [&](std::string_view name, Place p, Range range, std::string_view help,
                        void (*check)(std::string_view) = nullptr) {
    keys.push_back({"norm", name, p, range, {}, check, Same, help});
  };
  using N = NormConfig;
  norm("input", place<&Config::norm, &N::input>(), {}, "norm of the first layer", check_norm);
  norm("input_radius", place<&Config::norm, &N::input_radius>(), positive,
       "radius of the first layer");
  norm(
      "embedding", place<&Config::norm, &N::embedding>(), {},
      "gpt: norm of the embedding, which is the output matrix as well. vit: of positions and class "
      "token",
      check_norm);
  norm("embedding_radius", place<&Config::norm, &N::embedding_radius>(), positive,
       "radius of embeddings");
  norm("hidden", place<&Config::norm, &N::hidden>(), {}, "norm of hidden matrices and convolutions",
       check_norm);
  norm("hidden_radius", place<&Config::norm, &N::hidden_radius>(), positive,
       "radius of hidden matrices and convolutions");
  norm("output", place<&Config::norm, &N::output>(), {}, "norm of the last layer", check_norm);
  norm("output_radius", place<&Config::norm, &N::output_radius>(), positive,
       "radius of the last layer");
  norm("vector", place<&Config::norm, &N::vector>(), {}, "norm of biases and gains", check_norm);
  norm("vector_radius", place<&Config::norm, &N::vector_radius>(), positive,
       "radius of biases and gains");
  keys.push_back({"norm",
                  "radii",
                  place<&Config::norm, &N::radii>(),
                  {},
                  {"given", "auto"},
                  nullptr,
                  Same,
                  "auto: from depth and fan-in (docs/stepsizes.md) in place of the radii above; "
                  "norm.route wins"});
  norm("route", place<&Config::norm, &N::route>(), positive,
       "list of {pattern, norm, radius}: parameters whose name matches; where several match, later "
       "ones win",
       check_norm);

  const auto eval = [&](std::string_view name, Place p, Range range, std::string_view help) {
    keys.push_back({"eval", name, p, range, {}, nullptr, Free, help});
  };
  using E = EvalConfig;
  eval("batches", place<&Config::eval, &E::batches>(), count,
       "batches per evaluation; 0: all validation data");
  eval("batch", place<&Config::eval, &E::batch>(), {.low = 0, .high = 1 << 30},
       "images or sequences of a batch; 0: train.batch, by train.micro_batch at a time");
  eval("tta", place<&Config::eval, &E::tta>(), {.low = 0, .high = 2},
       "average over views. 0: one, 1: mirrored, 2: mirrored and shifted");
  eval("crop", place<&Config::eval, &E::crop>(), {.low = 0.1, .high = 1},
       "share of an image's short side that is evaluated, in its middle");

  const auto sample = [&](std::string_view name, Place p, Range range, std::string_view help) {
    keys.push_back({"sample", name, p, range, {}, nullptr, Free, help});
  };
  using P = SampleConfig;
  sample("every", place<&Config::sample, &P::every>(), count,
         "steps between samples of text; 0: none");
  sample("prompt", place<&Config::sample, &P::prompt>(), {}, "the text to continue");
  sample("length", place<&Config::sample, &P::length>(), {.low = 1, .high = 1 << 20},
         "tokens to add");
  sample("temperature", place<&Config::sample, &P::temperature>(), not_negative,
         "0 takes the most likely token");
  sample("top_k", place<&Config::sample, &P::top_k>(), count,
         "choose among this many tokens; 0: all");
  return keys;
}

}  // namespace

std::span<const Key> config_keys() {
  static const std::vector<Key> keys = make_keys();
  return keys;
}

}  // namespace normball::trainer::config
