// GPT-2's splitting of words and byte-pair encoding, on a small vocabulary made by hand.
// bpe_reference_test compares with other implementations on the real one.
#include <map>
#include <numeric>

#include "temporary_directory.h"
#include "testing.h"
#include "tests/trainer/data/data_samples.h"
#include "trainer/data/data_error.h"
#include "trainer/data/split_words.h"
#include "trainer/data/tokenizer.h"

namespace normball::testing {
namespace {

using namespace trainer::data;

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> list;
  while (!text.empty()) {
    const size_t size = first_word(text);
    list.emplace_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return list;
}

using List = std::vector<std::string>;

TEST(SplitWordsTest, FollowsThePattern) {
  EXPECT_EQ(words("Hello world"), (List{"Hello", " world"}));
  EXPECT_EQ(words("don't we'll I'd 'sup"),
            (List{"don", "'t", " we", "'ll", " I", "'d", " '", "sup"}));
  EXPECT_EQ(words("'re've'm's'Re'l"), (List{"'re", "'ve", "'m", "'s", "'", "Re", "'", "l"}));
  EXPECT_EQ(words("x=12.5!!"), (List{"x", "=", "12", ".", "5", "!!"}));
  EXPECT_EQ(words("a  b   \n c\n"), (List{"a", " ", " b", "   \n", " c", "\n"}));
  EXPECT_EQ(words("a\nb\t\tc"), (List{"a", "\n", "b", "\t", "\t", "c"}));
  EXPECT_EQ(words("   "), (List{"   "}));
  EXPECT_EQ(words("é中文٣Ⅷ²!"), (List{"é中文", "٣Ⅷ²", "!"}));
  EXPECT_EQ(words("e\u0301x"), (List{"e", "\u0301", "x"}));  // a combining mark is no letter
  EXPECT_EQ(words("\u00a0\u00a0a\u3000b"), (List{"\u00a0", "\u00a0", "a", "\u3000", "b"}));
}

TEST(SplitWordsTest, WhiteSpaceIsUnicodes) {
  EXPECT_EQ(character_class(0x85), CharacterClass::Space);
  EXPECT_EQ(character_class(0xfeff), CharacterClass::Other);
  EXPECT_EQ(character_class(0x200b), CharacterClass::Other);
  EXPECT_EQ(character_class(0x1c), CharacterClass::Other);
  EXPECT_EQ(character_class(0x2028), CharacterClass::Space);
}

TEST(SplitWordsTest, InvalidBytesSplitLikeTheirReplacement) {
  Random random(3);
  const std::string_view parts[] = {
      "a", " ", "1", "\xff", "\xc3", "é", "\xe4\xb8", "\xed\xa0\x80", "!", "'s", "\xc0\x80", "\n"};
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 8; ++i) text += parts[random.below(std::size(parts))];
    // Every byte outside valid UTF-8 replaced by U+FFFD, by another decoder.
    std::string replaced;
    std::vector<size_t> place{0};  // in `text`, for every place in `replaced`
    for (size_t i = 0; i < text.size();) {
      const auto byte = static_cast<unsigned char>(text[i]);
      const bool two = byte == 0xc3 && i + 1 < text.size() && text[i + 1] == '\xa9';
      const size_t used = two ? 2 : 1;
      replaced += two ? "é" : byte < 128 ? std::string(1, text[i]) : "\ufffd";
      i += used;
      place.resize(replaced.size() + 1, i);
    }
    std::vector<size_t> expected, got;
    size_t end = 0;
    for (const auto& word : words(replaced)) expected.push_back(place[end += word.size()]);
    end = 0;
    for (const auto& word : words(text)) got.push_back(end += word.size());
    EXPECT_EQ(got, expected) << ::testing::PrintToString(text);
  }
}

TEST(SplitWordsTest, TextCutAtASafePlaceGivesTheSameWords) {
  Random random(4);
  const std::string_view parts[] = {"a",      " ",      "1", "\xff", "é",
                                    "\u3000", "\u00a0", "!", "'s",   "\n"};
  int cuts = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 10; ++i) text += parts[random.below(std::size(parts))];
    for (size_t at = 1; at < text.size(); ++at) {
      if (!is_safe_cut(text, at)) continue;
      ++cuts;
      List joined = words(text.substr(0, at));
      for (const auto& word : words(text.substr(at))) joined.push_back(word);
      EXPECT_EQ(joined, words(text)) << ::testing::PrintToString(text) << " at " << at;
    }
  }
  EXPECT_GT(cuts, 1000);
  EXPECT_EQ(next_safe_cut("ab cd", 1), 2u);
  EXPECT_EQ(next_safe_cut("中 x", 1), 3u);
  EXPECT_EQ(next_safe_cut("abc", 1), 3u);
}

