// How GPT-2 cuts text into words before byte-pair encoding. The pattern, tried in this order at
// each position:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// A byte that is not part of valid UTF-8 counts as a character that is no letter, number or space
// (as U+FFFD, its usual replacement, would), so words always add up to the text's bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace normball::trainer::data {

// The length in bytes of the first word of a text that is not empty.
size_t first_word(std::string_view text);

// Every word ends at `position` at the latest, whatever is around: a space follows what is none.
// Text may be cut there and its parts encoded on their own.
bool is_safe_cut(std::string_view text, size_t position);

// The first safe cut at or after `position`; the text's size if there is none.
size_t next_safe_cut(std::string_view text, size_t position);

enum class CharacterClass : std::uint8_t { Letter, Number, Space, Other };
CharacterClass character_class(char32_t code_point);

}  // namespace normball::trainer::data
