// vocab.bpe: the merges of a vocabulary, and text encoded with what came out.
#include "fuzz/data_samples.h"
#include "fuzz/reader.h"
#include "trainer/data/tokenizer.h"

namespace normball::fuzz {
namespace {

std::vector<std::string> samples() { return {testing::toy_vocabulary(), "a b\nab c\n"}; }

void read(std::string_view file) {
  const trainer::data::Tokenizer tokenizer(
      std::make_shared<const trainer::data::Bpe>(trainer::data::Bpe::parse(file, "", "file")));
  const std::string text = "hello the hell " + std::string(file);
  require(tokenizer.decode(tokenizer.encode(text)) == text, "text comes back");
}

}  // namespace

const Reader reader = {"vocab.bpe", samples, read, 0.3};

}  // namespace normball::fuzz
