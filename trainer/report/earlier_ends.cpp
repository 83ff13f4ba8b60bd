#include "trainer/report/earlier_ends.h"

#include <algorithm>

namespace normball::trainer::report {

void remove_earlier_ends(std::vector<run::MetricsLine>& lines, std::int64_t log_every,
                         std::int64_t eval_every) {
  std::int64_t last = 0;
  for (const auto& line : lines) last = std::max(last, line.step);
  const auto due = [](std::int64_t step, std::int64_t every) {
    return every > 0 && step % every == 0;
  };
  const auto has = [](const run::MetricsLine& line, std::string_view name) {
    return std::ranges::any_of(line.values, [&](const auto& value) { return value.first == name; });
  };
  std::erase_if(lines, [&](const run::MetricsLine& line) {
    if (line.step == last || has(line, "nonfinite")) return false;
    if (has(line, "val_loss")) return !due(line.step, eval_every);
    return has(line, "loss") && !due(line.step, log_every);
  });
}

}  // namespace normball::trainer::report
