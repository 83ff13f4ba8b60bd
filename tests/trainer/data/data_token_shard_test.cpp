// Token shards, and token sequences over several of them.
#include <fcntl.h>
#include <unistd.h>

#include <numeric>

#include "temporary_directory.h"
#include "testing.h"
#include "tests/trainer/data/data_samples.h"
#include "trainer/data/data_error.h"
#include "trainer/data/token_data.h"
#include "trainer/data/token_shard.h"

namespace normball::testing {
namespace {

using namespace trainer::data;

std::vector<Token> range(int first, int count) {
  std::vector<Token> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), static_cast<Token>(first));
  return tokens;
}

std::vector<std::int64_t> read_all(const TokenData& data) {
  std::vector<std::int64_t> tokens(static_cast<size_t>(data.size()));
  data.read(0, tokens);
  return tokens;
}

TEST(TokenShardTest, TruncationAtEveryOffsetAndOneByteMoreAreErrors) {
  const ByteVector file = shard_file(range(0, 20));
  EXPECT_EQ(parse_shard(bytes_of(file), "test.bin").size(), 40u);
  for (size_t size = 0; size < file.size(); ++size) {
    SCOPED_TRACE(size);
    const ByteVector part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW(parse_shard(bytes_of(part), "test.bin"), DataError);
  }
  ByteVector longer = file;
  longer.push_back(0);
  expect_data_error([&] { parse_shard(bytes_of(longer), "test.bin"); },
                    {"test.bin", "1065 bytes", "20 tokens", "1064"});
}

TEST(TokenShardTest, WrongHeadersAreNamed) {
  const auto parse = [](const ByteVector& file) { parse_shard(bytes_of(file), "test.bin"); };
  expect_data_error([&] { parse(shard_file(range(0, 3), 1)); }, {"starts with 1", "20240520"});
  expect_data_error([&] { parse(shard_file(range(0, 3), 20240520, 2)); }, {"version 2"});
  expect_data_error([&] { parse(shard_file({}, 20240520, 1, 0)); }, {"0 tokens"});
  expect_data_error([&] { parse(shard_file(range(0, 3), 20240520, 1, 0xffffffff)); },
                    {"-1 tokens"});
  expect_data_error([&] { parse(shard_file(range(0, 3), 20240520, 1, 4)); }, {"4 tokens"});
}

