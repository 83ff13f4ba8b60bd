#include "trainer/run/checkpoint_state.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "normball/base/error.h"

namespace normball::trainer::run {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view opening = "{\n  \"crc32c\": \"";
constexpr size_t digits = 8;

template <class... Parts>
[[noreturn]] void malformed(std::string_view where, const Parts&... parts) {
  throw std::runtime_error(normball::error_message("parse_state", where, ": ", parts...));
}

std::uint64_t parse_hex(const std::string& text, std::string_view where) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value, 16);
  if (result.ec != std::errc() || result.ptr != end) {
    malformed(where, "'", text, "' is not a hexadecimal number");
  }
  return value;
}

const Json& member(const Json& json, const char* name, Json::value_t type, std::string_view where) {
  const auto found = json.find(name);
  if (found == json.end()) malformed(where, "'", name, "' is missing");
  // Non-negative integers come as unsigned ones.
  const bool integers = type == Json::value_t::number_integer && found->is_number_integer();
  if (found->type() != type && !integers) {
    malformed(where, "'", name, "' is a ", found->type_name(), " where another type belongs");
  }
  return *found;
}

std::int64_t integer(const Json& json, std::string_view what, std::string_view where) {
  if (!json.is_number_integer() ||
      (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX)) {
    malformed(where, "'", what, "' must be a 64-bit integer, got ", json.dump());
  }
  return json.get<std::int64_t>();
}

const std::string& text_of(const Json& json, std::string_view what, std::string_view where) {
  if (!json.is_string()) malformed(where, "'", what, "' must be a string, got ", json.dump());
  return json.get_ref<const std::string&>();
}

}  // namespace

std::string with_checksum(std::string_view rest) {
  return std::string(opening) + files::checksum_text(files::crc32c(rest)) + std::string(rest);
}

std::string to_json(const CheckpointState& state) {
  Json json = {{"version", 1}, {"step", state.step}};
  for (const char* name : {"cursor", "notes", "files"}) json[name] = Json::object();
  for (const auto& [name, value] : state.cursor) json["cursor"][name] = value;
  for (const auto& [name, value] : state.notes) json["notes"][name] = value;
  if (state.metric) {
    if (!std::isfinite(*state.metric)) {
      normball::throw_invalid("to_json", "a checkpoint's metric must be finite, got ",
                              *state.metric);
    }
    json["metric"] = *state.metric;
    if (state.better) json["better"] = *state.better == Better::Lower ? "lower" : "higher";
  }
  for (const auto& [name, sum] : state.files) {
    json["files"][name] = {{"bytes", sum.bytes}, {"crc32c", files::checksum_text(sum.crc)}};
  }
  try {
    // The document without its opening brace continues after the checksum.
    return with_checksum("\"," + json.dump(2).substr(1) + "\n");
  } catch (const nlohmann::json::exception&) {
    normball::throw_invalid("to_json", "a string in the state is not UTF-8");
  }
}

CheckpointState parse_state(std::string_view text, std::string_view where) {
  if (!text.starts_with(opening) || text.size() < opening.size() + digits) {
    malformed(where, "not the state of a checkpoint, or its beginning is damaged");
  }
  const auto rest = text.substr(opening.size() + digits);
  const std::string expected = files::checksum_text(files::crc32c(rest));
  if (text.substr(opening.size(), digits) != expected) {
    malformed(where, "checksum ", text.substr(opening.size(), digits), " but the text has ",
              expected, ": the file is damaged");
  }
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) malformed(where, "not a JSON object");
  using Type = Json::value_t;
  const auto version =
      integer(member(json, "version", Type::number_integer, where), "version", where);
  if (version != 1) malformed(where, "version ", version, "; this program reads version 1");
  CheckpointState state;
  state.step = integer(member(json, "step", Type::number_integer, where), "step", where);
  if (state.step < 0) malformed(where, "step ", state.step, " is negative");
  for (const auto& [name, value] : member(json, "cursor", Type::object, where).items()) {
    state.cursor[name] = integer(value, name, where);
  }
  for (const auto& [name, value] : member(json, "notes", Type::object, where).items()) {
    state.notes[name] = text_of(value, name, where);
  }
  if (const auto metric = json.find("metric"); metric != json.end()) {
    if (!metric->is_number()) malformed(where, "'metric' must be a number, got ", metric->dump());
    state.metric = metric->get<double>();
  }
  if (const auto better = json.find("better"); state.metric && better != json.end()) {
    const std::string& word = text_of(*better, "better", where);
    if (word != "lower" && word != "higher") {
      malformed(where, "'better' must be lower or higher, got '", word, "'");
    }
    state.better = word == "lower" ? Better::Lower : Better::Higher;
  }
  for (const auto& [name, value] : member(json, "files", Type::object, where).items()) {
    if (!value.is_object()) malformed(where, "'", name, "' must have bytes and crc32c");
    const auto bytes = integer(member(value, "bytes", Type::number_integer, where), "bytes", where);
    const auto crc =
        parse_hex(text_of(member(value, "crc32c", Type::string, where), name, where), where);
    if (bytes < 0 || crc > UINT32_MAX)
      malformed(where, "the size or checksum of '", name, "' is out of range");
    state.files[name] = {static_cast<std::uint64_t>(bytes), static_cast<std::uint32_t>(crc)};
  }
  return state;
}

}  // namespace normball::trainer::run
