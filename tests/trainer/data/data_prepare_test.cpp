// From text to a directory of shards.
#include <sys/resource.h>

#include <cctype>
#include <csignal>
#include <numeric>

#include "temporary_directory.h"
#include "testing.h"
#include "tests/trainer/data/data_samples.h"
#include "trainer/data/data_error.h"
#include "trainer/data/dataset_kind.h"
#include "trainer/data/prepare.h"

namespace normball::testing {
namespace {

using namespace trainer::data;

std::string text_of(const TokenData& data, const Tokenizer& tokenizer) {
  std::vector<std::int64_t> tokens(static_cast<size_t>(data.size()));
  data.read(0, tokens);
  return tokenizer.decode(std::vector<Token>(tokens.begin(), tokens.end()));
}

TEST(PrepareTest, BytesComeBackExactly) {
  const TemporaryDirectory directory;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 7);
  write(directory / "a.txt", text);
  std::vector<std::int64_t> progress;
  const auto description = prepare({.texts = {directory / "a.txt"},
                                    .out = directory / "out",
                                    .bpe_directory = {},
                                    .shard_tokens = 400},
                                   [&](std::int64_t done, std::int64_t all) {
                                     progress.push_back(done);
                                     EXPECT_EQ(all, 1000);
                                   });
  EXPECT_EQ(description.train_tokens, 900);
  EXPECT_EQ(description.validation_tokens, 100);
  EXPECT_EQ(progress.back(), 1000);
  const TokenDataset dataset = load_shards(directory / "out");
  EXPECT_EQ(dataset.files.size(), 4u);
  EXPECT_EQ(dataset.vocabulary, 256);
  ASSERT_TRUE(dataset.tokenizer);
  EXPECT_EQ(text_of(dataset.train, *dataset.tokenizer), text.substr(0, 900));
  EXPECT_EQ(text_of(dataset.validation, *dataset.tokenizer), text.substr(900));
  EXPECT_EQ(directory.entries(), 2u);
  EXPECT_EQ(dataset_kind(directory / "out"), DatasetKind::Shards);
}

TEST(PrepareTest, CanBeInterruptedBetweenTheShardsOfAPiece) {
  const TemporaryDirectory directory;
  write(directory / "a.txt", std::string(100'000, 'a'));
  int calls = 0;
  const auto interrupt = [&](std::int64_t, std::int64_t) {
    if (++calls == 2) throw std::runtime_error("interrupted");
  };
  const PrepareOptions options{.texts = {directory / "a.txt"},
                               .out = directory / "out",
                               .bpe_directory = {},
                               .shard_tokens = 1};
  EXPECT_THROW(prepare(options, interrupt), std::runtime_error);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(directory.entries(), 1u);  // after 32 of 90,000 shards
}

TEST(PrepareTest, BytePairsBringTheirVocabularyAndSeparateFiles) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "bpe");
  write(directory / "bpe/vocab.bpe", toy_vocabulary());
  std::string text;
  for (int i = 0; i < 40; ++i) text += "hello the\n";
  write(directory / "a.txt", text);
  write(directory / "b.txt", "hello\xff" + text);
  const auto prepare_with = [&](const std::string& out, double share, int threads) {
    prepare({.texts = {directory / "a.txt", directory / "b.txt"},
             .out = directory / out,
             .bpe_directory = directory / "bpe",
             .validation_share = share,
             .threads = threads});
    return load_shards(directory / out);
  };
  const TokenDataset dataset = prepare_with("out", 0.25, 1);
  EXPECT_EQ(dataset.vocabulary, 263);
  const std::string train = text_of(dataset.train, *dataset.tokenizer);
  const std::string validation = text_of(dataset.validation, *dataset.tokenizer);
  EXPECT_EQ(train + validation, "<|endoftext|>" + text + "<|endoftext|>hello\xff" + text);
  EXPECT_TRUE(std::isspace(validation.front()) && !std::isspace(train.back()));  // between words
  EXPECT_NEAR(static_cast<double>(validation.size()), 0.25 * 806, 10);
  std::vector<std::int64_t> first(2);
  dataset.train.read(0, first);
  EXPECT_EQ(first, (std::vector<std::int64_t>{262, 260}));

  const TokenDataset again = prepare_with("again", 0.25, 4);
  EXPECT_EQ(read(directory / "out/train_000000.bin"), read(directory / "again/train_000000.bin"));
  const TokenDataset in_memory =
      load_text({directory / "a.txt", directory / "b.txt"}, *dataset.tokenizer, 0.25);
  EXPECT_EQ(text_of(in_memory.train, *dataset.tokenizer), train);
  EXPECT_EQ(in_memory.train.size(), dataset.train.size());
  EXPECT_EQ(in_memory.validation.size(), dataset.validation.size());

  write(directory / "again/vocab.bpe", "a b\n");
  expect_data_error([&] { load_shards(directory / "again"); }, {"makes 258", "says 263"});
  const TokenDataset no_validation = prepare_with("none", 0, 1);
  EXPECT_EQ(no_validation.validation.size(), 0);
}

TEST(PrepareTest, SeparatorsInTheTextAreTokensOnRequest) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "bpe");
  write(directory / "bpe/vocab.bpe", toy_vocabulary());
  write(directory / "a.txt", "hello<|endoftext|>hello<|endoftext|><|endoftext|>");
  const auto tokens = [&](const std::string& out, bool separators) {
    prepare({.texts = {directory / "a.txt"},
             .out = directory / out,
             .bpe_directory = directory / "bpe",
             .validation_share = 0,
             .separators_in_text = separators});
    const TokenData data = load_shards(directory / out).train;
    std::vector<std::int64_t> list(static_cast<size_t>(data.size()));
    data.read(0, list);
    return list;
  };
  EXPECT_EQ(tokens("yes", true), (std::vector<std::int64_t>{262, 260, 262, 260, 262, 262}));
  EXPECT_EQ(std::ranges::count(tokens("no", false), 262), 1);
  expect_invalid(
      [&] {
        prepare({.texts = {directory / "a.txt"},
                 .out = directory / "bytes",
                 .bpe_directory = {},
                 .separators_in_text = true});
      },
      {"bytes have no token"});
}

