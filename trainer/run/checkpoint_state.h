// state.json of a checkpoint: where the run stands, and the checksums of the files beside it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/files/checksum.h"

namespace normball::trainer::run {

enum class Better { Lower, Higher };

struct CheckpointState {
  std::int64_t step = 0;                            // steps taken
  std::map<std::string, std::int64_t> cursor = {};  // where the data goes on: epoch, position ...
  std::optional<double> metric = {};                // what "best" is judged by; finite
  std::optional<Better> better = {};                // of the metric; earlier versions did not say
  std::map<std::string, std::string> notes = {};
  std::map<std::string, files::FileChecksum> files = {};  // filled in by the store
};

// Begins with the CRC-32C of all that follows it, so that no bit of the text can change unnoticed.
std::string to_json(const CheckpointState& state);

// `where` names the file in errors (std::runtime_error).
CheckpointState parse_state(std::string_view text, std::string_view where);

// The text with its checksum in front; apart, so that tests can put it on any text.
std::string with_checksum(std::string_view rest);

}  // namespace normball::trainer::run
