// metrics.jsonl: one JSON object a line, in the order of the steps.
//
// A training line has step, loss, lr, dual_norm (s), eta, clipped, gap where constrained,
// waited_per_second (the share of the time that was spent waiting for data), with several ranks
// exposed_per_second (that of waiting for their gradients), tokens_per_second or
// images_per_second and seconds; an evaluation line step, val_loss, val_accuracy, val_top5 where
// there are more than ten classes, and seconds; where those are of an average (train.average), also
// iterate_val_loss and iterate_val_accuracy, of the last iterate. A step that was not finite has
// nonfinite (where) and skipped or stopped. What train/measurements.h measures has lines of its
// own; a name with a slash is that of one layer: pairing/blocks.0.query. Where several ranks
// trained, every line has their number, ranks. NaN and infinities, which JSON lacks, are the texts
// "NaN", "Infinity" and
// "-Infinity". Only `seconds` and what ends in `_per_second` may differ between a run and its
// repetition.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "trainer/files/file_system.h"

namespace normball::trainer::run {

struct MetricsLine {
  using Value = std::variant<bool, std::int64_t, double, std::string>;

  std::int64_t step = 0;
  std::vector<std::pair<std::string, Value>> values = {};  // written in this order, after step

  std::optional<double> number(std::string_view name) const;  // also of an integer or boolean
};

// Without a newline. Reading back gives the same bits.
std::string to_json(const MetricsLine& line);
MetricsLine parse_metrics_line(std::string_view text, std::string_view where);

class MetricsWriter {
 public:
  // Starts an empty file, or goes on after `resume_step`: later lines, and a line that a crash cut
  // off, are removed first, in one operation. Log all of a step before its checkpoint.
  MetricsWriter(std::filesystem::path path, std::optional<std::int64_t> resume_step = {},
                files::FileSystem& files = files::FileSystem::real());
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  // The step must not be below that of the last line.
  void write(const MetricsLine& line);
  // Before a checkpoint: its lines must not be lost where it survives.
  void sync();
  std::int64_t lines() const { return lines_; }  // in the file
  // Whether that is the file: it may have been removed, or replaced by another.
  bool writes_to(const std::filesystem::path& path) const;

 private:
  std::filesystem::path path_;
  files::FileSystem& files_;
  int file_ = -1;
  off_t bytes_ = 0;
  std::int64_t last_step_ = 0;
  std::int64_t lines_ = 0;
};

// Throws where a MetricsWriter that goes on after that step would: where damage precedes good
// lines; and where there are fewer lines up to that step than its checkpoint knows of (0: it does
// not say). A file that is not there is fine.
void check_metrics(const std::filesystem::path& path, std::int64_t resume_step,
                   std::int64_t known_lines = 0);

struct Metrics {
  std::vector<MetricsLine> lines;
  bool cut_off = false;     // the end was not a whole line and was left out
  std::string damage = {};  // what is wrong with whole lines at the end, which were left out
};
Metrics read_metrics(const std::filesystem::path& path);

}  // namespace normball::trainer::run
