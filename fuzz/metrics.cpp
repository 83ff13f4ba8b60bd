// A line of metrics.jsonl.
#include "trainer/run/metrics.h"

#include "fuzz/reader.h"

namespace normball::fuzz {
namespace {

std::vector<std::string> samples() {
  return {trainer::run::to_json(
              {.step = 7, .values = {{"loss", 0.1}, {"clipped", true}, {"n", std::int64_t{-3}}}}),
          R"({"step": 0, "loss": "NaN", "note": "a \u00e9 b", "eta": -1.5e-300})"};
}

void read(std::string_view file) {
  const auto line = trainer::run::parse_metrics_line(file, "file");
  const std::string text = trainer::run::to_json(line);
  require(trainer::run::to_json(trainer::run::parse_metrics_line(text, "again")) == text,
          "what was read reads back");
}

}  // namespace

const Reader reader = {"metrics.jsonl", samples, read, 0.5};

}  // namespace normball::fuzz
