// What --dry-run prints: it comes from the objects that will train.
#include <sstream>

#include "trainer/config/config_use.h"
#include "trainer/runtime/counted.h"
#include "trainer/runtime/progress.h"
#include "trainer/train/trainer.h"

namespace normball::trainer::train {

std::string Trainer::explain() const {
  const auto& facts = data_->facts();
  const double units = static_cast<double>(facts.item_units * config_.train.batch);
  std::ostringstream text;
  text << "data       " << config_.data.kind << ": " << facts.items * facts.item_units << ' '
       << facts.unit << " an epoch, " << data_->evaluation_items() * facts.item_units
       << " for validation\n"
       << "model      " << config_.model.kind << " with " << model_->parameter_count()
       << " parameters, " << runtime::short_count(units * model_->training_flops())
       << " floating-point operations a step\n"
       << "steps      " << steps_ << " of "
       << runtime::counted(config_.train.batch, facts.item_units > 1 ? "sequence" : "image") << " ("
       << config_.train.accumulation()
       << (config_.train.accumulation() == 1 ? " micro-batch)\n" : " micro-batches)\n")
       << "optimizer  " << config::optimizer_text(config_) << '\n';
  if (!team_->alone()) text << "ranks      " << team_->size() << ", which divide every batch\n";
  if (resumed_at_) text << "resumes    after step " << step_ << ", " << last_checkpoint_ << '\n';
  for (const auto& note : notes_) text << "note       " << note << '\n';
  text << '\n' << optimizer_->explain();
  for (const auto& warning : facts.warnings) text << "warning: " << warning << '\n';
  return text.str();
}

}  // namespace normball::trainer::train
