// GPT-2's byte-pair encoding: words of the text (split_words.h) start as single bytes, and the
// adjacent pair that stands first in the list of merges is joined until none is in it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace normball::trainer::data {

using Token = std::uint16_t;

// The merges of a vocabulary. Symbols are numbered in GPT-2's own order: the 256 bytes (printable
// ones first), then the merges, then <|endoftext|>; which is also how token numbers are derived
// where no encoder.json is given.
class Bpe {
 public:
  static constexpr std::string_view end_of_text = "<|endoftext|>";

  // From vocab.bpe, and encoder.json if there is one beside it, in a directory.
  static Bpe load(const std::string& directory);
  // From the files' contents; an empty encoder.json means: derive the numbers. `name` is the
  // directory named in errors.
  static Bpe parse(std::string_view vocab_bpe, std::string_view encoder_json,
                   const std::string& name);

  int vocabulary() const { return static_cast<int>(text_of_token_.size()); }
  int merges() const { return vocabulary() - 257; }
  Token end_of_text_token() const { return token_of_symbol_.back(); }

  // The bytes a token stands for; a number outside the vocabulary is std::invalid_argument.
  std::string_view text(int token) const;
  std::string decode(std::span<const Token> tokens) const;

  class Encoder;

 private:
  using Symbol = std::uint32_t;
  static constexpr Symbol none = ~Symbol{0};

  // (left, right) -> the symbol they join to. Open addressing: this is the encoder's inner loop.
  class MergeTable {
   public:
    explicit MergeTable(size_t merges);
    Symbol find(Symbol left, Symbol right) const;
    void add(Symbol left, Symbol right, Symbol joined);

   private:
    size_t slot_of(std::uint64_t key) const;
    std::vector<std::pair<std::uint64_t, Symbol>> slots_;
  };

  explicit Bpe(size_t merges) : merge_table_(merges) {}
  void number_tokens(std::vector<std::string> text_of_symbol, std::string_view encoder_json,
                     const std::string& name);

  MergeTable merge_table_;
  std::vector<Token> token_of_symbol_;
  std::vector<std::string> text_of_token_;
};

// Encodes with a cache of words, so one for each thread. Refers to the Bpe, which must outlive it.
class Bpe::Encoder {
 public:
  explicit Encoder(const Bpe& bpe) : bpe_(bpe) {}

  // Appends the tokens of the text, whatever bytes it holds. <|endoftext|> in it is text like any
  // other.
  void encode(std::string_view text, std::vector<Token>& out);

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  struct Cached {
    std::uint32_t first, count;  // in cached_tokens_
  };

  void encode_word(std::string_view word, std::vector<Token>& out);
  void merge_short();
  void merge_long();

  const Bpe& bpe_;
  std::vector<Symbol> symbols_;  // of the word under work
  std::unordered_map<std::string, Cached, Hash, std::equal_to<>> cache_;
  std::vector<Token> cached_tokens_;
};

// GPT-2's printable stand-ins for bytes: the code point that stands for a byte in vocab.bpe and
// encoder.json, and the bytes in the order of their numbers.
char32_t printable_of_byte(std::uint8_t byte);
std::uint8_t byte_of_symbol(int symbol);  // 0 to 255
int symbol_of_byte(std::uint8_t byte);

}  // namespace normball::trainer::data