TEST(TokenShardTest, TokensOutsideTheVocabularyAreFound) {
  std::vector<Token> tokens(200'000, 7);
  tokens[150'001] = 300;
  const trainer::files::Bytes data = parse_shard(bytes_of(shard_file(tokens)), "test.bin");
  check_tokens(data, 301, "test.bin");
  expect_data_error([&] { check_tokens(data, 300, "test.bin"); },
                    {"test.bin", "token 150001 is 300", "vocabulary of 300"});
}

TEST(TokenShardTest, WritesWhatItReads) {
  const TemporaryDirectory directory;
  ShardWriter writer(directory.path(), "train", 10);
  writer.append(range(0, 4));
  writer.append(range(4, 19));
  writer.append({});
  writer.finish();
  EXPECT_EQ(writer.tokens(), 23);
  EXPECT_EQ(writer.shards(), 3);
  EXPECT_EQ(directory.entries(), 3u);
  const auto bytes = read(directory / "train_000002.bin");
  const ByteVector expected = shard_file(range(20, 3));
  EXPECT_EQ(ByteVector(bytes.begin(), bytes.end()), expected);
  const TokenDataset dataset = load_shards(directory.path());
  EXPECT_EQ(dataset.vocabulary, 50257);
  const auto tokens = read_all(dataset.train);
  for (int i = 0; i < 23; ++i) EXPECT_EQ(tokens[static_cast<size_t>(i)], i);
  EXPECT_EQ(dataset.validation.size(), 0);
}

// Small shards are many: each is synced once, their directory at the end.
TEST(TokenShardTest, EachShardIsSyncedOnce) {
  struct Counting final : trainer::files::FileSystem {
    int syncs = 0;
    int sync(int file) override {
      ++syncs;
      return FileSystem::sync(file);
    }
  } files;
  const TemporaryDirectory directory;
  ShardWriter writer(directory.path(), "train", 1, files);
  writer.append(range(0, 20));
  writer.finish();
  EXPECT_EQ(directory.entries(), 20u);
  EXPECT_EQ(files.syncs, 21);
}

TEST(TokenShardTest, AShardThatIsNotFinishedNeverAppears) {
  const TemporaryDirectory directory;
  { ShardWriter(directory.path(), "train", 10).append(range(0, 4)); }
  EXPECT_EQ(directory.entries(), 0u);
  expect_invalid([&] { ShardWriter(directory.path(), "train", 0); }, {"1 to 2147483647"});
}

TEST(TokenShardTest, FindsShardsByDirectoryPatternAndName) {
  const TemporaryDirectory directory;
  for (const char* name : {"x_train_2.bin", "x_train_1.bin", "x_val_0.bin", "other.txt"}) {
    write(directory / name, shard_file(range(0, 5)));
  }
  const std::vector<std::string> train{directory / "x_train_1.bin", directory / "x_train_2.bin"};
  EXPECT_EQ(find_shards(directory.path(), "train"), train);
  EXPECT_EQ(find_shards(directory / "*train*.bin"), train);
  EXPECT_EQ(find_shards(directory / "other.txt"), std::vector{directory / "other.txt"});
  expect_data_error([&] { find_shards(directory.path(), "test"); }, {"*test*.bin"});
  expect_data_error([&] { find_shards(directory / "*.gz"); }, {"*.gz", "no file matches"});
  EXPECT_EQ(load_shards(directory.path()).train.size(), 10);
  EXPECT_EQ(load_shards(directory.path()).validation.size(), 5);
  const TokenDataset named =
      load_shards(directory / "*_1.bin", {.vocabulary = 5, .validation = directory / "*val*"});
  EXPECT_EQ(named.train.size(), 5);
  EXPECT_EQ(named.validation.size(), 5);
  expect_data_error([&] { load_shards(directory.path(), {.vocabulary = 4, .validation = {}}); },
                    {"x_train_1.bin", "token 4 is 4"});
}

TEST(TokenShardTest, FilesBeyondTwoGibibytesWork) {
  const TemporaryDirectory directory;
  const std::string path = directory / "train_large.bin";
  constexpr std::int64_t count = 1'100'000'000;  // 2.2 GB, nearly all of it a hole
  write(path, shard_file({1, 2, 3}, 20240520, 1, count));
  const int fd = ::open(path.c_str(), O_WRONLY);
  ASSERT_GE(fd, 0);
  const Token last[] = {11, 12};
  const auto end = static_cast<off_t>(1024 + 2 * count);
  if (::ftruncate(fd, end) != 0) GTEST_SKIP() << "this file system has no files of this size";
  ASSERT_EQ(::pwrite(fd, last, sizeof last, end - 4), 4);
  ::close(fd);
  TokenData data;
  data.append(read_shard(path), TokenData::Width::Two);
  EXPECT_EQ(data.size(), count);
  std::vector<std::int64_t> tail(3);
  data.read(count - 3, tail);
  EXPECT_EQ(tail, (std::vector<std::int64_t>{0, 11, 12}));
#ifndef NORMBALL_SANITIZED  // a billion checked reads take minutes
  expect_data_error([&] { load_shards(path, {.vocabulary = 12, .validation = {}}); },
                    {"token 1099999999 is 12"});
#endif
}

TEST(TokenDataTest, ReadsAcrossPiecesOfBothWidths) {
  TokenData data;
  data.append(bytes_of({0, 1, 2}), TokenData::Width::One);
  data.append(trainer::files::Bytes::own(range(3, 4)), TokenData::Width::Two);
  data.append({}, TokenData::Width::Two);
  data.append(bytes_of({7, 8}), TokenData::Width::One);
  ASSERT_EQ(data.size(), 9);
  for (std::int64_t first = 0; first <= 9; ++first) {
    for (std::int64_t count = 0; first + count <= 9; ++count) {
      std::vector<std::int64_t> expected(static_cast<size_t>(count)), got(expected);
      std::iota(expected.begin(), expected.end(), first);
      data.read(first, got);
      EXPECT_EQ(got, expected);
      EXPECT_EQ(read_all(data.slice(first, count)), expected);
    }
  }
  std::vector<std::int64_t> out(2);
  expect_invalid([&] { data.read(8, out); }, {"8 to 10 of 9"});
  expect_invalid([&] { data.read(-1, out); }, {"-1"});
  expect_invalid([&] { data.slice(5, 5); }, {"5 tokens from 5 of 9"});
}

TEST(TokenDataTest, TextAsBytesIsSplitAsNanoGptDoes) {
  const TemporaryDirectory directory;
  write(directory / "a", std::string(55, 'a'));
  write(directory / "b", std::string(60, 'b'));
  const TokenDataset dataset = load_text({directory / "a", directory / "b"}, Tokenizer::bytes());
  EXPECT_EQ(dataset.vocabulary, 256);
  EXPECT_EQ(dataset.train.size(), 103);  // int(115 * 0.9)
  EXPECT_EQ(dataset.validation.size(), 12);
  EXPECT_EQ(read_all(dataset.train)[54], 'a');
  EXPECT_EQ(read_all(dataset.train)[55], 'b');
  EXPECT_EQ(load_text({directory / "a"}, Tokenizer::bytes(), 0).validation.size(), 0);
  write(directory / "empty", "");
  expect_data_error([&] { load_text({directory / "empty"}, Tokenizer::bytes()); }, {"empty"});
  expect_invalid([&] { load_text({directory / "a"}, Tokenizer::bytes(), 1); }, {"below 1"});
}

}  // namespace
}  // namespace normball::testing
