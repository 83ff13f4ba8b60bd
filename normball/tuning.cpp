#include "normball/tuning.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "normball/base/error.h"
#include "normball/base/text.h"

namespace normball {
namespace {

constexpr double coarse = 4, fine = 2;  // factors between neighbours
constexpr int coarse_reach = 2, fine_reach = 1;
constexpr int coarse_extensions = 5, fine_extensions = 2;
constexpr int most_rhos = 5;
constexpr double below_every_s = 1e-20;  // where no s is known yet

// Enough to tell neighbours apart, and short to type.
double rounded(double value) { return std::strtod(printed("%.3g", value).c_str(), nullptr); }

bool same(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b); }
bool same(const std::optional<double>& a, const std::optional<double>& b) {
  return a.has_value() == b.has_value() && (!a || same(*a, *b));
}

double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

class Search {
 public:
  Search(const TuningOptions& options, const RunTrials& run) : options_(options), run_(run) {}

  TuningResult result() {
    search_lr();
    if (options_.tune_rho) search_rho();
    const auto compared = repeat();
    TuningResult result{.best = tried_[best_].point, .score = tried_[best_].mean()};
    result.remarks = remarks(compared);
    result.tried = std::move(tried_);
    return result;
  }

 private:
  struct Try {
    TuningPoint point;
    std::string note = {};
  };

  std::optional<size_t> find(const TuningPoint& point) const {
    for (size_t i = 0; i < tried_.size(); ++i) {
      const auto& other = tried_[i].point;
      if (same(other.lr, point.lr) && same(other.rho, point.rho)) return i;
    }
    return std::nullopt;
  }

  // Those that are new.
  void try_points(TuningStage stage, const std::vector<Try>& points) {
    std::vector<TuningTrial> trials;
    const size_t first = tried_.size();
    for (const auto& [point, note] : points) {
      if (find(point)) continue;
      tried_.push_back({.point = point, .stage = stage, .note = note});
      trials.push_back({point});
    }
    if (trials.empty()) return;
    auto outcomes = run_all(stage, trials);
    for (size_t i = 0; i < outcomes.size(); ++i) {
      tried_[first + i].scores = {outcomes[i].score};
      seen_.push_back(std::move(outcomes[i]));
    }
  }

  std::vector<TuningOutcome> run_all(TuningStage stage, const std::vector<TuningTrial>& trials) {
    auto outcomes = run_(stage, trials);
    if (outcomes.size() != trials.size()) {
      throw_invalid("tune", "got ", outcomes.size(), " outcomes of ", trials.size(), " trials");
    }
    return outcomes;
  }

  // The tried points with this rho, by lr.
  std::vector<size_t> with_rho(const std::optional<double>& rho) const {
    std::vector<size_t> found;
    for (size_t i = 0; i < tried_.size(); ++i) {
      if (same(tried_[i].point.rho, rho)) found.push_back(i);
    }
    std::ranges::sort(found, {}, [&](size_t i) { return tried_[i].point.lr; });
    return found;
  }

  // Of equal ones the first.
  std::optional<size_t> best_of(const std::vector<size_t>& points) const {
    std::optional<size_t> best;
    for (const size_t i : points) {
      const double mean = tried_[i].mean();
      if (std::isfinite(mean) && (!best || mean < tried_[*best].mean())) best = i;
    }
    return best;
  }

  double allowed(double lr) const {
    return std::clamp(rounded(lr), options_.lowest_lr, options_.highest_lr);
  }

  // Around the start, and beyond it while the best lies at an end.
  void search_lr_around(TuningStage stage, double start, const std::optional<double>& rho,
                        double factor, int reach, int extensions) {
    std::vector<Try> points;
    for (int k = -reach; k <= reach; ++k) {
      points.push_back({{allowed(start * std::pow(factor, k)), rho}});
    }
    try_points(stage, points);
    for (; extensions > 0; --extensions) {
      const auto line = with_rho(rho);
      const auto best = best_of(line);
      const double low = tried_[line.front()].point.lr, high = tried_[line.back()].point.lr;
      double next = 0;
      if (!best) {
        next = allowed(low / (factor * factor));  // all diverged
      } else if (*best == line.front()) {
        next = allowed(low / factor);
      } else if (*best == line.back()) {
        next = allowed(high * factor);
      } else {
        return;
      }
      if (find({next, rho})) return;  // no more is allowed
      try_points(stage, {{{next, rho}}});
    }
  }

