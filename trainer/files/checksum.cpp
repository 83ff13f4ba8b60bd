#include "trainer/files/checksum.h"

#include <array>
#include <bit>
#include <cstring>

#include "trainer/files/file_system.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace normball::trainer::files {
namespace {

// table[k][b]: the remainder of byte b followed by k zero bytes, so that eight bytes take eight
// lookups that do not wait for each other.
constexpr auto table = [] {
  std::array<std::array<std::uint32_t, 256>, 8> t{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t r = b;
    for (int bit = 0; bit < 8; ++bit) r = (r >> 1) ^ ((r & 1) != 0 ? 0x82f63b78u : 0u);
    t[0][b] = r;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t b = 0; b < 256; ++b) t[k][b] = (t[k - 1][b] >> 8) ^ t[0][t[k - 1][b] & 0xff];
  }
  return t;
}();

std::uint64_t load(const std::byte* at) {
  static_assert(std::endian::native == std::endian::little, "files are read as they are in memory");
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t crc32c_sse42(std::span<const std::byte> data,
                                                             std::uint32_t crc) {
  std::uint64_t r = ~crc;
  size_t at = 0;
  for (; at + 8 <= data.size(); at += 8) r = _mm_crc32_u64(r, load(data.data() + at));
  auto small = static_cast<std::uint32_t>(r);
  for (; at < data.size(); ++at) {
    small = _mm_crc32_u8(small, static_cast<unsigned char>(data[at]));
  }
  return ~small;
}
#endif

}  // namespace

std::uint32_t crc32c_table(std::span<const std::byte> data, std::uint32_t crc) {
  std::uint32_t r = ~crc;
  size_t at = 0;
  for (; at + 8 <= data.size(); at += 8) {
    const std::uint64_t x = load(data.data() + at) ^ r;
    r = 0;
    for (size_t k = 0; k < 8; ++k) r ^= table[7 - k][(x >> (8 * k)) & 0xff];
  }
  for (; at < data.size(); ++at) {
    r = (r >> 8) ^ table[0][(r ^ static_cast<std::uint32_t>(data[at])) & 0xff];
  }
  return ~r;
}

std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t crc) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return crc32c_sse42(data, crc);
#endif
  return crc32c_table(data, crc);
}

std::uint32_t crc32c(std::string_view text, std::uint32_t crc) {
  return crc32c(std::as_bytes(std::span(text)), crc);
}

std::string checksum_text(std::uint32_t crc) {
  std::string text(8, '0');
  for (size_t i = 0; i < 8; ++i) text[i] = "0123456789abcdef"[(crc >> (28 - 4 * i)) & 0xf];
  return text;
}

FileChecksum file_checksum(const std::filesystem::path& path) {
  FileChecksum sum;
  read_in_pieces(path, [&](std::span<const std::byte> piece) {
    sum.bytes += piece.size();
    sum.crc = crc32c(piece, sum.crc);
  });
  return sum;
}

}  // namespace normball::trainer::files
