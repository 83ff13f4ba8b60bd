// What a parameter is, from the names that models give it.
#include <algorithm>
#include <array>
#include <cctype>

#include "normball/error.h"
#include "normball/routing.h"
#include "normball/text.h"

namespace normball {
namespace {

constexpr std::array<std::string_view, 10> kind_names = {
    "unknown",   "linear",   "conv", "depthwise", "conv_transpose",
    "embedding", "position", "norm", "bias",      "output"};

std::vector<std::string> split_at(std::string_view text, std::string_view separators) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (separators.find(c) == std::string_view::npos) {
      parts.back() += c;
    } else {
      parts.emplace_back();
    }
  }
  return parts;
}

bool is_number(const std::string& text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); });
}

// The words of "word_embeddings_2": word, embeddings.
class Words {
 public:
  explicit Words(std::string_view name) {
    std::string lower;
    for (const char c : name) {
      const auto byte = static_cast<unsigned char>(c);
      lower += std::isdigit(byte) ? '_' : static_cast<char>(std::tolower(byte));
    }
    words_ = split_at(lower, "_-");
  }
  bool any_of(std::initializer_list<std::string_view> wanted) const {
    return std::ranges::any_of(
        words_, [&](const auto& word) { return std::ranges::find(wanted, word) != wanted.end(); });
  }
  bool any_contains(std::string_view part) const {
    return std::ranges::any_of(
        words_, [&](const auto& word) { return word.find(part) != std::string::npos; });
  }

 private:
  std::vector<std::string> words_;
};

// A head sits outside the numbered blocks: "lm_head", not "h.3.mlp.fc_out".
bool names_a_head(std::string_view name, const std::string& own) {
  constexpr std::array<std::string_view, 14> heads = {
      "head",      "heads",  "lm_head", "out_head", "output_head", "classifier", "fc",
      "to_logits", "fc_out", "output",  "logits",   "unembed",     "embed_out",  "score"};
  const auto path = split_at(name, "./");
  return std::ranges::find(heads, own) != heads.end() && std::ranges::none_of(path, is_number);
}

bool names_a_position(const Words& own) {
  return own.any_of({"pos", "position", "positional", "wpe", "cls"}) ||
         (own.any_of({"class", "register", "dist", "mask"}) &&
          own.any_of({"token", "tokens", "embed", "embedding"}));
}

}  // namespace

Kind parse_kind(std::string_view text) {
  const auto found = std::ranges::find(kind_names, text);
  if (found == kind_names.end()) {
    detail::invalid("parse_kind", unknown_name("kind", text, kind_names));
  }
  return static_cast<Kind>(found - kind_names.begin());
}

std::string to_string(Kind kind) { return std::string(kind_names.at(static_cast<size_t>(kind))); }

namespace detail {

std::string own_name(std::string_view name) {
  const auto path = split_at(name, "./");
  const bool plain = path.back() == "weight" || path.back() == "bias" || path.back() == "kernel";
  return plain && path.size() > 1 ? path[path.size() - 2] : path.back();
}

Kind guess_kind(std::string_view name, std::span<const Index> dimensions) {
  const std::string own = own_name(name);
  const Words words(own);
  const auto leaf = split_at(name, "./").back();
  const bool position = names_a_position(words);
  if (leaf.ends_with("bias") && !position) return Kind::Bias;
  if (position && dimensions.size() != 4) return Kind::Position;
  if (words.any_contains("norm") || words.any_of({"ln", "bn", "gain", "gamma"})) return Kind::Gain;
  if (dimensions.size() == 2) {
    if (names_a_head(name, own)) return Kind::Output;
    const bool embeds = words.any_of({"wte", "emb", "embd", "embed", "embedding", "embeddings"});
    if (embeds) return words.any_of({"patch"}) ? Kind::Linear : Kind::Embedding;
  }
  if (dimensions.size() == 3) {
    if (words.any_contains("conv")) return Kind::Conv;
    if (Words(name).any_contains("expert")) return Kind::Linear;
  }
  return dimensions.size() >= 4 ? Kind::Conv : Kind::Unknown;
}

}  // namespace detail
}  // namespace normball