  void search_lr() {
    std::optional<double> rho;
    if (options_.tune_rho) rho = options_.rho.value_or(below_every_s);
    const double start = std::clamp(options_.lr, options_.lowest_lr, options_.highest_lr);
    search_lr_around(TuningStage::Lr, start, rho, coarse, coarse_reach, coarse_extensions);
    const auto line = with_rho(rho);
    const auto best = best_of(line);
    if (!best) {
      throw std::runtime_error(error_message(
          "tune", "every run diverged, at all lr from ", tried_[line.front()].point.lr, " to ",
          tried_[line.back()].point.lr,
          ": begin with a smaller lr. If none helps, look at the loss, the data and the weights "
          "at the start"));
    }
    const double lr = tried_[*best].point.lr;
    try_points(TuningStage::Lr, {{{allowed(lr / fine), rho}}, {{allowed(lr * fine), rho}}});
    best_ = *best_of(with_rho(rho));
  }

  void search_rho() {
    const TuningPoint base = tried_[best_].point;
    std::vector<double> s = seen_[best_].s;
    std::erase_if(s, [](double value) { return !(value > 0 && std::isfinite(value)); });
    if (s.empty()) {
      rho_remark_ = "rho was not tuned: the best run told no s above 0";
      return;
    }
    std::ranges::sort(s);
    try_points(TuningStage::Rho, clippings(base, s));
    std::vector<size_t> all(tried_.size());
    std::iota(all.begin(), all.end(), 0);
    best_ = *best_of(all);
    const TuningPoint best = tried_[best_].point;
    if (!same(best.rho, base.rho)) {
      search_lr_around(TuningStage::LrAgain, best.lr, best.rho, fine, fine_reach, fine_extensions);
      best_ = *best_of(with_rho(best.rho));
    }
    const double rho = *tried_[best_].point.rho;
    if (rho < s.front()) {
      rho_remark_ =
          "clipping was of no use: the best rho is below every s that was seen, so that "
          "all steps have the length lr, as without clipping";
    } else if (rho > s.back()) {
      rho_remark_ =
          "the best rho is above every s that was seen: no step was clipped, and only "
          "lr / rho counts";
    }
  }

  // With the lr that leaves the step at the median of s as long as the base has it.
  std::vector<Try> clippings(const TuningPoint& base, const std::vector<double>& s) const {
    const double median = quantile(s, 0.5);
    const double length = base.lr * std::min(*base.rho, median) / *base.rho;
    const std::array<std::pair<double, const char*>, most_rhos> rhos = {{
        {1e-6 * s.front(), "below every s"},
        {quantile(s, 0.1), "the 10 % quantile of s"},
        {median, "the median of s"},
        {quantile(s, 0.9), "the 90 % quantile of s"},
        {1e6 * s.back(), "above every s"},
    }};
    std::vector<Try> points;
    double before = 0;
    for (const auto& [value, note] : rhos) {
      const double rho = rounded(value);
      const bool as_base = (rho < s.front() && *base.rho < s.front()) ||
                           (rho > s.back() && *base.rho > s.back()) ||
                           std::abs(std::log(rho / *base.rho)) < std::log(1.1);
      const double lr = rounded(length * rho / std::min(rho, median));
      const bool too_long = lr > options_.highest_lr || lr < options_.lowest_lr;
      if (as_base || too_long || rho < 1.1 * before) continue;
      before = rho;
      points.push_back({{lr, rho}, note});
    }
    return points;
  }

  // Which points were run again: the best, the next lr on either side, the best other rho.
  std::vector<size_t> repeat() {
    std::vector<size_t> compared = {best_};
    const auto line = with_rho(tried_[best_].point.rho);
    const auto at = std::ranges::find(line, best_);
    if (at != line.begin()) compared.push_back(*(at - 1));
    if (at + 1 != line.end()) compared.push_back(*(at + 1));
    std::vector<size_t> others;
    for (size_t i = 0; i < tried_.size(); ++i) {
      if (!same(tried_[i].point.rho, tried_[best_].point.rho)) others.push_back(i);
    }
    if (const auto other = best_of(others)) compared.push_back(*other);
    std::erase_if(compared, [&](size_t i) { return !std::isfinite(tried_[i].mean()); });
    std::vector<TuningTrial> trials;
    for (const size_t i : compared) {
      for (int k = 1; k < options_.repeats; ++k) trials.push_back({tried_[i].point, k});
    }
    if (trials.empty()) return compared;
    const auto outcomes = run_all(TuningStage::Repeats, trials);
    for (size_t i = 0, next = 0; i < compared.size(); ++i) {
      for (int k = 1; k < options_.repeats; ++k) {
        tried_[compared[i]].scores.push_back(outcomes[next++].score);
      }
    }
    const size_t before = best_;
    if (const auto best = best_of(compared)) best_ = *best;
    if (!std::isfinite(tried_[before].mean())) {
      repeat_remark_ =
          to_string(tried_[before].point) + " was the best once, and diverged " +
          (best_ == before ? "when it was repeated: choose a smaller lr" : "when it was repeated");
    }
    return compared;
  }

