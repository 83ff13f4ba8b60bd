#include "trainer/runtime/progress.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "normball/base/text.h"
#include "trainer/runtime/terminal.h"

namespace normball::trainer::runtime {
namespace {

double share_of(const Snapshot& s) {
  return s.steps > 0 ? static_cast<double>(s.step) / static_cast<double>(s.steps) : 0;
}

}  // namespace

std::string short_count(double value) {
  if (!std::isfinite(value) || value < 0) return "--";
  const char* units[] = {"", "k", "M", "G", "T"};
  size_t unit = 0;
  while (value >= 999.5 && unit < 4) {
    value /= 1000;
    ++unit;
  }
  return printed(value < 9.95 && (unit > 0 || value != std::floor(value)) ? "%.1f" : "%.0f",
                 value) +
         units[unit];
}

std::string loss_text(double loss) { return printed(std::abs(loss) < 1e6 ? "%.4f" : "%.4g", loss); }

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "--";
  const auto s = static_cast<long long>(std::llround(seconds));
  if (s < 60) return printed("%llds", s);
  if (s < 3600) return printed("%lld:%02lld", s / 60, s % 60);
  if (s < 86400) return printed("%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  return printed("%lldd %02lldh", s / 86400, s / 3600 % 24);
}

std::string progress_line(const Snapshot& s, int columns) {
  struct Part {
    std::string text;
    int rank;  // the highest goes first where there is too little room
  };
  std::vector<Part> parts;
  const auto add = [&](int rank, std::string text) { parts.push_back({std::move(text), rank}); };
  const std::string total = std::to_string(s.steps);
  std::string step = std::to_string(s.step);
  // Padded to the width of the total, so that the line does not shift.
  step.insert(0, total.size() > step.size() ? total.size() - step.size() : 0, ' ');
  add(1, printed("%3.0f%%", std::floor(100 * share_of(s))));
  add(0, step + "/" + total);
  add(0, "loss " + loss_text(s.loss));
  if (s.validation) add(3, s.validation_name + " " + loss_text(*s.validation));
  add(6, "lr " + printed("%.3g", s.lr));
  if (s.dual_norm) add(5, "s " + printed("%.4g", *s.dual_norm));
  if (s.eta) add(7, "η " + printed("%.4g", *s.eta));
  if (s.clipped_share) add(8, "clipped " + printed("%.0f%%", 100 * *s.clipped_share));
  add(4, short_count(s.items_per_second) + " " + s.items + "/s");
  add(2, "ETA " + duration_text(s.seconds_left));

  const auto width = [&] {
    int sum = -2;
    for (const auto& part : parts) sum += display_width(part.text) + 2;
    return sum;
  };
  while (width() > columns && parts.size() > 1) {
    const auto least = std::ranges::max_element(parts, {}, &Part::rank);
    if (least->rank == 0) break;
    parts.erase(least);
  }
  std::string line;
  const int room = columns - width();
  if (room >= 10) line = progress_bar(share_of(s), std::min(room - 4, 30)) + " ";
  for (size_t i = 0; i < parts.size(); ++i) line += (i > 0 ? "  " : "") + parts[i].text;
  return cut_to_width(std::move(line), columns);  // a terminal narrower than step and loss
}

std::string plain_line(const Snapshot& s) {
  std::string line = "step " + std::to_string(s.step) + "/" + std::to_string(s.steps) + " loss " +
                     printed("%.6g", s.loss) + " lr " + printed("%.6g", s.lr);
  if (s.dual_norm) line += " s " + printed("%.6g", *s.dual_norm);
  if (s.eta) line += " eta " + printed("%.6g", *s.eta);
  if (s.clipped_share) line += " clipped " + printed("%.0f%%", 100 * *s.clipped_share);
  return line + " " + short_count(s.items_per_second) + " " + s.items + "/s ETA " +
         duration_text(s.seconds_left);
}

void Progress::update(const Snapshot& snapshot, bool log) {
  if (!terminal_) {
    if (log) out_ << plain_line(snapshot) << std::endl;
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  const bool last = snapshot.step >= snapshot.steps;
  if (!last && now - last_ < std::chrono::milliseconds(100)) {
    pending_ = snapshot;
    return;
  }
  last_ = now;
  draw(snapshot);
}

void Progress::evaluated(const Snapshot& snapshot) {
  if (terminal_) return draw(snapshot);
  out_ << "step " << snapshot.step << '/' << snapshot.steps << ' ' << snapshot.validation_name
       << ' ' << printed("%.6g", snapshot.validation.value_or(NAN)) << std::endl;
}

void Progress::draw(const Snapshot& snapshot) {
  pending_.reset();
  line_.draw(progress_line(snapshot, terminal_columns() - 1));
}

void Progress::print(const std::string& text) { line_.print(text); }

void Progress::finish() {
  if (pending_) draw(*pending_);
  line_.leave();
}

}  // namespace normball::trainer::runtime
