// Text files taken one after another, and cut into a part to train on and one to validate with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/bytes.h"
#include "trainer/data/tokenizer.h"

namespace normball::trainer::data {

struct TextPart {
  Bytes text;        // mapped
  bool starts_file;  // a document starts here
};

struct TextSplit {
  std::vector<TextPart> train;
  std::vector<TextPart> validation;
};

// The last `validation_share` of the bytes validates. Bytes are cut where nanoGPT cuts, after
// int(size * (1 - share)); text for byte-pair encoding at the next boundary of words.
TextSplit split_text(const std::vector<std::string>& paths, const Tokenizer& tokenizer,
                     double validation_share);

}  // namespace normball::trainer::data