Tokenizer toy() {
  return Tokenizer(std::make_shared<const Bpe>(Bpe::parse(toy_vocabulary(), "", "toy")));
}

TEST(BpeTest, MergesInOrderOfRank) {
  const Tokenizer tokenizer = toy();
  EXPECT_EQ(tokenizer.vocabulary(), 256 + 6 + 1);
  EXPECT_EQ(*tokenizer.end_of_text(), 262);
  const auto letter = [](char c) { return static_cast<Token>(c - '!'); };  // '!' is symbol 0
  EXPECT_EQ(tokenizer.encode("hello"), (std::vector<Token>{260}));
  EXPECT_EQ(tokenizer.encode("hell"), (std::vector<Token>{259}));
  EXPECT_EQ(tokenizer.encode("the the"), (std::vector<Token>{letter('t'), 256, 261}));
  EXPECT_EQ(tokenizer.encode("llllo"), (std::vector<Token>{257, 257, letter('o')}));
  EXPECT_EQ(tokenizer.encode("lll"), (std::vector<Token>{257, letter('l')}));
  EXPECT_TRUE(tokenizer.encode("").empty());
  EXPECT_EQ(tokenizer.decode(std::vector<Token>{260, 262}), "hello<|endoftext|>");
  expect_invalid([&] { tokenizer.decode(std::vector<Token>{263}); }, {"263", "vocabulary of 263"});
}

// The textbook algorithm on strings: find the pair of the lowest rank, join all its occurrences.
std::vector<std::string> textbook(const std::string& word, const std::map<List, int>& ranks) {
  List parts;
  for (const char c : word) parts.emplace_back(1, c);
  for (;;) {
    std::pair<int, List> best{1 << 30, {}};
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ranks.find({parts[i], parts[i + 1]});
      if (found != ranks.end()) best = std::min(best, std::pair(found->second, found->first));
    }
    if (best.second.empty()) return parts;
    List joined;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i + 1 < parts.size() && parts[i] == best.second[0] && parts[i + 1] == best.second[1]) {
        joined.push_back(parts[i] + parts[i + 1]);
        ++i;
      } else {
        joined.push_back(parts[i]);
      }
    }
    parts = joined;
  }
}

TEST(BpeTest, ShortAndLongWordsFollowTheTextbook) {
  Random random(7);
  for (int vocabulary = 0; vocabulary < 20; ++vocabulary) {
    std::map<List, int> ranks;
    List known{"a", "b", "c"};
    std::string file;
    while (ranks.size() < 40) {
      const std::string left = known[random.below(known.size())];
      const std::string right = known[random.below(known.size())];
      if (std::ranges::find(known, left + right) != known.end()) continue;
      ranks.emplace(List{left, right}, static_cast<int>(ranks.size()));
      known.push_back(left + right);
      file += left + " " + right + "\n";
    }
    const Tokenizer tokenizer(std::make_shared<const Bpe>(Bpe::parse(file, "", "random")));
    for (int round = 0; round < 60; ++round) {
      std::string word;
      const auto length = 1 + random.below(120);
      for (std::uint64_t i = 0; i < length; ++i) word += static_cast<char>('a' + random.below(3));
      List got;
      for (const Token token : tokenizer.encode(word)) got.push_back(tokenizer.decode({&token, 1}));
      EXPECT_EQ(got, textbook(word, ranks)) << word;
    }
  }
}

TEST(BpeTest, AnyBytesComeBackExactly) {
  Random random(11);
  const Tokenizer tokenizer = toy();
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    const auto length = random.below(80);
    for (std::uint64_t i = 0; i < length; ++i) {
      text += random.below(3) == 0 ? static_cast<char>(random.below(256))
                                   : "hello the"[random.below(9)];
    }
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << ::testing::PrintToString(text);
    EXPECT_EQ(Tokenizer::bytes().decode(Tokenizer::bytes().encode(text)), text);
  }
}

TEST(BpeTest, ThreadsAndTheCacheChangeNothing) {
  Random random(13);
  std::string text;
  while (text.size() < 3'000'000) {
    const auto length = 1 + random.below(10);
    for (std::uint64_t i = 0; i < length; ++i) text += "helothex"[random.below(8)];
    text += random.below(4) == 0 ? "\n" : " ";
  }
  const Tokenizer tokenizer = toy();
  const auto expected = tokenizer.encode(text);
  EXPECT_EQ(tokenizer.decode(expected), text);
  for (const int threads : {2, 3, 8}) EXPECT_EQ(tokenizer.encode(text, threads), expected);
}

