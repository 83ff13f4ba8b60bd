// Turns text into a directory of token shards, which appears complete or not at all.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trainer/data/token_data.h"

namespace normball::trainer::data {

struct PrepareOptions {
  std::vector<std::string> texts;
  std::string out;            // must not exist, or be an empty directory
  std::string bpe_directory;  // empty: bytes
  std::int64_t shard_tokens = 100'000'000;
  double validation_share = 0.1;
  bool separators_in_text = false;  // <|endoftext|> in the text separates documents
  int threads = 1;
};

// Called after every piece of text, and every few shards, with the bytes done and all there are.
using PrepareProgress = std::function<void(std::int64_t done, std::int64_t all)>;

// Writes train_*.bin and val_*.bin, dataset.json, and for byte-pair encoding the vocabulary's
// files. With byte-pair encoding every text file starts with <|endoftext|>, as llm.c has it.
ShardDescription prepare(const PrepareOptions& options, const PrepareProgress& progress = {});

}  // namespace normball::trainer::data