TEST(PrepareTest, NothingIsLeftWhereSomethingFails) {
  const TemporaryDirectory directory;
  write(directory / "a.txt", std::string(100'000, 'x'));
  write(directory / "file", "");
  const auto run = [&](const std::string& text, const std::string& out) {
    prepare({.texts = {directory / text}, .out = directory / out, .bpe_directory = {}});
  };
  expect_file_error([&] { run("missing", "out"); }, {"missing", "No such file"});
  expect_data_error([&] { run("file", "out"); }, {"file", "is empty"});
  expect_data_error([&] { run("a.txt", "file"); }, {"file", "exists"});
  expect_data_error([&] { run("a.txt", "file/out"); }, {"file/out", "cannot be created"});
  EXPECT_EQ(directory.entries(), 2u);

  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{50'000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  expect_file_error([&] { run("a.txt", "out"); }, {"train_000000.bin", "while writing"});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(directory.entries(), 2u);

  std::filesystem::create_directory(directory / "empty");
  run("a.txt", "empty/");  // an empty directory is as good as none
  run("a.txt", "deep/down");
  expect_data_error([&] { run("a.txt", "empty"); }, {"empty", "name a new one"});
  EXPECT_EQ(load_shards(directory / "empty").train.size(), 90'000);
}

TEST(PrepareTest, AMissingShardIsNoticed) {
  const TemporaryDirectory directory;
  write(directory / "a.txt", std::string(1000, 'x'));
  prepare({.texts = {directory / "a.txt"},
           .out = directory / "out",
           .bpe_directory = {},
           .shard_tokens = 300});
  std::filesystem::remove(directory / "out/train_000001.bin");
  expect_data_error([&] { load_shards(directory / "out"); }, {"600 tokens", "says 900"});
}

TEST(PrepareTest, WrongDescriptionsAreNamed) {
  const std::string good = to_json(ShardDescription{"bytes", 256, 5, 0});
  EXPECT_EQ(parse_shard_description(good, "d").train_tokens, 5);
  for (size_t size = 0; size + 2 < good.size(); ++size) {
    EXPECT_THROW(parse_shard_description(good.substr(0, size), "d"), DataError) << size;
  }
  const auto parse = [](const char* json) {
    return [json] { parse_shard_description(json, "d.json"); };
  };
  expect_data_error(parse("[1]"), {"d.json", "not the JSON"});
  expect_data_error(parse(R"({"tokenizer": "words"})"), {"'words'", "bytes and gpt2"});
  expect_data_error(parse(R"({"tokenizer": "bytes"})"), {"\"vocabulary\""});
  expect_data_error(parse(R"({"tokenizer": "bytes", "vocabulary": 70000})"), {"70000"});
  expect_data_error(parse(R"({"tokenizer": "bytes", "vocabulary": 2, "train_tokens": -1})"),
                    {"-1"});
}

TEST(DatasetKindTest, FollowsNamesAndFirstBytes) {
  const TemporaryDirectory directory;
  expect_data_error([&] { dataset_kind(directory.path()); }, {"no known data"});
  expect_file_error([&] { dataset_kind(directory / "missing"); }, {"No such file"});
  write(directory / "a", "text");
  write(directory / "b", shard_file({1}));
  write(directory / "c", gzip(idx_file({1}, {1})));
  write(directory / "vocab.bpe", toy_vocabulary());
  EXPECT_EQ(dataset_kind(directory / "a"), DatasetKind::Text);
  EXPECT_EQ(dataset_kind(directory / "b"), DatasetKind::Shards);
  EXPECT_EQ(dataset_kind(directory / "c"), DatasetKind::IdxFile);
  EXPECT_EQ(dataset_kind(directory / "*.bin"), DatasetKind::Shards);
  EXPECT_EQ(dataset_kind(directory.path()), DatasetKind::Bpe);
  EXPECT_EQ(dataset_kind("fashion-mnist"), DatasetKind::Images);
}

}  // namespace
}  // namespace normball::testing
