// Text of any bytes, encoded and decoded.
#include "fuzz/data_samples.h"
#include "fuzz/reader.h"
#include "trainer/data/tokenizer.h"

namespace normball::fuzz {
namespace {

std::vector<std::string> samples() {
  return {"hello the 中文 'll don't  \n\u3000\u00a0 1²٣ \U0001f600 e\u0301",
          "\xff\xc3\xe4\xb8\xed\xa0\x80 \xf4\x90\x80\x80 hell"};
}

void read(std::string_view file) {
  static const trainer::data::Tokenizer tokenizer(std::make_shared<const trainer::data::Bpe>(
      trainer::data::Bpe::parse(testing::toy_vocabulary(), "", "toy")));
  require(tokenizer.decode(tokenizer.encode(file)) == file, "any bytes come back");
}

}  // namespace

const Reader reader = {"text", samples, read, 0};

}  // namespace normball::fuzz
