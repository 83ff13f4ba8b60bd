// What a parameter is, from the names that models give it.
#include <algorithm>
#include <array>

#include "normball/base/error.h"
#include "normball/base/text.h"
#include "normball/internal/routing/facts.h"
#include "normball/internal/routing/words.h"

namespace normball {
namespace {

constexpr std::array<std::string_view, 13> kind_names = {
    "unknown", "linear", "conv",   "depthwise", "conv_transpose", "embedding", "position",
    "norm",    "bias",   "output", "hidden",    "tied",           "alias"};

bool names_a_position(const detail::Words& own) {
  return own.any_of({"pos", "position", "positional", "wpe", "cls"}) ||
         (own.any_of({"class", "register", "dist", "mask"}) &&
          own.any_of({"token", "tokens", "embed", "embedding"}));
}

}  // namespace

Kind parse_kind(std::string_view text) {
  const auto found = std::ranges::find(kind_names, text);
  if (found == kind_names.end()) {
    throw_invalid("parse_kind", unknown_name("kind", text, kind_names));
  }
  return static_cast<Kind>(found - kind_names.begin());
}

std::string to_string(Kind kind) { return std::string(kind_names.at(static_cast<size_t>(kind))); }

namespace detail {

std::vector<std::string> name_path(std::string_view name) {
  auto path = split_at(name, "./");
  const bool plain = path.back() == "weight" || path.back() == "bias" || path.back() == "kernel" ||
                     path.back() == "weight_v" || path.back() == "weight_orig";
  if (plain && path.size() > 1) path.pop_back();
  return path;
}

std::string own_name(std::string_view name) { return name_path(name).back(); }

Kind guess_kind(std::string_view name, std::span<const Index> dimensions) {
  const Words words(own_name(name));
  const auto leaf = split_at(name, "./").back();
  const bool position = names_a_position(words);
  if ((leaf.starts_with("bias") || leaf.ends_with("bias")) && !position) return Kind::Bias;
  if (leaf == "weight_g") return Kind::Gain;  // of weight normalization
  if (position && dimensions.size() != 4) return Kind::Position;
  if (words.any_contains("norm") || words.any_of({"ln", "bn", "gain", "gamma"})) return Kind::Gain;
  if (dimensions.size() == 2) {
    const bool embeds = words.any_of({"wte", "emb", "embd", "embed", "embedding", "embeddings"});
    if (embeds && words.any_of({"patch"})) return Kind::Hidden;
    if (embeds && !words.any_of({"out"})) return Kind::Embedding;
  }
  if (dimensions.size() == 3) {
    if (words.any_contains("conv")) return Kind::Conv;
    if (Words(name).any_contains("expert")) return Kind::Linear;
  }
  return dimensions.size() >= 4 ? Kind::Conv : Kind::Unknown;
}

}  // namespace detail
}  // namespace normball
