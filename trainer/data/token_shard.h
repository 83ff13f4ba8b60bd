// Token shards as llm.c and modded-nanogpt have them: a header of 256 little-endian int32 (magic
// 20240520, version 1, the number of tokens), then the tokens as uint16.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/files/atomic_file.h"
#include "trainer/files/bytes.h"

namespace normball::trainer::data {

// The tokens of a shard, two bytes each and still in the file: magic, version and the number of
// tokens against the size of the file have been checked.
files::Bytes read_shard(const std::string& path);
files::Bytes parse_shard(const files::Bytes& file, const std::string& name);
bool is_shard(std::span<const std::uint8_t> file);

// Reads every token: one that is not below the vocabulary is a DataError with its position. The
// remedy depends on who says what the vocabulary is.
void check_tokens(const files::Bytes& tokens, int vocabulary, const std::string& name,
                  std::string_view remedy = "set the vocabulary the shards were made with");

// The shards that a path names, sorted: a directory (all its .bin files, or those with `part`, such
// as "train", in their names), a pattern such as data/fineweb_train_*.bin, or one file.
std::vector<std::string> find_shards(const std::string& path, const std::string& part = "");
// Those of a directory, perhaps none.
std::vector<std::string> list_shards(const std::string& directory, const std::string& part);

// Writes <prefix>_000000.bin, <prefix>_000001.bin and so on, each atomically.
class ShardWriter {
 public:
  static constexpr std::int64_t max_shard_tokens = (std::int64_t{1} << 31) - 1;
  static constexpr std::int64_t max_shards = 100'000;  // files of one directory

  ShardWriter(std::string directory, std::string prefix, std::int64_t shard_tokens,
              files::FileSystem& files = files::FileSystem::real());

  void append(std::span<const std::uint16_t> tokens);
  // Completes the last shard; without it that shard never appears. All are durable afterwards.
  void finish();

  std::int64_t tokens() const { return tokens_; }
  int shards() const { return static_cast<int>(checksums_.size()); }
  // The names of the shards, and the CRC-32C of their tokens.
  const std::vector<std::pair<std::string, std::uint32_t>>& checksums() const { return checksums_; }

 private:
  std::string name_of_shard() const;
  void finish_shard();

  std::string directory_, prefix_;
  std::int64_t shard_tokens_;
  files::FileSystem& files_;
  std::int64_t tokens_ = 0;
  std::int64_t in_shard_ = 0;
  std::uint32_t crc_ = 0;
  std::vector<std::pair<std::string, std::uint32_t>> checksums_;
  std::unique_ptr<files::AtomicFile> file_;
};

}  // namespace normball::trainer::data
