// Text to tokens and back: plain bytes, or GPT-2's byte-pair encoding. A value; copies share.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/data/bpe.h"

namespace normball::trainer::data {

class Tokenizer {
 public:
  static Tokenizer bytes() { return Tokenizer(nullptr); }
  // vocab.bpe, and encoder.json if it is there, in the directory.
  static Tokenizer gpt2(const std::string& directory);
  explicit Tokenizer(std::shared_ptr<const Bpe> bpe) : bpe_(std::move(bpe)) {}

  std::string name() const { return bpe_ ? "gpt2" : "bytes"; }
  int vocabulary() const { return bpe_ ? bpe_->vocabulary() : 256; }
  bool is_bytes() const { return !bpe_; }
  // Where the files of GPT-2's encoding came from; empty for bytes.
  const std::string& directory() const { return directory_; }
  // The token between documents; bytes have none.
  std::optional<Token> end_of_text() const;

  // The result is the same for any number of threads.
  std::vector<Token> encode(std::string_view text, int threads = 1) const;
  // Any tokens below the vocabulary; the bytes may not be valid UTF-8.
  std::string decode(std::span<const Token> tokens) const;

 private:
  std::shared_ptr<const Bpe> bpe_;
  std::string directory_;
};

}  // namespace normball::trainer::data
