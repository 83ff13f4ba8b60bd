#include "trainer/train/trainer.h"

#include <ATen/Parallel.h>

#include <utility>

#include "normball/base/error.h"
#include "normball/base/text.h"
#include "trainer/config/config_method.h"
#include "trainer/config/config_use.h"
#include "trainer/models/initialization.h"
#include "trainer/optim/routing.h"
#include "trainer/run/metrics.h"
#include "trainer/run/run_files.h"
#include "trainer/runtime/counted.h"
#include "trainer/runtime/stop_signal.h"
#include "trainer/train/model_builder.h"
#include "trainer/train/model_state.h"
#include "trainer/train/resume_checks.h"
#include "trainer/train/sample.h"

namespace normball::trainer::train {
namespace {

namespace fs = std::filesystem;

// Of an epoch.
std::int64_t batches_of(const config::Config& config, const DataFacts& facts) {
  return std::max<std::int64_t>(1, facts.items / config.train.batch);
}

std::int64_t total_steps(const config::Config& config, const DataFacts& facts) {
  if (config.run.steps > 0) return config.run.steps;
  return config.run.epochs * batches_of(config, facts);
}

run::Retention retention_of(const config::Config& config) {
  return {.last = static_cast<int>(config.run.keep_last), .best = config.run.keep_best};
}

// What "best" is judged by: accuracy where there is one. One that is not finite is never best.
void set_metric(run::CheckpointState& state, const std::optional<Evaluation>& evaluation) {
  if (!evaluation) return;
  const double metric = evaluation->accuracy.value_or(evaluation->loss);
  if (!std::isfinite(metric) || !std::isfinite(evaluation->loss)) return;
  state.metric = metric;
  state.better = evaluation->accuracy ? run::Better::Higher : run::Better::Lower;
}

// What may help where steps are too long.
std::string shorter_steps(const config::Config& config) {
  if (config::has_effect("optimizer.lr", config)) return "A smaller optimizer.lr may help";
  if (config.optimizer.stepsize.starts_with("distance_aware")) {
    return "A bound of its steps may help, such as optimizer.stepsize=distance_aware(most=0.01)";
  }
  return config.optimizer.method == "adaptive_sd" ? "A larger optimizer.l1 or optimizer.l0 may help"
                                                  : "Smaller radii may help";
}

}  // namespace

Trainer::Trainer(config::Config config, TrainingOptions options)
    : config_(std::move(config)),
      options_(options),
      team_(options.team),
      directory_(fs::path(config_.run.dir) / config_.run.name),
      data_(open_data(config_)),
      model_(build_model(config_, data_->facts())),
      steps_(total_steps(config_, data_->facts())),
      checkpoints_(directory_ / "checkpoints", retention_of(config_)),
      learning_(steps_),
      pass_(config_, *model_, *data_, *team_) {
  collect_facts();
  join_team();
  initialize();
  optimizer_ = optim::make_optimizer(config_, *model_, steps_, team_->ranks());
  pass_.divide_gradients(*optimizer_);
  measurements_.emplace(config_, *model_, *data_, batches_of(config_, data_->facts()),
                        optimizer_->norm_ball(), [this] {
                          const BatchLoss loss = pass_.gradients();
                          pass_.bring_gradients();
                          return loss;
                        });
  find_start();
}

TrainingResult Trainer::run(runtime::Progress& progress) {
  const runtime::StopWish stop;
  open_directory(progress);
  std::int64_t last = steps_;
  if (options_.stop_after > 0) last = std::min(last, step_ + options_.stop_after);
  if (options_.stop_at > 0) last = std::min(last, options_.stop_at);
  const bool was_finished = step_ == steps_;
  bool stopping = team_->any(stop.requested());
  while (step_ < last && !stopping) {
    team_->set_activity("step " + std::to_string(step_ + 1));
    measurements_->begin(step_ + 1);
    const BatchLoss loss = pass_.gradients();
    if (measurements_->wants_gradient()) pass_.bring_gradients();
    measurements_->see_gradient();
    const optim::StepOutcome outcome = take_step(loss);
    ++step_;
    evaluation_.reset();
    recorder_->waited(data_->waited(), pass_.exposed_seconds());
    recorder_->trained(step_, loss.mean, outcome, loss.units);
    outcome.nonfinite ? learning_.skipped(step_) : learning_.trained(step_, loss.mean);
    if (!outcome.nonfinite) recorder_->measured(step_, measurements_->end());
    if (due(config_.run.eval_every) || step_ == steps_) evaluate_now();
    if (due(config_.sample.every)) sample_now();
    if (due(config_.run.checkpoint_every) || step_ == steps_) save();
    stopping = team_->any(stop.requested());
  }
  const bool finished = step_ == steps_;
  if (!finished && last_checkpoint_.filename() != "step-" + std::to_string(step_)) save();
  require_files();
  for (const auto& remark : data_->remarks()) {
    recorder_->note(remark + (team_->alone() ? ""
                                             : " (in what rank 0 has read; see the data with "
                                               "`normball data verify`)"));
  }
  progress.finish();
  auto verdict =
      finished ? learning_.judge(config_, *model_, evaluation_) : LearningCheck::Verdict{};
  if (verdict.diverged) recorder_->diverged(step_, verdict.text);
  if (was_finished) {  // and is still of no use if it was
    if (auto found = divergence_of(directory_, step_)) verdict = {true, std::move(*found)};
    evaluation_ = recorded_evaluation(directory_, step_);
  }
  return {.step = step_,
          .skipped = step_ - optimizer_->steps_taken(),
          .finished = finished,
          .was_finished = was_finished,
          .verdict = verdict,
          .evaluation = evaluation_,
          .seconds = recorder_->seconds(),
          .checkpoint = last_checkpoint_};
}

// Weights and state move only where loss and gradients are finite.
optim::StepOutcome Trainer::take_step(const BatchLoss& loss) {
  if (loss.bad) {
    optim::StepOutcome outcome{.nonfinite = loss.bad->name};
    refuse(loss, outcome, loss.bad->where);
    return outcome;
  }
  optim::StepOutcome outcome =
      optimizer_->step(loss.reduced, [this] { return pass_.loss_again(); });
  if (outcome.nonfinite) {
    const bool trial = *outcome.nonfinite == optim::trial_step;
    refuse(loss, outcome,
           trial ? "the loss after a trial step" : bad_gradient(*outcome.nonfinite).where);
  }
  return outcome;
}

void Trainer::refuse(const BatchLoss& loss, optim::StepOutcome& outcome, const std::string& where) {
  outcome.lr = config::lr_schedule(config_, steps_).at(optimizer_->steps_taken());
  pass_.restore_buffers();
  const std::string what = where + " is not finite in step " + std::to_string(step_ + 1);
  if (config_.run.nonfinite == "skip") {
    recorder_->note("skipped: " + what);
    return;
  }
  recorder_->stopped(step_ + 1, loss.mean, outcome);
  throw NonFiniteError(normball::error_message(
      "train", what, "; the weights are still those of step ", step_,
      ". Last checkpoint: ", last_checkpoint_.empty() ? "none" : last_checkpoint_.string(), ". ",
      shorter_steps(config_), "; run.nonfinite=skip skips such steps"));
}

void Trainer::evaluate_now() {
  if (data_->evaluation_batches() == 0) return;
  team_->set_activity("the evaluation after step " + std::to_string(step_));
  evaluation_ = evaluate(*model_, *data_, *team_);
  std::optional<Evaluation> of_iterate;
  if (optimizer_->has_average()) {
    const optim::EvaluatedWeights average(*optimizer_);
    of_iterate = std::exchange(evaluation_, evaluate(*model_, *data_, *team_));
  }
  recorder_->evaluated(step_, *evaluation_, of_iterate);
}

void Trainer::sample_now() {
  const auto* gpt = dynamic_cast<const models::Gpt*>(model_.get());
  const auto& tokenizer = data_->facts().tokenizer;
  if (gpt == nullptr || !tokenizer || !team_->leads()) return;
  const optim::EvaluatedWeights average(*optimizer_);
  recorder_->sampled(step_, generate_text(*gpt, *tokenizer, config_.sample,
                                          static_cast<std::uint64_t>(config_.run.seed)));
}

// A directory that was renamed meanwhile keeps its run: files that are open go with it, and so does
// what is written next.
void Trainer::follow_directory() {
  const fs::path now = lock_->place(directory_);
  if (now == directory_) return;
  recorder_->note(directory_.string() + " is now " + now.string() + ": going on there");
  const fs::path inside = last_checkpoint_.lexically_relative(directory_);
  if (!inside.empty() && *inside.begin() != "..") last_checkpoint_ = now / inside;
  directory_ = now;
  facts_["directory"] = now.string();
  checkpoints_.follow(directory_ / "checkpoints");
}

// A run whose files are gone is of no use, but what it has learned is saved before that ends it.
void Trainer::require_files() {
  if (!team_->leads()) return;
  follow_directory();
  recorder_->require_files(directory_, last_checkpoint_);
}

// The momenta of all ranks come together first.
void Trainer::save() {
  team_->set_activity("the checkpoint of step " + std::to_string(step_));
  if (team_->leads()) follow_directory();
  const auto optimizer = optimizer_->state();
  const optim::EvaluatedWeights average(*optimizer_);
  last_checkpoint_ = team_->leads()
                         ? write_checkpoint(optimizer)
                         : directory_ / "checkpoints" / ("step-" + std::to_string(step_));
  require_files();
  if (team_->leads()) run::tell_launcher(last_checkpoint_);
}

fs::path Trainer::write_checkpoint(const std::vector<optim::NamedTensor>& optimizer) {
  recorder_->sync();
  run::CheckpointState state{
      .step = step_, .cursor = data::entries_of(data_->cursor()), .notes = facts_};
  state.cursor["optimizer_steps"] = optimizer_->steps_taken();
  state.notes["seconds"] = number_text(recorder_->seconds());
  state.notes["metrics_lines"] = std::to_string(recorder_->lines());
  if (learning_.first_loss()) state.notes["first_loss"] = number_text(*learning_.first_loss());
  set_metric(state, evaluation_);
  const auto model = model_state(*model_);
  while (true) {
    try {
      return checkpoints_.save(state, views_of(model), views_of(optimizer));
    } catch (const files::FileError&) {
      if (lock_->place(directory_) == directory_) {
        recorder_->require_files(directory_, last_checkpoint_);  // the better reason
        throw;
      }
    }
    follow_directory();  // it was renamed just now
    state.notes["directory"] = facts_.at("directory");
    checkpoints_.clean();
  }
}

void Trainer::initialize() {
  Random random(static_cast<std::uint64_t>(config_.run.seed));
  if (config_.model.init == "sphere") {
    const auto layers = optim::route_parameters(config_, model_->parameters()).layers();
    models::initialize_on_spheres(*model_, layers, random);
  } else {
    model_->initialize(random);
  }
  const auto inputs = data_->preparation_inputs();
  if (inputs.defined()) model_->prepare(inputs);
  for (const auto& [name, tensor] : model_state(*model_)) team_->copy_from_first(tensor);
  if (config_.train.overfit_batch) pass_.keep_next_batch();
}

void Trainer::collect_facts() {
  const auto& tokenizer = data_->facts().tokenizer;
  facts_ = {{"directory", fs::absolute(directory_).lexically_normal().string()},
            {"training_data", data_->training_digest()},
            {"validation_data", data_->validation_digest()}};
  facts_.merge(config::model_facts(config_));
  if (tokenizer) facts_["tokenizer"] = tokenizer->name();
  if (!config_.norm.route.empty()) facts_[optim::route_note] = optim::last_route_wins;
  facts_["evaluated"] = std::to_string(data_->evaluation_items());
  if (config_.train.overfit_batch) facts_["overfit_batch"] = std::to_string(config_.train.batch);
}

// All ranks must be of the same kind; then each gets its part of every batch.
void Trainer::join_team() {
  if (team_->alone()) return;
  team_->agree_on(facts_to_agree_on(config_, facts_));
  facts_["ranks"] = std::to_string(team_->size());
  pass_.share();
}

void Trainer::find_start() {
  // Before looking: what another process still writes must not be taken for what is there.
  if (!options_.dry_run && team_->leads() && fs::is_directory(directory_)) {
    lock_.emplace(directory_);
  }
  if (options_.dry_run && config_.run.resume == "never" && run::holds_run(directory_)) {
    notes_.push_back(directory_.string() + run::holds_run_already);
    return;
  }
  const auto start = run::find_starting_point(config_, directory_);
  team_->require_same("starting point",
                      start.checkpoint ? "step " + std::to_string(start.checkpoint->state.step)
                                       : std::string("no checkpoint"),
                      "all must see the same run directory");
  notes_ = start.notes;
  origin_ = start.origin;
  if (!start.checkpoint) return;
  load(*start.checkpoint);
  // The curves that go on must be whole before anything is written.
  const fs::path from = run::run_of(start.checkpoint->path);
  const auto& notes = start.checkpoint->state.notes;
  const auto lines = notes.find("metrics_lines");  // earlier versions do not say
  run::check_metrics(from / "metrics.jsonl", step_,
                     lines == notes.end() ? 0
                                          : static_cast<std::int64_t>(parse_number(
                                                "resume", "metrics_lines", lines->second)));
  run::check_metrics(directory_ / "metrics.jsonl", step_);
  if (!start.own) earlier_run_ = run::run_of(start.checkpoint->path);
}

void Trainer::load(const run::Checkpoint& checkpoint) {
  const auto& state = checkpoint.state;
  require_same_run(checkpoint.path, config_);
  run::require_same_model(checkpoint, config_);
  require_same_routes(checkpoint, config_, *model_);
  for (auto& note : compare_data(checkpoint, config_, facts_)) notes_.push_back(std::move(note));
  if (const auto ranks = ranks_note(checkpoint, team_->size())) notes_.push_back(*ranks);
  if (state.step > steps_) {
    normball::throw_invalid("train", checkpoint.path.string(), " has taken ",
                            runtime::counted(state.step, "step"), " already, more than the ",
                            steps_,
                            " requested; request more (run.steps, run.epochs), or name an "
                            "earlier checkpoint with --resume");
  }
  load_tensors(checkpoint.model, model_state(*model_), "the model");
  load_tensors(checkpoint.optimizer, optimizer_->state(), "the optimizer");
  optimizer_->set_steps_taken(state.cursor.at("optimizer_steps"));
  if (!config_.train.overfit_batch) data_->seek(data::cursor_of(state.cursor));
  step_ = state.step;
  resumed_at_ = state.step;
  last_checkpoint_ = checkpoint.path;
  earlier_seconds_ = parse_number("train", "seconds", state.notes.at("seconds"));
  if (const auto first = state.notes.find("first_loss"); first != state.notes.end()) {
    learning_ = LearningCheck(steps_, parse_number("train", "first_loss", first->second));
  }
}

void Trainer::open_directory(runtime::Progress& progress) {
  if (!team_->leads()) {
    recorder_ = std::make_unique<Recorder>("", config_, data_->facts().unit, steps_, progress,
                                           resumed_at_, earlier_seconds_);
    return;
  }
  files::make_directories(files::FileSystem::real(), directory_);
  if (!lock_) {
    lock_.emplace(directory_);
    // It was not there: what it holds now is another process's.
    if (run::holds_run(directory_)) run::refuse_to_write_over(directory_);
  }
  checkpoints_.clean();
  if (resumed_at_) {
    const auto [removed, set_aside] = checkpoints_.discard_after(step_);
    for (const auto& path : removed) notes_.push_back("removed the later " + path.string());
    for (const auto& path : set_aside) notes_.push_back("kept as " + path.string());
  }
  const auto& tokenizer = data_->facts().tokenizer;
  run::write_run_files(directory_, config::to_toml(run::as_recorded(config_, origin_)),
                       tokenizer ? tokenizer->directory() : "");
  if (!earlier_run_.empty()) run::copy_curves(earlier_run_, directory_);
  if (resumed_at_.value_or(0) > 0 && !fs::exists(directory_ / "metrics.jsonl")) {
    notes_.push_back("metrics.jsonl is missing: the curves begin after step " +
                     std::to_string(step_));
  }
  recorder_ = std::make_unique<Recorder>(directory_, config_, data_->facts().unit, steps_, progress,
                                         resumed_at_, earlier_seconds_, team_->size());
  if (!team_->alone()) recorder_->note(std::to_string(team_->size()) + " ranks");
  for (const auto& warning : data_->facts().warnings) recorder_->note("warning: " + warning);
  for (const auto& note : notes_) recorder_->note(note);
  if (resumed_at_) {
    recorder_->note("going on after step " + std::to_string(step_) + ", from " +
                    last_checkpoint_.string());
  }
}

}  // namespace normball::trainer::train
