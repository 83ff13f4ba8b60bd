// Reads vocab.bpe and encoder.json. Both come from strangers: every line and number is checked.
#include <utf8proc.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "trainer/data/bpe.h"
#include "trainer/data/data_error.h"
#include "trainer/files/file_system.h"

namespace normball::trainer::data {
namespace {

constexpr const char* where = "Bpe";
constexpr size_t largest_file = size_t{16} << 20;  // GPT-2's have 0.5 and 1.0 MB
constexpr size_t largest_vocabulary = 1 << 16;     // tokens are uint16

// Printable stand-ins back to bytes; nothing where a character stands for no byte.
std::optional<std::string> bytes_of_printable(std::string_view text) {
  static const auto table = [] {
    std::unordered_map<utf8proc_int32_t, char> map;
    for (int b = 0; b < 256; ++b) {
      const auto byte = static_cast<std::uint8_t>(b);
      map[static_cast<utf8proc_int32_t>(printable_of_byte(byte))] = static_cast<char>(byte);
    }
    return map;
  }();
  std::string bytes;
  while (!text.empty()) {
    utf8proc_int32_t code_point = 0;
    const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                       static_cast<utf8proc_ssize_t>(text.size()), &code_point);
    const auto found = size > 0 ? table.find(code_point) : table.end();
    if (found == table.end()) return std::nullopt;
    bytes += found->second;
    text.remove_prefix(static_cast<size_t>(size));
  }
  return bytes;
}

// Collects {"text": number, ...} and stops at anything else, so nothing larger is ever built.
class EncoderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  using Json = nlohmann::json;
  std::vector<std::pair<std::string, std::uint64_t>> entries;
  std::string problem;

  bool start_object(std::size_t) override { return inside_++ == 0 || refuse("a nested object"); }
  bool end_object() override { return true; }
  bool key(Json::string_t& text) override {
    key_ = std::move(text);
    return true;
  }
  bool number_unsigned(Json::number_unsigned_t value) override {
    if (inside_ == 0) return refuse("a bare number");
    if (entries.size() == largest_vocabulary) return refuse("more than 65536 entries");
    entries.emplace_back(std::move(key_), value);
    return true;
  }
  bool number_integer(Json::number_integer_t) override { return refuse("a negative number"); }
  bool number_float(Json::number_float_t, const Json::string_t&) override {
    return refuse("a number with a fraction");
  }
  bool null() override { return refuse("a null"); }
  bool boolean(bool) override { return refuse("a boolean"); }
  bool string(Json::string_t&) override { return refuse("a string for a number"); }
  bool binary(Json::binary_t&) override { return refuse("binary data"); }
  bool start_array(std::size_t) override { return refuse("an array"); }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return refuse("no valid JSON at byte " + std::to_string(position));
  }

 private:
  bool refuse(std::string text) {
    problem = std::move(text);
    return false;
  }

  int inside_ = 0;
  std::string key_;
};

}  // namespace

Bpe Bpe::load(const std::string& directory) {
  const std::filesystem::path base(directory);
  std::error_code ignored;
  if (!std::filesystem::exists(base / "vocab.bpe", ignored)) {
    fail(where, directory,
         ": has no vocab.bpe; scripts/fetch-gpt2-bpe gets GPT-2's into a directory");
  }
  const std::string merges = files::read_small_file(base / "vocab.bpe", largest_file);
  std::string numbers;
  if (std::filesystem::exists(base / "encoder.json", ignored)) {
    numbers = files::read_small_file(base / "encoder.json", largest_file);
    if (numbers.empty())
      fail(where, directory, "/encoder.json: is empty; get it again, or remove it");
  }
  return parse(merges, numbers, directory);
}

