#include "cli/demonstration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "normball/base/text.h"

namespace normball::cli {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

double geometric_mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

// Where one method ended at one stepsize, for each of its seeds.
struct Ending {
  double lr = 0;
  std::vector<double> values = {};

  double low() const { return std::ranges::min(values); }
  double high() const { return std::ranges::max(values); }
  double mean() const { return geometric_mean(values); }
};

std::vector<double> stepsizes(std::span<const DemoRun> runs) {
  std::set<double> found;
  for (const auto& run : runs) found.insert(run.lr);
  return {found.begin(), found.end()};
}

// Rounding may leave the loss at, or a digit below, its bound; a diverged run is infinitely far.
double positive(double excess) {
  return std::isfinite(excess) ? std::max(excess, 1e-12) : infinite;
}

// The mean over the last tenth of the steps: steps of fixed length go to and fro across a minimum,
// so that the last value alone depends on where it stopped.
double end_of(const std::vector<double>& excess) {
  if (excess.empty()) return infinite;
  std::vector<double> last(excess.end() - static_cast<std::ptrdiff_t>((excess.size() + 9) / 10),
                           excess.end());
  std::ranges::transform(last, last.begin(), positive);
  return geometric_mean(last);
}

Ending ending(std::span<const DemoRun> runs, bool clipped, double lr) {
  Ending result{.lr = lr};
  for (const auto& run : runs) {
    if (run.clipped != clipped || run.lr != lr) continue;
    result.values.push_back(end_of(run.excess));
  }
  return result;
}

Ending best_ending(std::span<const DemoRun> runs, bool clipped) {
  Ending best;
  for (const double lr : stepsizes(runs)) {
    auto candidate = ending(runs, clipped, lr);
    if (candidate.values.empty()) continue;
    if (best.values.empty() || candidate.mean() < best.mean()) best = std::move(candidate);
  }
  return best;
}

std::string number(double value) {
  return std::isfinite(value) ? printed("%.1e", value) : "diverged";
}

std::string mean_and_range(const Ending& ending) {
  if (ending.values.empty()) return "-";
  if (ending.values.size() == 1) return number(ending.mean());
  return number(ending.mean()) + " (" + number(ending.low()) + " to " + number(ending.high()) + ")";
}

std::string mean_of(std::span<const DemoRun> runs, bool clipped, double lr, double DemoRun::*member,
                    const char* pattern, double factor) {
  double sum = 0;
  int count = 0;
  for (const auto& run : runs) {
    if (run.clipped != clipped || run.lr != lr) continue;
    sum += run.*member;
    ++count;
  }
  return count == 0 ? "-" : printed(pattern, factor * sum / count);
}

std::string times(const Ending& further, const Ending& closer) {
  const double ratio = further.mean() / closer.mean();
  if (!std::isfinite(ratio)) return "the other diverged";
  return printed(ratio < 9.95 ? "%.1f times" : "%.0f times", ratio);
}

std::string list(const std::vector<std::string>& items) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) text += (i == 0 ? "" : ", ") + items[i];
  return text;
}

std::string best_sentence(const Ending& scion, const Ending& clipped) {
  std::string text = "Each at its best stepsize: Scion " + number(scion.mean()) + " (lr " +
                     number_text(scion.lr) + "), ClippedScion " + number(clipped.mean()) + " (lr " +
                     number_text(clipped.lr) + "): ";
  if (clipped.high() < scion.low())
    return text + "ClippedScion is " + times(scion, clipped) + " closer.";
  if (scion.high() < clipped.low()) return text + "Scion is " + times(clipped, scion) + " closer.";
  return text + "the seeds overlap, so this does not tell them apart.";
}

}  // namespace

double smallest_loss(double smoothing, int classes) {
  const double rest = smoothing / classes, label = 1 - smoothing + rest;
  const auto term = [](double p) { return p > 0 ? -p * std::log(p) : 0.0; };
  return term(label) + (classes - 1) * term(rest);
}

