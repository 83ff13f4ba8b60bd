// Token shards: the header, then every token.
#include "trainer/data/token_shard.h"

#include "fuzz/data_samples.h"
#include "fuzz/reader.h"
#include "trainer/data/token_data.h"

namespace normball::fuzz {
namespace {

constexpr int vocabulary = 300;

std::vector<std::string> samples() {
  return {text_of(testing::shard_file({1, 2, 3, 4, 5, 6, 7})), text_of(testing::shard_file({299}))};
}

void read(std::string_view file) {
  const trainer::data::Bytes tokens = trainer::data::parse_shard(bytes_of(file), "file");
  trainer::data::check_tokens(tokens, vocabulary, "file");
  trainer::data::TokenData sequence;
  sequence.append(tokens, trainer::data::TokenData::Width::Two);
  std::vector<std::int64_t> all(static_cast<size_t>(sequence.size()));
  sequence.read(0, all);
  for (const auto token : all) require(token >= 0 && token < vocabulary, "tokens were checked");
}

}  // namespace

const Reader reader = {"token shard", samples, read, 0.5};

}  // namespace normball::fuzz