Bpe Bpe::parse(std::string_view vocab_bpe, std::string_view encoder_json, const std::string& name) {
  std::vector<std::string> text_of_symbol;
  std::unordered_map<std::string, Symbol> symbol_of_text;
  for (int s = 0; s < 256; ++s) {
    text_of_symbol.emplace_back(1, static_cast<char>(byte_of_symbol(s)));
    symbol_of_text.emplace(text_of_symbol.back(), static_cast<Symbol>(s));
  }
  Bpe bpe(std::min<size_t>(static_cast<size_t>(std::ranges::count(vocab_bpe, '\n')) + 1,
                           largest_vocabulary));
  size_t line_number = 0;
  while (!vocab_bpe.empty()) {
    ++line_number;
    const size_t end = std::min(vocab_bpe.find('\n'), vocab_bpe.size());
    std::string_view line = vocab_bpe.substr(0, end);
    vocab_bpe.remove_prefix(std::min(end + 1, vocab_bpe.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;

    const auto problem = [&](const auto&... parts) {
      fail(where, name, "/vocab.bpe: line ", line_number, parts..., "; get the file again");
    };
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      problem(" is not two symbols with a space between them");
    }
    const auto left = bytes_of_printable(line.substr(0, space));
    const auto right = bytes_of_printable(line.substr(space + 1));
    if (!left || !right) problem(" has a character that represents no byte");
    const auto left_symbol = symbol_of_text.find(*left), right_symbol = symbol_of_text.find(*right);
    // Each part must be there before the pair: that is what makes ranks an order of merging.
    if (left_symbol == symbol_of_text.end() || right_symbol == symbol_of_text.end()) {
      problem(" joins a symbol that no earlier line makes");
    }
    if (text_of_symbol.size() + 1 == largest_vocabulary) {
      problem(" is beyond the ", largest_vocabulary, " tokens that 16 bits can number");
    }
    const auto joined = static_cast<Symbol>(text_of_symbol.size());
    if (!symbol_of_text.emplace(*left + *right, joined).second) {
      problem(" makes a symbol that an earlier line makes");
    }
    text_of_symbol.push_back(*left + *right);
    bpe.merge_table_.add(left_symbol->second, right_symbol->second, joined);
  }
  if (text_of_symbol.size() == 256) fail(where, name, "/vocab.bpe: has no merges; get it again");
  text_of_symbol.emplace_back(end_of_text);
  bpe.number_tokens(std::move(text_of_symbol), encoder_json, name);
  return bpe;
}

void Bpe::number_tokens(std::vector<std::string> text_of_symbol, std::string_view encoder_json,
                        const std::string& name) {
  const size_t size = text_of_symbol.size();
  if (encoder_json.empty()) {
    for (size_t s = 0; s < size; ++s) token_of_symbol_.push_back(static_cast<Token>(s));
    text_of_token_ = std::move(text_of_symbol);
    return;
  }
  const auto problem = [&](const auto&... parts) {
    fail(where, name, "/encoder.json: ", parts...,
         "; get it again, or remove it: the numbers then follow vocab.bpe");
  };
  EncoderReader reader;
  if (!nlohmann::json::sax_parse(encoder_json, &reader)) problem("has ", reader.problem);
  if (reader.entries.size() != size) {
    problem("has ", reader.entries.size(), " tokens, but vocab.bpe makes ", size);
  }
  std::unordered_map<std::string, std::uint64_t> number_of_text;
  for (auto& [text, number] : reader.entries) {
    const auto bytes = text == end_of_text ? text : bytes_of_printable(text);
    if (number >= size) problem("numbers a token ", number, ", beyond the ", size, " there are");
    if (!bytes || !number_of_text.emplace(*bytes, number).second) {
      problem("has a token twice or with a character that represents no byte, number ", number);
    }
  }
  token_of_symbol_.resize(size);
  text_of_token_.resize(size);
  std::vector<bool> used(size);
  for (size_t s = 0; s < size; ++s) {
    const auto found = number_of_text.find(text_of_symbol[s]);
    if (found == number_of_text.end()) problem("lacks a token that vocab.bpe makes, symbol ", s);
    if (used[found->second]) problem("gives the number ", found->second, " twice");
    used[found->second] = true;
    token_of_symbol_[s] = static_cast<Token>(found->second);
    text_of_token_[found->second] = std::move(text_of_symbol[s]);
  }
}

}  // namespace normball::trainer::data