std::vector<double> different_stepsizes(std::span<const double> lrs) {
  std::vector<double> different;
  for (const double lr : lrs) {
    if (std::ranges::find(different, lr) == different.end()) different.push_back(lr);
  }
  return different;
}

Table demo_table(std::span<const DemoRun> runs) {
  Table table({"lr", "Scion: excess loss", "ClippedScion: excess loss", "last step / lr",
               "test accuracy: Scion", "ClippedScion"});
  for (const double lr : stepsizes(runs)) {
    table.add({number_text(lr), mean_and_range(ending(runs, false, lr)),
               mean_and_range(ending(runs, true, lr)),
               mean_of(runs, true, lr, &DemoRun::last_step, "%.1e", 1),
               mean_of(runs, false, lr, &DemoRun::accuracy, "%.1f %%", 100),
               mean_of(runs, true, lr, &DemoRun::accuracy, "%.1f %%", 100)});
  }
  return table;
}

plot::Figure demo_figure(std::span<const DemoRun> runs) {
  static constexpr std::array<const char*, 4> warm = {"#f2a65a", "#e8743b", "#c8402f", "#8c1c13"};
  static constexpr std::array<const char*, 4> cool = {"#7cc0d8", "#3d94c7", "#1f63a8", "#12305e"};
  plot::Figure figure{.title = "Fixed stepsizes, without and with clipping",
                      .subtitle = "MLP on 1000 images of Fashion-MNIST, all of them in every step",
                      .x_label = "step",
                      .y_label = "loss above the smallest possible",
                      .curves = {}};
  const auto lrs = stepsizes(runs);
  for (const bool clipped : {false, true}) {
    for (size_t i = 0; i < lrs.size(); ++i) {
      std::vector<double> sums;
      int count = 0;
      for (const auto& run : runs) {
        if (run.clipped != clipped || run.lr != lrs[i]) continue;
        sums.resize(std::max(sums.size(), run.excess.size()), 0.0);
        for (size_t k = 0; k < run.excess.size(); ++k) sums[k] += std::log(positive(run.excess[k]));
        ++count;
      }
      if (count == 0) continue;
      for (double& sum : sums) sum = std::exp(sum / count);
      const size_t shade = std::min(i, warm.size() - 1);
      figure.curves.push_back(
          {.name = (clipped ? "clipped, lr " : "Scion, lr ") + number_text(lrs[i]),
           .values = std::move(sums),
           .terminal_color = clipped ? 34 : 31,
           .svg_color = (clipped ? cool : warm)[shade]});
    }
  }
  return figure;
}

std::string demo_conclusion(std::span<const DemoRun> runs) {
  std::vector<std::string> closer, further, open;
  size_t compared = 0, seeds = 0;
  for (const double lr : stepsizes(runs)) {
    const auto scion = ending(runs, false, lr), clipped = ending(runs, true, lr);
    if (scion.values.empty() || clipped.values.empty()) continue;
    ++compared;
    seeds = std::max({seeds, scion.values.size(), clipped.values.size()});
    const std::string at = " at lr " + number_text(lr);
    if (clipped.high() < scion.low()) {
      closer.push_back(times(scion, clipped) + at);
    } else if (scion.high() < clipped.low()) {
      further.push_back(times(clipped, scion) + at);
    } else {
      open.push_back("lr " + number_text(lr));
    }
  }
  if (compared == 0) return "There is nothing to compare: one of the methods has no run.";
  const std::string of = " of " + std::to_string(compared) + " stepsizes";
  const std::string everywhere = seeds > 1 ? ", in every seed: " : " (one seed): ";
  std::string text;
  const auto say = [&](const char* method, const std::vector<std::string>& where) {
    if (where.empty()) return;
    text += std::string(method) + " ended closer to the smallest loss at " +
            std::to_string(where.size()) + of + everywhere + list(where) + ".\n";
  };
  say("ClippedScion", closer);
  say("Scion", further);
  if (!open.empty()) text += "The seeds overlap at " + list(open) + ".\n";
  return text + best_sentence(best_ending(runs, false), best_ending(runs, true));
}

}  // namespace normball::cli
