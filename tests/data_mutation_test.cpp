// Damaged files of every format: a clear error or a valid read, and memory within the file's size
// plus 64 MiB. NORMBALL_MUTATIONS sets how many of each format (docs/data.md).
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>

#include "data_samples.h"
#include "temporary_directory.h"
#include "testing.h"
#include "trainer/data/cursor.h"
#include "trainer/data/data_error.h"
#include "trainer/data/idx.h"
#include "trainer/data/image_set.h"
#include "trainer/data/token_data.h"
#include "trainer/data/token_shard.h"

namespace {
std::atomic<size_t> live{0}, peak{0};
}

#ifndef NORMBALL_SANITIZED  // the sanitizers watch these themselves
void* operator new(size_t size) {
  void* p = std::malloc(size);
  if (p == nullptr) throw std::bad_alloc();
  const size_t now = live += malloc_usable_size(p);
  if (now > peak) peak = now;
  return p;
}
void operator delete(void* p) noexcept {
  live -= malloc_usable_size(p);
  std::free(p);
}
void operator delete(void* p, size_t) noexcept { operator delete(p); }
#endif

namespace normball::testing {
namespace {

using namespace data;

int rounds() {
  const char* text = std::getenv("NORMBALL_MUTATIONS");
  return text != nullptr ? std::atoi(text) : 5000;
}

// One to four of: a changed bit or byte, a telling value, a part cut out, doubled or put in.
ByteVector mutate(ByteVector bytes, const ByteVector& other, Random& random) {
  const auto place = [&](size_t end) { return static_cast<std::ptrdiff_t>(random.below(end + 1)); };
  for (auto edits = 1 + random.below(4); edits > 0; --edits) {
    const auto at = place(bytes.size());
    const auto count = static_cast<std::ptrdiff_t>(random.below(16));
    const bool inside = at < std::ssize(bytes);
    switch (random.below(7)) {
      case 0:
        if (inside)
          bytes[static_cast<size_t>(at)] ^= static_cast<std::uint8_t>(1u << random.below(8));
        break;
      case 1:
        if (inside) bytes[static_cast<size_t>(at)] = static_cast<std::uint8_t>(random.next());
        break;
      case 2: {  // where headers are
        constexpr std::uint8_t telling[] = {0, 1, 0x7f, 0x80, 0xff};
        for (size_t i = random.below(16), n = i + random.below(5); i < n && i < bytes.size(); ++i) {
          bytes[i] = telling[random.below(5)];
        }
        break;
      }
      case 3:
        bytes.erase(bytes.begin() + at, bytes.begin() + std::min(at + count, std::ssize(bytes)));
        break;
      case 4: {
        const ByteVector part(bytes.begin() + at,
                              bytes.begin() + std::min(at + count, std::ssize(bytes)));
        bytes.insert(bytes.begin() + at, part.begin(), part.end());
        break;
      }
      case 5:
        bytes.resize(static_cast<size_t>(at));
        break;
      default: {
        const auto from = place(other.size());
        bytes.insert(bytes.begin() + at, other.begin() + from,
                     other.begin() + std::min(from + count, std::ssize(other)));
      }
    }
  }
  return bytes;
}

template <class Read>
int survive(const char* name, const ByteVector& valid, const ByteVector& other, const Read& read) {
  constexpr std::uint64_t seed = 20240520;
  Random random(seed);
  read(valid);
  int refused = 0;
  const int count = rounds();
  for (int i = 0; i < count; ++i) {
    const ByteVector file = mutate(valid, other, random);
    const size_t before = live;
    peak = before;
    try {
      read(file);
    } catch (const DataError& error) {
      ++refused;
      EXPECT_EQ(error.what()[0], '[') << error.what();
    } catch (const std::invalid_argument& error) {
      ++refused;
      EXPECT_EQ(error.what()[0], '[') << error.what();
    }
    EXPECT_LE(peak - before, file.size() + (size_t{64} << 20)) << name << ", mutation " << i;
  }
  std::cout << name << ": " << count << " mutations, " << refused << " refused (seed " << seed
            << ")\n";
  return refused;
}

// These formats notice most damage; survive() only asks that none does harm.
template <class Read>
void refuse_most(const char* name, const ByteVector& valid, const ByteVector& other,
                 const Read& read) {
  EXPECT_GT(survive(name, valid, other, read), rounds() / 2) << name;
}

ByteVector bytes_in(std::string_view text) { return {text.begin(), text.end()}; }
std::string text_in(const ByteVector& bytes) { return {bytes.begin(), bytes.end()}; }

const ByteVector idx = idx_file({5, 4, 6}, counting(120));

TEST(MutationTest, Idx) {
  refuse_most("IDX", idx, shard_file({1, 2}), [](const ByteVector& file) {
    const IdxArray array = parse_idx(bytes_of(file), "m");
    std::int64_t product = 1;
    for (const auto extent : array.shape) product *= extent;
    EXPECT_EQ(product, static_cast<std::int64_t>(array.data.size()));
  });
}

TEST(MutationTest, CompressedIdx) {
  refuse_most("IDX in gzip", gzip(idx), idx,
              [](const ByteVector& file) { parse_idx(bytes_of(file), "m"); });
}

TEST(MutationTest, Cifar10) {
  refuse_most("CIFAR-10", cifar10_file(1), idx, [](const ByteVector& file) {
    const ImageSet images = parse_cifar10(bytes_of(file), "m");
    EXPECT_EQ(class_histogram(images, 10).size(), 10u);
  });
}

TEST(MutationTest, Shard) {
  refuse_most("token shard", shard_file({1, 2, 3, 4, 5, 6, 7}), idx, [](const ByteVector& file) {
    const Bytes tokens = parse_shard(bytes_of(file), "m");
    check_tokens(tokens, 300, "m");
    TokenData data;
    data.append(tokens, TokenData::Width::Two);
    std::vector<std::int64_t> all(static_cast<size_t>(data.size()));
    data.read(0, all);
  });
}

TEST(MutationTest, Merges) {
  survive(
      "vocab.bpe", bytes_in(toy_vocabulary()), bytes_in("Ġ ll\nhe o\n#x y \xc4"),
      [](const ByteVector& file) {
        const Tokenizer tokenizer(std::make_shared<const Bpe>(Bpe::parse(text_in(file), "", "m")));
        const std::string text = "hello the hell " + text_in(file);
        EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
      });
}

TEST(MutationTest, EncoderJson) {
  const Bpe toy = Bpe::parse("a b\n", "", "toy");
  nlohmann::json json;
  for (int s = 0; s < toy.vocabulary(); ++s) {
    std::string key;
    for (const char c : toy.text(s)) {
      const char32_t p = printable_of_byte(static_cast<std::uint8_t>(c));
      if (p < 128) {
        key += static_cast<char>(p);
      } else {
        key += {static_cast<char>(0xc0 | p >> 6), static_cast<char>(0x80 | (p & 63))};
      }
    }
    json[key] = s;
  }
  refuse_most("encoder.json", bytes_in(json.dump()),
              bytes_in("[[[[{\"a\":[null,1e999,-1,true]}\\u"), [](const ByteVector& file) {
                if (!file.empty()) Bpe::parse("a b\n", text_in(file), "m");
              });
}

TEST(MutationTest, Text) {
  const Tokenizer tokenizer(std::make_shared<const Bpe>(Bpe::parse(toy_vocabulary(), "", "toy")));
  const auto encode = [&](const ByteVector& file) {
    const std::string text = text_in(file);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  };
  const auto valid = bytes_in("hello the 中文 'll don't  \n\u3000\u00a0 1²٣ \U0001f600 e\u0301");
  const auto other = bytes_in("\xff\xc3\xe4\xb8\xed\xa0\x80 \xf4\x90\x80\x80");
  EXPECT_EQ(survive("text", valid, other, encode), 0);
}

TEST(MutationTest, DescriptionAndCursor) {
  refuse_most("dataset.json", bytes_in(to_json(ShardDescription{"bytes", 256, 12345, 678})),
              bytes_in("[{\"a\":-1e999}]"),
              [](const ByteVector& file) { parse_shard_description(text_in(file), "m"); });
  refuse_most("cursor", bytes_in(to_json(DataCursor{1, 2, 3, 4}).dump()),
              bytes_in("[{\"a\":-1e9}]"), [](const ByteVector& file) {
                const auto json = nlohmann::json::parse(text_in(file), nullptr, false);
                const DataCursor cursor = cursor_from_json(json);
                EXPECT_LE(cursor.position, cursor.items);
              });
}

}  // namespace
}  // namespace normball::testing
