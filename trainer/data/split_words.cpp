#include "trainer/data/split_words.h"

#include <utf8proc.h>

#include <array>

namespace normball::trainer::data {
namespace {

struct Character {
  CharacterClass kind;
  size_t size;  // in bytes
};

constexpr std::array<CharacterClass, 128> ascii = [] {
  std::array<CharacterClass, 128> table{};
  for (unsigned c = 0; c < 128; ++c) {
    const bool letter = (c | 32) >= 'a' && (c | 32) <= 'z';
    const bool number = c >= '0' && c <= '9';
    const bool space = c == ' ' || (c >= 9 && c <= 13);
    table[c] = letter   ? CharacterClass::Letter
               : number ? CharacterClass::Number
               : space  ? CharacterClass::Space
                        : CharacterClass::Other;
  }
  return table;
}();

Character character_at(std::string_view text, size_t position) {
  const auto byte = static_cast<unsigned char>(text[position]);
  if (byte < 128) return {ascii[byte], 1};
  const std::string_view rest = text.substr(position, 4);
  utf8proc_int32_t code_point = 0;
  const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(rest.data()),
                                     static_cast<utf8proc_ssize_t>(rest.size()), &code_point);
  if (size <= 0) return {CharacterClass::Other, 1};
  return {character_class(static_cast<char32_t>(code_point)), static_cast<size_t>(size)};
}

// 's, 't, 're, 've, 'm, 'll or 'd at the front.
size_t contraction(std::string_view text) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  const char a = text[1];
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (text.size() < 3) return 0;
  const char b = text[2];
  return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

struct Run {
  size_t end;   // where the characters of one class end
  size_t last;  // where the last of them starts
};

Run run_of(CharacterClass kind, std::string_view text, size_t position) {
  Run run{position, position};
  while (run.end < text.size()) {
    const Character next = character_at(text, run.end);
    if (next.kind != kind) break;
    run.last = run.end;
    run.end += next.size;
  }
  return run;
}

// The class of the character that ends at `position`; a stray byte is no space.
CharacterClass class_before(std::string_view text, size_t position) {
  for (size_t size = position < 4 ? position : 4; size > 1; --size) {
    const Character character = character_at(text, position - size);
    if (character.size == size) return character.kind;
  }
  return character_at(text, position - 1).kind;
}

}  // namespace

CharacterClass character_class(char32_t code_point) {
  // White_Space: all separators, and the control characters that Unicode counts among it. U+0085
  // is in it and U+FEFF is not, as in GPT-2's own splitter; JavaScript's \s has it the other way.
  if (code_point < 128) return ascii[code_point];
  if (code_point == 0x85) return CharacterClass::Space;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharacterClass::Letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharacterClass::Number;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharacterClass::Space;
    default:
      return CharacterClass::Other;
  }
}

size_t first_word(std::string_view text) {
  if (const size_t size = contraction(text)) return size;
  const Character first = character_at(text, 0);
  if (first.kind != CharacterClass::Space) return run_of(first.kind, text, first.size).end;
  if (text[0] == ' ' && text.size() > 1) {
    const Character second = character_at(text, 1);
    if (second.kind != CharacterClass::Space) {
      return run_of(second.kind, text, 1 + second.size).end;
    }
  }
  // A run of spaces leaves its last one to the word that follows.
  const Run spaces = run_of(CharacterClass::Space, text, 0);
  return spaces.end < text.size() && spaces.last > 0 ? spaces.last : spaces.end;
}

bool is_safe_cut(std::string_view text, size_t position) {
  if (position == 0 || position >= text.size()) return true;
  const auto after = static_cast<unsigned char>(text[position]);
  return after < 128 && ascii[after] == CharacterClass::Space &&
         class_before(text, position) != CharacterClass::Space;
}

size_t next_safe_cut(std::string_view text, size_t position) {
  while (position < text.size() && !is_safe_cut(text, position)) ++position;
  return position < text.size() ? position : text.size();
}

}  // namespace normball::trainer::data
