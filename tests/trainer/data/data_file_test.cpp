// Compressed files.
#include "testing.h"
#include "tests/trainer/data/data_samples.h"
#include "trainer/data/data_error.h"
#include "trainer/data/gzip.h"

namespace normball::testing {
namespace {

using namespace trainer::data;

ByteVector unpack(const ByteVector& packed, size_t most) {
  GzipReader reader(bytes_of(packed), "test.gz");
  ByteVector out(most);
  out.resize(reader.read(out));
  return out;
}

TEST(GzipTest, GivesBackWhatWasPacked) {
  const ByteVector plain = counting(100'000);
  EXPECT_EQ(unpack(gzip(plain), 200'000), plain);
  EXPECT_EQ(unpack(gzip(plain), 1000), ByteVector(plain.begin(), plain.begin() + 1000));
  EXPECT_TRUE(unpack(gzip({}), 10).empty());
}

TEST(GzipTest, ConcatenatedFilesAreOne) {
  const ByteVector a = counting(1000), b = counting(500, 7);
  ByteVector packed = gzip(a), plain = a;
  for (const auto byte : gzip(b)) packed.push_back(byte);
  plain.insert(plain.end(), b.begin(), b.end());
  EXPECT_EQ(unpack(packed, 5000), plain);
}

TEST(GzipTest, TruncationAtEveryOffsetIsAnError) {
  const ByteVector packed = gzip(counting(3000));
  for (size_t size = 0; size < packed.size(); ++size) {
    SCOPED_TRACE(size);
    EXPECT_THROW(unpack({packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size)}, 5000),
                 DataError);
  }
}

TEST(GzipTest, DamageAndForeignBytesAtTheEndAreErrors) {
  ByteVector packed = gzip(counting(3000));
  ByteVector damaged = packed;
  damaged[damaged.size() - 6] ^= 1;  // the checksum
  expect_data_error([&] { unpack(damaged, 5000); }, {"test.gz", "damaged"});
  packed.push_back('x');
  expect_data_error([&] { unpack(packed, 5000); }, {"test.gz", "1 bytes after the end"});
}

}  // namespace
}  // namespace normball::testing