  std::vector<std::string> remarks(const std::vector<size_t>& compared) const {
    std::vector<std::string> texts;
    const auto add = [&](std::string text) {
      if (!text.empty()) texts.push_back(std::move(text));
    };
    add(unlearned());
    add(border());
    add(rho_remark_);
    add(repeat_remark_);
    add(chance(compared));
    const auto diverged = std::ranges::count_if(
        tried_, [](const TriedPoint& tried) { return !std::isfinite(tried.scores.front()); });
    if (diverged > 0) {
      add(std::to_string(diverged) + " of " + std::to_string(tried_.size()) + " points diverged");
    }
    return texts;
  }

  std::string unlearned() const {
    const double first = seen_[best_].first, score = tried_[best_].scores.front();
    if (!std::isfinite(first) || score < first) return "";
    return "nothing was learned: the best run came to " + printed("%.4g", score) + " from " +
           printed("%.4g", first) + ". Longer runs may tell more";
  }

  std::string border() const {
    const auto line = with_rho(tried_[best_].point.rho);
    if (line.size() < 2) return "";
    const double lr = tried_[best_].point.lr;
    const std::string text = "the best lr, " + number_text(lr) + ", is the ";
    if (best_ == line.back()) {
      return lr >= options_.highest_lr ? text + "largest that is allowed"
                                       : text + "largest tried: the true best may lie beyond";
    }
    if (best_ != line.front()) return "";
    return lr <= options_.lowest_lr ? text + "smallest that is allowed"
                                    : text + "smallest tried: the true best may lie beyond";
  }

  // A point is told apart from the best only where the best was better in every repeat.
  std::string chance(const std::vector<size_t>& compared) const {
    if (options_.repeats < 2) {
      return "one run for each point: nothing is known of chance, which differences may be";
    }
    std::string alike;
    const auto& best = tried_[best_].scores;
    for (const size_t i : compared) {
      if (i == best_) continue;
      const auto& scores = tried_[i].scores;
      int better = 0;
      for (size_t k = 0; k < scores.size(); ++k) better += scores[k] <= best[k] ? 1 : 0;
      if (better == 0) continue;
      alike += (alike.empty() ? "" : "; ") + to_string(tried_[i].point) +
               " was as good or better in " + std::to_string(better) + " of " +
               std::to_string(options_.repeats) + " runs";
    }
    return alike.empty() ? "" : "within noise: " + alike;
  }

  const TuningOptions& options_;
  const RunTrials& run_;
  std::vector<TriedPoint> tried_;
  std::vector<TuningOutcome> seen_;  // of the first run of each
  size_t best_ = 0;
  std::string rho_remark_, repeat_remark_;
};

}  // namespace

std::string to_string(const TuningPoint& point) {
  return "lr " + number_text(point.lr) + (point.rho ? ", rho " + number_text(*point.rho) : "");
}

std::string_view to_string(TuningStage stage) {
  constexpr std::array<std::string_view, 4> names = {"lr", "rho", "lr again", "repeats"};
  return names[static_cast<size_t>(stage)];
}

double TriedPoint::mean() const {
  return std::accumulate(scores.begin(), scores.end(), 0.0) / static_cast<double>(scores.size());
}

void validate(const TuningOptions& options) {
  require_positive("tune", "lr", options.lr);
  if (options.rho) require_positive("tune", "rho", *options.rho);
  if (!(options.lowest_lr >= 0 && options.lowest_lr < options.highest_lr)) {
    throw_invalid("tune", "lr may lie between ", options.lowest_lr, " and ", options.highest_lr,
                  ", which leaves no range");
  }
  if (options.repeats < 1)
    throw_invalid("tune", "repeats must be at least 1, got ", options.repeats);
}

TuningResult tune(const TuningOptions& options, const RunTrials& run) {
  validate(options);
  return Search(options, run).result();
}

int most_trials(const TuningOptions& options) {
  const int lr = 2 * coarse_reach + 1 + coarse_extensions + 2;
  const int rho = options.tune_rho ? most_rhos + 2 * fine_reach + fine_extensions : 0;
  const int compared = options.tune_rho ? 4 : 3;
  return lr + rho + compared * (options.repeats - 1);
}

bool is_diverging(std::span<const double> losses) {
  constexpr double far_up = 3;
  constexpr int in_a_row = 10;
  int above = 0;
  for (const double loss : losses) {
    if (!std::isfinite(loss)) return true;
    above = losses[0] > 0 && loss > far_up * losses[0] ? above + 1 : 0;
    if (above == in_a_row) return true;
  }
  return false;
}

}  // namespace normball
