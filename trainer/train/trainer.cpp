#include "trainer/train/trainer.h"

#include <ATen/Parallel.h>

#include <sstream>

#include "normball/error.h"
#include "normball/text.h"
#include "trainer/models/initialization.h"
#include "trainer/run/config_use.h"
#include "trainer/train/core_optimizer.h"
#include "trainer/train/model_builder.h"
#include "trainer/train/model_state.h"
#include "trainer/train/sample.h"
#include "trainer/train/stop_signal.h"

namespace normball::trainer {
namespace {

namespace fs = std::filesystem;

std::int64_t total_steps(const run::Config& config, const DataFacts& facts) {
  if (config.run.steps > 0) return config.run.steps;
  return config.run.epochs * std::max<std::int64_t>(1, facts.items / config.train.batch);
}

run::Retention retention_of(const run::Config& config) {
  return {.last = static_cast<int>(config.run.keep_last),
          .best = config.run.keep_best,
          .lower_is_better = config.model.kind == "gpt"};
}

// What "best" is judged by: accuracy where there is one.
double metric_of(const Evaluation& evaluation) {
  return evaluation.accuracy.value_or(evaluation.loss);
}

// Throws with the first few keys that differ from those of the checkpoint's run.
void require_same_run(const fs::path& checkpoint, const run::Config& config) {
  constexpr size_t shown = 6;
  const auto run = fs::canonical(checkpoint).parent_path().parent_path();
  const auto conflicts = run::resume_conflicts(run::stored_config(run), config);
  if (conflicts.empty()) return;
  std::string text;
  for (size_t i = 0; i < std::min(shown, conflicts.size()); ++i) text += "\n  " + conflicts[i];
  if (conflicts.size() > shown) {
    text += "\n  and " + std::to_string(conflicts.size() - shown) + " more";
  }
  normball::detail::invalid("train", checkpoint.string(),
                            " belongs to a run of another configuration:", text,
                            "\nset these back, or start a new run with --name");
}

}  // namespace

Trainer::Trainer(run::Config config, TrainingOptions options)
    : config_(std::move(config)),
      options_(options),
      directory_(fs::path(config_.run.dir) / config_.run.name),
      data_(open_data(config_)),
      model_(build_model(config_, data_->facts())),
      steps_(total_steps(config_, data_->facts())),
      checkpoints_(directory_ / "checkpoints", retention_of(config_)) {
  initialize();
  optimizer_ = make_optimizer(config_, *model_, steps_);
  find_checkpoint();
}

// The loop of every method:
TrainingResult Trainer::run(run::Progress& progress) {
  const StopSignal stop;
  open_directory(progress);
  const std::int64_t last =
      options_.stop_after > 0 ? std::min(steps_, step_ + options_.stop_after) : steps_;
  while (step_ < last && !StopSignal::requested()) {
    const Loss loss = accumulate_gradients();
    const StepOutcome outcome = take_step(loss);
    ++step_;
    evaluation_.reset();
    recorder_->trained(step_, loss.mean, outcome, loss.units);
    if (due(config_.run.eval_every) || step_ == steps_) evaluate_now();
    if (due(config_.sample.every)) sample_now();
    if (due(config_.run.checkpoint_every) || step_ == steps_) save();
  }
  const bool finished = step_ == steps_;
  if (!finished && last_checkpoint_.filename() != "step-" + std::to_string(step_)) save();
  progress.finish();
  return {.step = step_,
          .finished = finished,
          .evaluation = evaluation_,
          .seconds = recorder_->seconds(),
          .checkpoint = last_checkpoint_};
}

// The gradient of the whole batch's loss, from micro-batches that fit into memory.
Trainer::Loss Trainer::accumulate_gradients() {
  model_->zero_grad();
  buffers_before_.clear();
  for (const auto& buffer : model_->buffers()) buffers_before_.push_back(buffer.tensor.clone());
  const std::int64_t parts = config_.train.accumulation();
  Loss result;
  for (std::int64_t part = 0; part < parts; ++part) {
    const Batch batch = only_batch_ ? *only_batch_ : data_->next();
    const Outcome outcome = model_->forward(batch);
    const double loss = outcome.loss.item<double>();
    if (!std::isfinite(loss)) {
      result.bad = "micro-batch " + std::to_string(part + 1) + " of " + std::to_string(parts);
      return result;
    }
    result.mean += loss / static_cast<double>(parts);
    result.units += outcome.count;
    const double weight = config_.train.loss == "sum" ? static_cast<double>(outcome.count)
                                                      : 1 / static_cast<double>(parts);
    (outcome.loss * weight).backward();
  }
  return result;
}

// Weights and state move only where loss and gradients are finite.
StepOutcome Trainer::take_step(const Loss& loss) {
  if (loss.bad) {
    refuse("the loss of " + *loss.bad);
    return {.nonfinite = "loss"};
  }
  StepOutcome outcome = optimizer_->step();
  if (outcome.nonfinite) refuse("the gradient of '" + *outcome.nonfinite + "'");
  return outcome;
}

void Trainer::refuse(const std::string& where) {
  for (size_t i = 0; i < buffers_before_.size(); ++i) {
    model_->buffers()[i].tensor.copy_(buffers_before_[i]);
  }
  const std::string what = where + " is not finite in step " + std::to_string(step_ + 1);
  if (config_.run.nonfinite == "skip") {
    recorder_->note("skipped: " + what);
    return;
  }
  throw NonFiniteError(normball::detail::message(
      "train", what, "; the weights are still those of step ", step_,
      ". Last checkpoint: ", last_checkpoint_.empty() ? "none" : last_checkpoint_.string(),
      ". A smaller optimizer.lr may help; run.nonfinite=skip passes over such steps"));
}

void Trainer::evaluate_now() {
  if (data_->evaluation_batches() == 0) return;
  evaluation_ = evaluate(*model_, *data_);
  recorder_->evaluated(step_, *evaluation_);
}

void Trainer::sample_now() {
  const auto* gpt = dynamic_cast<const Gpt*>(model_.get());
  const auto& tokenizer = data_->facts().tokenizer;
  if (gpt == nullptr || !tokenizer) return;
  recorder_->sampled(step_, generate_text(*gpt, *tokenizer, config_.sample,
                                          static_cast<std::uint64_t>(config_.run.seed)));
}

void Trainer::save() {
  recorder_->sync();
  const data::DataCursor cursor = data_->cursor();
  run::CheckpointState state{.step = step_,
                             .cursor = {{"epoch", cursor.epoch},
                                        {"position", cursor.position},
                                        {"items", cursor.items},
                                        {"seed", static_cast<std::int64_t>(cursor.seed)},
                                        {"optimizer_steps", optimizer_->steps_taken()}},
                             .notes = {{"seconds", number_text(recorder_->seconds())}}};
  if (evaluation_ && std::isfinite(metric_of(*evaluation_))) state.metric = metric_of(*evaluation_);
  const auto model = model_state(*model_), optimizer = optimizer_->state();
  last_checkpoint_ = checkpoints_.save(std::move(state), views_of(model), views_of(optimizer));
}

void Trainer::initialize() {
  Random random(static_cast<std::uint64_t>(config_.run.seed));
  if (config_.model.init == "sphere") {
    const auto layers = route_parameters(config_, model_->parameters()).layers();
    initialize_on_spheres(*model_, layers, random);
  } else {
    model_->initialize(random);
  }
  const auto inputs = data_->preparation_inputs();
  if (inputs.defined()) model_->prepare(inputs);
  if (options_.overfit_batch) {
    const Batch batch = data_->next();
    only_batch_ = Batch{batch.inputs.clone(), batch.targets.clone()};
  }
}

void Trainer::find_checkpoint() {
  const std::string& resume = config_.run.resume;
  if (resume == "never") {
    if (!checkpoints_.list().empty()) {
      normball::detail::invalid("train", directory_.string(),
                                " already holds a run; --resume goes on "
                                "with it, --name starts another one");
    }
    return;
  }
  if (resume != "auto") {
    load(run::open_checkpoint(resume));
    return;
  }
  auto search = checkpoints_.latest();
  for (const auto& skipped : search.skipped) {
    notes_.push_back("passed over " + skipped.path.string() + ": " + skipped.reason);
  }
  if (search.found) load(*search.found);
}

void Trainer::load(const run::Checkpoint& checkpoint) {
  const auto& state = checkpoint.state;
  require_same_run(checkpoint.path, config_);
  load_tensors(checkpoint.model, model_state(*model_), "the model");
  load_tensors(checkpoint.optimizer, optimizer_->state(), "the optimizer");
  optimizer_->set_steps_taken(state.cursor.at("optimizer_steps"));
  if (!only_batch_) {
    data_->seek({.seed = static_cast<std::uint64_t>(state.cursor.at("seed")),
                 .epoch = state.cursor.at("epoch"),
                 .position = state.cursor.at("position"),
                 .items = state.cursor.at("items")});
  }
  step_ = state.step;
  resumed_at_ = state.step;
  last_checkpoint_ = checkpoint.path;
  earlier_seconds_ = parse_number("train", "seconds", state.notes.at("seconds"));
}

void Trainer::open_directory(run::Progress& progress) {
  auto& files = run::FileSystem::real();
  run::make_directories(files, directory_);
  lock_.emplace(directory_);
  checkpoints_.clean();
  if (resumed_at_) {
    checkpoints_.discard_after(step_);
  } else {
    run::write_file_atomically(files, directory_ / "config.toml", run::to_toml(config_));
  }
  recorder_ = std::make_unique<Recorder>(directory_, config_, data_->facts().unit, steps_, progress,
                                         resumed_at_, earlier_seconds_);
  for (const auto& warning : data_->facts().warnings) recorder_->note("warning: " + warning);
  for (const auto& note : notes_) recorder_->note(note);
  if (resumed_at_) recorder_->note("going on after step " + std::to_string(step_));
}

std::string Trainer::explain() const {
  const auto& facts = data_->facts();
  const double units = static_cast<double>(facts.item_units * config_.train.batch);
  std::ostringstream text;
  text << "data       " << config_.data.kind << ": " << facts.items * facts.item_units << ' '
       << facts.unit << " an epoch, " << data_->evaluation_batches() << " batches for validation\n"
       << "model      " << config_.model.kind << " with " << model_->parameter_count()
       << " parameters, " << units * model_->training_flops() / 1e9 << " Gflop a step\n"
       << "steps      " << steps_ << " of " << config_.train.batch
       << (facts.item_units > 1 ? " sequences" : " images") << " (" << config_.train.accumulation()
       << " micro-batches)\n"
       << "optimizer  " << run::optimizer_text(config_) << "\n\n"
       << optimizer_->explain();
  for (const auto& warning : facts.warnings) text << "warning: " << warning << '\n';
  return text.str();
}

}  // namespace normball::trainer
