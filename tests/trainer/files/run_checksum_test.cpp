#include "normball/random.h"
#include "tests/trainer/run_testing.h"
#include "trainer/files/checksum.h"

namespace normball::trainer::files {
namespace {

// One bit at a time, straight from the polynomial.
std::uint32_t bitwise(std::string_view text) {
  std::uint32_t r = 0xffffffffu;
  for (const char c : text) {
    r ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) r = (r & 1) != 0 ? (r >> 1) ^ 0x82f63b78u : r >> 1;
  }
  return ~r;
}

TEST(Checksum, KnownValues) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);  // the check value of CRC-32C
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
}

TEST(Checksum, EveryFormAgreesWithTheBitwiseOneAtAnyLengthAndOffset) {
  Random random(1);
  std::string text(300, '\0');
  for (char& c : text) c = static_cast<char>(random.below(256));
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t length = 0; begin + length <= text.size(); length += 7) {
      const auto part = std::string_view(text).substr(begin, length);
      EXPECT_EQ(crc32c(part), bitwise(part));
      EXPECT_EQ(crc32c_table(std::as_bytes(std::span(part)), 0), bitwise(part));
      EXPECT_EQ(crc32c(part.substr(length / 3), crc32c(part.substr(0, length / 3))), bitwise(part));
    }
  }
}

TEST(Checksum, TextHasEightDigits) {
  EXPECT_EQ(checksum_text(0), "00000000");
  EXPECT_EQ(checksum_text(0xe3069283u), "e3069283");
}

TEST(Checksum, OfAFileLargerThanAPiece) {
  testing::ScratchDirectory scratch;
  std::string text((1 << 20) + 12345, 'x');
  text[1 << 20] = 'y';
  testing::write(scratch / "file", text);
  const auto sum = file_checksum(scratch / "file");
  EXPECT_EQ(sum.bytes, text.size());
  EXPECT_EQ(sum.crc, bitwise(text));
}

}  // namespace
}  // namespace normball::trainer::files
