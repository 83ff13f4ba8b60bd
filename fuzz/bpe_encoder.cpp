// encoder.json: the numbers of a vocabulary's tokens.
#include <nlohmann/json.hpp>

#include "fuzz/data_samples.h"
#include "fuzz/reader.h"
#include "trainer/data/bpe.h"

namespace normball::fuzz {
namespace {

constexpr auto merges = "a b\n";

// As encoder.json writes it: each byte as its printable stand-in, in UTF-8.
std::string printable(std::string_view token) {
  std::string text;
  for (const char c : token) {
    const char32_t p = trainer::data::printable_of_byte(static_cast<std::uint8_t>(c));
    if (p < 128) {
      text += static_cast<char>(p);
    } else {
      text += {static_cast<char>(0xc0 | p >> 6), static_cast<char>(0x80 | (p & 63))};
    }
  }
  return text;
}

std::vector<std::string> samples() {
  const auto bpe = trainer::data::Bpe::parse(merges, "", "toy");
  nlohmann::json json;
  for (int token = 0; token < bpe.vocabulary(); ++token) json[printable(bpe.text(token))] = token;
  return {json.dump()};
}

void read(std::string_view file) {
  if (file.empty()) return;  // means: no such file
  const auto bpe = trainer::data::Bpe::parse(merges, file, "file");
  require(bpe.vocabulary() == 258, "the vocabulary is that of the merges");
}

}  // namespace

const Reader reader = {"encoder.json", samples, read, 0.5};

}  // namespace normball::fuzz
