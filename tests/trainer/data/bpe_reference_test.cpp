// GPT-2's tokenizer against other implementations. Run by bpe_reference_test.sh:
//   bpe_reference_test VOCABULARY CASES.jsonl LEAST
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/data/split_words.h"
#include "trainer/data/tokenizer.h"

namespace {

using normball::trainer::data::CharacterClass;
using normball::trainer::data::Token;

// Their class of every code point against ours. What differs must be one of the two documented
// characters, or have no class in our version of Unicode (then it is a newer character).
int compare_classes(const std::string& theirs) {
  int newer = 0, wrong = 0;
  for (char32_t c = 0; c < theirs.size(); ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    const char ours = "LNSO"[static_cast<int>(normball::trainer::data::character_class(c))];
    if (ours == theirs[c]) continue;
    const bool documented = (c == 0x85 && ours == 'S') || (c == 0xfeff && ours == 'O');
    if (documented) continue;
    if (ours == 'O' && theirs[c] != 'S') {
      ++newer;
      continue;
    }
    ++wrong;
    std::cerr << "U+" << std::hex << static_cast<unsigned>(c) << std::dec << " is " << ours
              << " here and " << theirs[c] << " there\n";
  }
  std::cout << theirs.size() << " code points: " << wrong << " of another class, " << newer
            << " without one in this version of Unicode\n";
  // Unicode 16 and 17 together added about 10,000 letters and numbers.
  return wrong + (theirs.size() != 0x110000) + (newer > 20000);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto derived = [&] {  // the numbers follow from vocab.bpe alone
    std::ifstream file(std::string(argv[1]) + "/vocab.bpe");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return normball::trainer::data::Tokenizer(std::make_shared<const normball::trainer::data::Bpe>(
        normball::trainer::data::Bpe::parse(text, "", argv[1])));
  }();
  const auto tokenizer = normball::trainer::data::Tokenizer::gpt2(argv[1]);
  std::ifstream cases(argv[2]);
  int count = 0, failures = 0;
  size_t tokens = 0;
  for (std::string line; std::getline(cases, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains("classes")) {
      failures += compare_classes(json["classes"]);
      continue;
    }
    const auto text = json["text"].get<std::string>();
    const auto expected = json["tokens"].get<std::vector<Token>>();
    const auto got = tokenizer.encode(text);
    ++count;
    tokens += got.size();
    if (got == expected && derived.encode(text) == expected && tokenizer.decode(got) == text) {
      continue;
    }
    ++failures;
    std::cerr << "differs: " << json["text"] << "\n  expected " << json["tokens"] << "\n  got "
              << nlohmann::json(got) << '\n';
  }
  std::cout << count << " texts of " << tokens << " tokens, vocabulary " << tokenizer.vocabulary()
            << ": " << failures << " differences\n";
  return failures == 0 && count >= std::stoi(argv[3]) ? 0 : 1;
}
