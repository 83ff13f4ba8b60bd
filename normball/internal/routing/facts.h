// What the parameters of a model are, before a norm is chosen. Internal.
#pragma once

#include "normball/routing.h"

namespace normball::detail {

// Kind by name and dimensions, e.g. "transformer.wte.weight" -> Embedding.
Kind guess_kind(std::string_view name, std::span<const Index> dimensions);
// The part of the name that says so: "wte".
std::string own_name(std::string_view name);
// The name's parts up to its own: transformer, wte.
std::vector<std::string> name_path(std::string_view name);

struct Facts {
  Kind kind = Kind::Unknown;
  std::string named = {};  // the part of the name that told the kind
  bool image_input = false;
  bool guessed = false;  // a head or a tied embedding, only because the model has no other head
  std::optional<size_t> same_as = {};  // an earlier parameter on the same memory
};
std::vector<Facts> find_facts(std::span<const ParameterInfo> parameters);

struct Head {
  size_t parameter;
  std::string named;  // the part of its name that says so; empty: a guess from order and widths
};
// The output heads among the matrices of Kind Linear and Unknown.
std::vector<Head> find_heads(std::span<const ParameterInfo> parameters,
                             std::span<const Kind> kinds);

}  // namespace normball::detail
