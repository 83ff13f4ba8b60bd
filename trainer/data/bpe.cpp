#include "trainer/data/bpe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <queue>

#include "normball/error.h"
#include "trainer/data/split_words.h"

namespace normball::trainer::data {
namespace {

constexpr size_t short_word = 48;           // bytes, up to which searching all pairs is fastest
constexpr size_t cached_words = 1 << 17;    // then the cache starts anew
constexpr size_t longest_cached_word = 32;  // longer ones hardly come again

constexpr bool is_printable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct ByteOrder {
  std::array<std::uint8_t, 256> byte_of_symbol{};
  std::array<std::uint8_t, 256> symbol_of_byte{};
  std::array<char32_t, 256> printable{};
};

constexpr ByteOrder byte_order = [] {
  ByteOrder order;
  unsigned symbol = 0, stand_ins = 0;
  for (const bool printable : {true, false}) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (is_printable(static_cast<int>(byte)) != printable) continue;
      order.byte_of_symbol[symbol] = static_cast<std::uint8_t>(byte);
      order.symbol_of_byte[byte] = static_cast<std::uint8_t>(symbol++);
      order.printable[byte] = printable ? byte : 256 + stand_ins++;
    }
  }
  return order;
}();

}  // namespace

char32_t printable_of_byte(std::uint8_t byte) { return byte_order.printable[byte]; }
std::uint8_t byte_of_symbol(int symbol) {
  return byte_order.byte_of_symbol[static_cast<size_t>(symbol)];
}
int symbol_of_byte(std::uint8_t byte) { return byte_order.symbol_of_byte[byte]; }

Bpe::MergeTable::MergeTable(size_t merges)
    : slots_(std::bit_ceil(2 * merges + 2), {~std::uint64_t{0}, none}) {}

size_t Bpe::MergeTable::slot_of(std::uint64_t key) const {
  size_t slot = static_cast<size_t>((key * 0x9e3779b97f4a7c15u) >> 32) & (slots_.size() - 1);
  while (slots_[slot].second != none && slots_[slot].first != key) {
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slot;
}

Bpe::Symbol Bpe::MergeTable::find(Symbol left, Symbol right) const {
  return slots_[slot_of(std::uint64_t{left} << 32 | right)].second;
}

void Bpe::MergeTable::add(Symbol left, Symbol right, Symbol joined) {
  const std::uint64_t key = std::uint64_t{left} << 32 | right;
  slots_[slot_of(key)] = {key, joined};
}

std::string_view Bpe::text(int token) const {
  if (token < 0 || token >= vocabulary()) {
    detail::invalid("Bpe", "token ", token, " is outside the vocabulary of ", vocabulary());
  }
  return text_of_token_[static_cast<size_t>(token)];
}

std::string Bpe::decode(std::span<const Token> tokens) const {
  std::string out;
  for (const Token token : tokens) out += text(token);
  return out;
}

void Bpe::Encoder::encode(std::string_view text, std::vector<Token>& out) {
  while (!text.empty()) {
    const size_t size = first_word(text);
    encode_word(text.substr(0, size), out);
    text.remove_prefix(size);
  }
}

void Bpe::Encoder::encode_word(std::string_view word, std::vector<Token>& out) {
  if (const auto found = cache_.find(word); found != cache_.end()) {
    const auto tokens = std::span(cached_tokens_).subspan(found->second.first, found->second.count);
    out.insert(out.end(), tokens.begin(), tokens.end());
    return;
  }
  symbols_.clear();
  for (const char c : word) {
    symbols_.push_back(static_cast<Symbol>(symbol_of_byte(static_cast<std::uint8_t>(c))));
  }
  if (word.size() <= short_word) {
    merge_short();
  } else {
    merge_long();
  }
  const size_t first = out.size();
  for (const Symbol symbol : symbols_) out.push_back(bpe_.token_of_symbol_[symbol]);
  if (word.size() > longest_cached_word) return;
  if (cache_.size() == cached_words) {
    cache_.clear();
    cached_tokens_.clear();
  }
  cache_.emplace(word, Cached{static_cast<std::uint32_t>(cached_tokens_.size()),
                              static_cast<std::uint32_t>(out.size() - first)});
  cached_tokens_.insert(cached_tokens_.end(), out.begin() + static_cast<std::ptrdiff_t>(first),
                        out.end());
}

// A merge's number is its rank, so the smallest joined symbol is the pair to join next.
void Bpe::Encoder::merge_short() {
  while (symbols_.size() > 1) {
    Symbol best = none;
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols_.size(); ++i) {
      const Symbol joined = bpe_.merge_table_.find(symbols_[i], symbols_[i + 1]);
      if (joined < best) {
        best = joined;
        at = i;
      }
    }
    if (best == none) return;
    symbols_[at] = best;
    symbols_.erase(symbols_.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

// The same by a heap of candidate pairs over a linked list: n log n where a file is one long word.
void Bpe::Encoder::merge_long() {
  struct Candidate {
    Symbol joined, left, right;
    size_t at;
    bool operator>(const Candidate& other) const {
      return joined != other.joined ? joined > other.joined : at > other.at;
    }
  };
  constexpr size_t no_place = ~size_t{0};
  const size_t n = symbols_.size();
  std::vector<size_t> next(n), previous(n);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;
  const auto offer = [&](size_t at) {
    if (next[at] == no_place) return;
    const Symbol left = symbols_[at], right = symbols_[next[at]];
    const Symbol joined = bpe_.merge_table_.find(left, right);
    if (joined != none) heap.push({joined, left, right, at});
  };
  for (size_t i = 0; i < n; ++i) {
    next[i] = i + 1 < n ? i + 1 : no_place;
    previous[i] = i > 0 ? i - 1 : no_place;
  }
  for (size_t i = 0; i < n; ++i) offer(i);
  while (!heap.empty()) {
    const Candidate top = heap.top();
    heap.pop();
    const size_t right = next[top.at];
    // Either symbol may have been joined with something else since.
    if (symbols_[top.at] != top.left || right == no_place || symbols_[right] != top.right) continue;
    symbols_[top.at] = top.joined;
    symbols_[right] = none;
    next[top.at] = next[right];
    if (next[right] != no_place) previous[next[right]] = top.at;
    offer(top.at);
    if (previous[top.at] != no_place) offer(previous[top.at]);
  }
  std::erase(symbols_, none);
}

}  // namespace normball::trainer::data
