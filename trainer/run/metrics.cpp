#include "trainer/run/metrics.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "normball/base/error.h"
#include "normball/base/text.h"
#include "trainer/files/atomic_file.h"

namespace normball::trainer::run {
namespace fs = std::filesystem;
namespace {

constexpr size_t max_line = 1 << 20;

template <class... Parts>
[[noreturn]] void malformed(std::string_view where, const Parts&... parts) {
  throw std::runtime_error(normball::error_message("metrics", where, ": ", parts...));
}

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_number(double value) {
  if (std::isnan(value)) return "\"NaN\"";
  if (std::isinf(value)) return value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  const std::string text = number_text(value);
  // Stays a fraction for readers that tell integers apart, as ours does.
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

MetricsLine::Value from_json(const nlohmann::ordered_json& json, std::string_view where) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX) return json.get<double>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (!json.is_string()) malformed(where, "a value must be a number, text or boolean");
  const auto& text = json.get_ref<const std::string&>();
  if (text == "NaN") return std::nan("");
  if (text == "Infinity") return INFINITY;
  if (text == "-Infinity") return -INFINITY;
  return text;
}

struct Scan {
  off_t end = 0;         // after the last whole, valid line that was used
  bool cut_off = false;  // part of a line follows the last one
  std::string damage;    // of whole lines after the last valid one
};

// Hands over the lines until `use` refuses one. A damaged end is left out; damage before a good
// line is an error.
Scan scan_lines(const fs::path& path, const std::function<bool(MetricsLine)>& use) {
  Scan scan;
  std::string rest, damage;
  bool done = false;
  std::int64_t number = 0, last_step = 0;
  files::read_in_pieces(path, [&](std::span<const std::byte> piece) {
    if (done) return;
    rest.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    size_t begin = 0;
    for (size_t end; !done && (end = rest.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      const std::string where = path.string() + ":" + std::to_string(++number);
      MetricsLine line;
      try {
        line = parse_metrics_line(std::string_view(rest).substr(begin, end - begin), where);
      } catch (const std::runtime_error& error) {
        if (damage.empty()) damage = error.what();
        continue;
      }
      if (!damage.empty()) {
        // A line less would be missed when the run is resumed.
        throw std::runtime_error(damage + "; valid lines follow it: repair it, or put {\"step\": " +
                                 std::to_string(last_step) + "} in its place");
      }
      last_step = line.step;
      if (!use(std::move(line))) {
        done = true;
        break;
      }
      scan.end += static_cast<off_t>(end + 1 - begin);
    }
    rest.erase(0, begin);
    if (rest.size() > max_line) malformed(path.string(), "a line is longer than 1 MiB");
  });
  scan.cut_off = !done && !rest.empty();
  if (!done) scan.damage = damage;
  return scan;
}

// The lines up to a step: where they end, how many they are, and the step of the last of them.
struct LinesUpTo {
  off_t end = 0;
  std::int64_t count = 0, last = 0;
};

LinesUpTo lines_up_to(const fs::path& path, std::int64_t step) {
  LinesUpTo result;
  result.end = scan_lines(path, [&](const MetricsLine& line) {
                 if (line.step > step) return false;
                 result.last = line.step;
                 ++result.count;
                 return true;
               }).end;
  return result;
}

}  // namespace

std::optional<double> MetricsLine::number(std::string_view name) const {
  for (const auto& [key, value] : values) {
    if (key != name) continue;
    if (const auto* x = std::get_if<double>(&value)) return *x;
    if (const auto* x = std::get_if<std::int64_t>(&value)) return static_cast<double>(*x);
    if (const auto* x = std::get_if<bool>(&value)) return *x ? 1 : 0;
  }
  return {};
}

std::string to_json(const MetricsLine& line) {
  std::string text = "{\"step\": " + std::to_string(line.step);
  for (const auto& [name, value] : line.values) {
    text += ", " + json_text(name) + ": ";
    if (const auto* flag = std::get_if<bool>(&value)) text += *flag ? "true" : "false";
    if (const auto* whole = std::get_if<std::int64_t>(&value)) text += std::to_string(*whole);
    if (const auto* x = std::get_if<double>(&value)) text += json_number(*x);
    if (const auto* word = std::get_if<std::string>(&value)) text += json_text(*word);
  }
  return text + "}";
}

MetricsLine parse_metrics_line(std::string_view text, std::string_view where) {
  const auto json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) malformed(where, "not a JSON object");
  const auto step = json.find("step");
  if (step == json.end() || !step->is_number_unsigned() || step->get<std::uint64_t>() > INT64_MAX) {
    malformed(where, "'step' must be present, an integer and not negative");
  }
  MetricsLine line{.step = step->get<std::int64_t>()};
  for (const auto& [name, value] : json.items()) {
    if (name != "step") line.values.emplace_back(name, from_json(value, where));
  }
  return line;
}

MetricsWriter::MetricsWriter(fs::path path, std::optional<std::int64_t> resume_step,
                             files::FileSystem& files)
    : path_(std::move(path)), files_(files) {
  if (resume_step && fs::exists(path_)) {
    const LinesUpTo kept = lines_up_to(path_, *resume_step);
    bytes_ = kept.end;
    lines_ = kept.count;
    last_step_ = kept.last;
  }
  file_ = files_.open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (file_ < 0) throw files::FileError("MetricsWriter", "opening", path_, errno);
  // Cutting a file's end is one operation of the file system: no copy is needed to be safe.
  if (files_.truncate(file_, bytes_) < 0) {
    const int error = errno;
    files_.close(file_);
    throw files::FileError("MetricsWriter", "cutting", path_, error);
  }
}

MetricsWriter::~MetricsWriter() { files_.close(file_); }

void MetricsWriter::write(const MetricsLine& line) {
  if (line.step < last_step_) {
    normball::throw_invalid("MetricsWriter", "step ", line.step, " comes after step ", last_step_,
                            " in ", path_.string());
  }
  const std::string text = to_json(line) + "\n";
  try {
    files::write_fully(files_, file_, std::as_bytes(std::span(text)), "MetricsWriter", path_);
  } catch (const files::FileError&) {
    files_.truncate(file_, bytes_);  // no half line before the next one
    throw;
  }
  bytes_ += static_cast<off_t>(text.size());
  last_step_ = line.step;
  ++lines_;
}

void MetricsWriter::sync() {
  if (files_.sync(file_) < 0) throw files::FileError("MetricsWriter", "syncing", path_, errno);
}

bool MetricsWriter::writes_to(const fs::path& path) const {
  struct stat own = {}, there = {};
  return ::fstat(file_, &own) == 0 && ::stat(path.c_str(), &there) == 0 &&
         own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}

void check_metrics(const fs::path& path, std::int64_t resume_step, std::int64_t known_lines) {
  if (!fs::exists(path)) return;
  const LinesUpTo found = lines_up_to(path, resume_step);
  if (found.count >= known_lines) return;
  malformed(
      path.string(), "has ", found.count, " of the ", known_lines,
      " lines that were written up to step ", resume_step,
      ": lines were lost. Nothing was changed. Put the file back as it was, or remove it to go ",
      "on with curves that begin after that step");
}

Metrics read_metrics(const fs::path& path) {
  Metrics metrics;
  const Scan scan = scan_lines(path, [&](MetricsLine line) {
    metrics.lines.push_back(std::move(line));
    return true;
  });
  metrics.cut_off = scan.cut_off;
  metrics.damage = scan.damage;
  return metrics;
}

}  // namespace normball::trainer::run
