// A sequence of tokens over any number of files, addressed as one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/data/bytes.h"
#include "trainer/data/tokenizer.h"

namespace normball::trainer::data {

class TokenData {
 public:
  // Tokens of one byte each (text as bytes) or two (shards, encoded text).
  enum class Width : std::uint8_t { One = 1, Two = 2 };
  void append(Bytes tokens, Width width);

  std::int64_t size() const { return size_; }
  // Copies the tokens first, first + 1, ... into out; the range must be inside.
  void read(std::int64_t first, std::span<std::int64_t> out) const;
  // A part of the sequence; no token is copied.
  TokenData slice(std::int64_t first, std::int64_t count) const;
  // All of it as bytes, one piece after the other.
  std::vector<std::span<const std::uint8_t>> bytes() const;

 private:
  struct Piece {
    Bytes tokens;
    Width width;
    std::int64_t first;
    std::int64_t count;
  };
  std::vector<Piece> pieces_;
  std::int64_t size_ = 0;
};

// What a language model trains and is evaluated on.
struct TokenDataset {
  std::string kind;  // "token shards" or "text"
  TokenData train;
  TokenData validation;  // may be empty
  int vocabulary = 0;
  std::optional<Tokenizer> tokenizer;  // what the tokens mean, where known
  std::vector<std::string> files;
  bool compared = false;  // every file is a shard whose checksum was recorded, and is right
};

// Text files one after another, as bytes (mapped, not copied) or encoded in memory, where every
// file starts with <|endoftext|>. text_files.h says where the part for validation starts.
TokenDataset load_text(const std::vector<std::string>& paths, const Tokenizer& tokenizer,
                       double validation_share = 0.1, int threads = 1);

struct ShardOptions {
  // 0: from the dataset.json beside the shards (`normball data prepare` writes it), else GPT-2's.
  int vocabulary = 0;
  std::string validation;  // a path or pattern of its own; empty: by name, in the directory
};

// A directory with *train*.bin and *val*.bin, or a pattern or file. Every shard's header and every
// token is checked.
TokenDataset load_shards(const std::string& path, const ShardOptions& options = {});

// dataset.json, written by `normball data prepare`.
struct ShardDescription {
  std::string tokenizer;
  int vocabulary = 0;
  std::int64_t train_tokens = 0;
  std::int64_t validation_tokens = 0;
  // CRC-32C of the tokens by the names of the shards; earlier versions recorded none.
  std::map<std::string, std::uint32_t> checksums = {};
};
std::string to_json(const ShardDescription& description);
ShardDescription parse_shard_description(std::string_view json, const std::string& name);

}  // namespace normball::trainer::data
