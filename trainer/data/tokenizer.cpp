#include "trainer/data/tokenizer.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "normball/base/error.h"
#include "trainer/data/split_words.h"

namespace normball::trainer::data {
namespace {

constexpr size_t piece_bytes = size_t{1} << 18;  // of text that one thread takes at a time

std::vector<std::string_view> cut_into_pieces(std::string_view text) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const size_t size = next_safe_cut(text, std::min(piece_bytes, text.size()));
    pieces.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return pieces;
}

}  // namespace

Tokenizer Tokenizer::gpt2(const std::string& directory) {
  Tokenizer tokenizer(std::make_shared<const Bpe>(Bpe::load(directory)));
  tokenizer.directory_ = directory;
  return tokenizer;
}

std::optional<Token> Tokenizer::end_of_text() const {
  return bpe_ ? std::optional(bpe_->end_of_text_token()) : std::nullopt;
}

std::vector<Token> Tokenizer::encode(std::string_view text, int threads) const {
  if (!bpe_) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(text.data());
    return {first, first + text.size()};
  }
  const auto pieces = cut_into_pieces(text);
  std::vector<std::vector<Token>> encoded(pieces.size());
  std::atomic<size_t> next{0};
  std::vector<std::exception_ptr> errors(static_cast<size_t>(std::max(1, threads)));
  const auto work = [&](size_t thread) {
    try {
      Bpe::Encoder encoder(*bpe_);
      for (size_t i = next++; i < pieces.size(); i = next++) encoder.encode(pieces[i], encoded[i]);
    } catch (...) {
      errors[thread] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (size_t t = 1; t < std::min(errors.size(), pieces.size()); ++t)
      helpers.emplace_back(work, t);
    work(0);
  }
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  if (encoded.size() == 1) return std::move(encoded[0]);
  std::vector<Token> tokens;
  for (const auto& part : encoded) tokens.insert(tokens.end(), part.begin(), part.end());
  return tokens;
}

std::string Tokenizer::decode(std::span<const Token> tokens) const {
  if (bpe_) return bpe_->decode(tokens);
  std::string text;
  for (const Token token : tokens) {
    if (token > 255) throw_invalid("Tokenizer", "token ", token, " is not a byte");
    text += static_cast<char>(token);
  }
  return text;
}

}  // namespace normball::trainer::data
