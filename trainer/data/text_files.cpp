#include "trainer/data/text_files.h"

#include <algorithm>

#include "trainer/data/data_error.h"
#include "trainer/data/split_words.h"

namespace normball::trainer::data {
namespace {

// Where to cut one file, near `position`. A single word of any length has no better place than
// that.
size_t place_to_cut(const files::Bytes& text, size_t position, const Tokenizer& tokenizer) {
  if (tokenizer.is_bytes()) return position;
  const size_t safe = next_safe_cut(text.text(), position);
  return safe < text.size() ? safe : position;
}

}  // namespace

TextSplit split_text(const std::vector<std::string>& paths, const Tokenizer& tokenizer,
                     double validation_share) {
  if (!(validation_share >= 0 && validation_share < 1)) {
    throw_invalid("split_text", "the share for validation must be at least 0 and below 1, got ",
                  validation_share);
  }
  if (paths.empty()) throw_invalid("split_text", "no text file was named");
  std::vector<files::Bytes> texts;
  size_t size = 0;
  for (const auto& path : paths) {
    texts.push_back(files::Bytes::map(path));
    if (texts.back().empty()) fail("split_text", path, ": is empty; name a file with text");
    size += texts.back().size();
  }
  const auto wanted = static_cast<size_t>(static_cast<double>(size) * (1 - validation_share));
  TextSplit split;
  size_t first = 0;
  for (const auto& text : texts) {
    size_t cut = std::clamp(wanted, first, first + text.size()) - first;
    first += text.size();
    if (cut > 0 && cut < text.size()) cut = place_to_cut(text, cut, tokenizer);
    if (cut > 0) split.train.push_back({text.slice(0, cut), true});
    if (cut < text.size()) {
      split.validation.push_back({text.slice(cut, text.size() - cut), cut == 0});
    }
  }
  return split;
}

}  // namespace normball::trainer::data