std::string printable(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    const char32_t p = printable_of_byte(static_cast<std::uint8_t>(c));
    if (p < 128) {
      text += static_cast<char>(p);
    } else {
      text += static_cast<char>(0xc0 | p >> 6);
      text += static_cast<char>(0x80 | (p & 63));
    }
  }
  return text;
}

// encoder.json with number(s) for symbol s.
template <class Number>
std::string encoder_json(const Number& number) {
  const Bpe bpe = Bpe::parse(toy_vocabulary(), "", "toy");
  std::string json = "{";
  for (int s = 0; s < bpe.vocabulary(); ++s) {
    const std::string text(bpe.text(s));
    std::string escaped;
    for (const char c : text == Bpe::end_of_text ? text : printable(text)) {
      if (c == '"' || c == '\\') escaped += '\\';
      escaped += c;
    }
    json += (s > 0 ? ", \"" : "\"") + escaped + "\": " + std::to_string(number(s));
  }
  return json + "}";
}

TEST(BpeTest, EncoderJsonGivesTheNumbers) {
  const auto reversed = [](int s) { return 262 - s; };
  const Bpe bpe = Bpe::parse(toy_vocabulary(), encoder_json(reversed), "toy");
  EXPECT_EQ(bpe.end_of_text_token(), 0);
  std::vector<Token> tokens;
  Bpe::Encoder(bpe).encode("hello", tokens);
  EXPECT_EQ(tokens, (std::vector<Token>{262 - 260}));
  EXPECT_EQ(bpe.decode(tokens), "hello");
}

TEST(BpeTest, WrongFilesAreNamed) {
  const auto parse = [](std::string_view merges, std::string_view numbers = "") {
    return [=] { Bpe::parse(merges, numbers, "toy"); };
  };
  expect_data_error(parse(""), {"toy/vocab.bpe", "no merges"});
  expect_data_error(parse("#version: 0.2\n"), {"no merges"});
  expect_data_error(parse("a\n"), {"line 1", "two symbols"});
  expect_data_error(parse("a b c\n"), {"line 1", "two symbols"});
  expect_data_error(parse("a b\nab cd\n"), {"line 2", "no earlier line"});
  expect_data_error(parse("a b\na b\n"), {"line 2", "earlier line makes"});
  expect_data_error(parse("a 中\n"), {"line 1", "represents no byte"});
  expect_data_error(parse("a \xff\n"), {"line 1", "represents no byte"});

  const std::string toy = toy_vocabulary();
  for (const char* json :
       {"[]", "1", "{\"a\": -1}", "{\"a\": 1.5}", "{\"a\": {}}", "{\"a\": \"b\"}", "{\"a\": null}",
        "{\"a\": true}", "{", "{\"a\": 1}x", "nonsense"}) {
    SCOPED_TRACE(json);
    expect_data_error(parse(toy, json), {"toy/encoder.json", "remove it"});
  }
  expect_data_error(parse(toy, "{\"a\": 1}"), {"has 1 tokens", "makes 263"});
  const auto twice = encoder_json([](int s) { return s == 5 ? 6 : s; });
  expect_data_error(parse(toy, twice), {"number 6 twice"});
  const auto beyond = encoder_json([](int s) { return s == 5 ? 263 : s; });
  expect_data_error(parse(toy, beyond), {"263, beyond the 263"});
  expect_data_error(parse(toy, std::string(1'000'000, '[')), {"an array"});
}

TEST(BpeTest, TruncatedFilesAreReadOrRefused) {
  const std::string merges = toy_vocabulary();
  const std::string numbers = encoder_json([](int s) { return s; });
  for (size_t size = 0; size < merges.size(); ++size) {
    try {
      EXPECT_LE(Bpe::parse(merges.substr(0, size), "", "toy").vocabulary(), 263);
    } catch (const DataError&) {
    }
  }
  for (size_t size = 1; size < numbers.size(); ++size) {
    EXPECT_THROW(Bpe::parse(merges, numbers.substr(0, size), "toy"), DataError) << size;
  }
  EXPECT_EQ(Bpe::parse(merges, numbers, "toy").vocabulary(), 263);
}

TEST(BpeTest, LoadsADirectory) {
  const TemporaryDirectory directory;
  expect_data_error([&] { Bpe::load(directory.path()); }, {"no vocab.bpe", "fetch-gpt2-bpe"});
  write(directory / "vocab.bpe", toy_vocabulary());
  EXPECT_EQ(Bpe::load(directory.path()).vocabulary(), 263);
  write(directory / "encoder.json", "");
  expect_data_error([&] { Bpe::load(directory.path()); }, {"encoder.json", "empty"});
  write(directory / "encoder.json", encoder_json([](int s) { return 262 - s; }));
  EXPECT_EQ(Bpe::load(directory.path()).end_of_text_token(), 0);
}

}  // namespace
}  // namespace normball::testing
