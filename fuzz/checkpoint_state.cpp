// state.json of a checkpoint. The text is read as it is and, since the checksum keeps almost every
// change from the parser, with the right checksum put in front.
#include "trainer/run/checkpoint_state.h"

#include <stdexcept>

#include "fuzz/reader.h"

namespace normball::fuzz {
namespace {

constexpr size_t checksum_end = sizeof("{\n  \"crc32c\": \"01234567") - 1;

std::vector<std::string> samples() {
  trainer::run::CheckpointState state{.step = 5,
                                      .cursor = {{"epoch", 1}, {"position", 35}},
                                      .metric = 0.125,
                                      .better = trainer::run::Better::Higher,
                                      .notes = {{"version", "0.1.0"}}};
  state.files["model.safetensors"] = {1ull << 40, 0xbeef};
  return {trainer::run::to_json(state)};
}

void read(std::string_view file) {
  if (file.size() > checksum_end) {
    try {
      const auto state =
          trainer::run::parse_state(trainer::run::with_checksum(file.substr(checksum_end)), "file");
      require(state.step >= 0, "the step is not negative");
      require(trainer::run::to_json(trainer::run::parse_state(
                  trainer::run::to_json(state), "file")) == trainer::run::to_json(state),
              "what was read is written and read as itself");
    } catch (const std::runtime_error&) {
    }
  }
  trainer::run::parse_state(file, "file");
}

}  // namespace

const Reader reader = {"state.json", samples, read, 0.9};

}  // namespace normball::fuzz
