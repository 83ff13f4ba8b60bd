// Mapped files, gzip, and files that appear complete or not at all.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "temporary_directory.h"
#include "testing.h"
#include "tests/trainer/data/data_samples.h"
#include "trainer/data/atomic_file.h"
#include "trainer/data/bytes.h"
#include "trainer/data/data_error.h"
#include "trainer/data/gzip.h"

namespace normball::testing {
namespace {

using namespace trainer::data;

TEST(BytesTest, MapsAFileAndSlicesShareIt) {
  const TemporaryDirectory directory;
  write(directory / "a", "hello world");
  Bytes slice;
  {
    const Bytes file = Bytes::map(directory / "a");
    EXPECT_EQ(file.text(), "hello world");
    slice = file.slice(6, 5);
  }
  EXPECT_EQ(slice.text(), "world");  // the mapping outlives the first owner
}

TEST(BytesTest, AnEmptyFileIsEmpty) {
  const TemporaryDirectory directory;
  write(directory / "empty", "");
  EXPECT_TRUE(Bytes::map(directory / "empty").empty());
}

TEST(BytesTest, WhatIsNoRegularFileIsRefusedWithoutHanging) {
  const TemporaryDirectory directory;
  expect_data_error([&] { Bytes::map(directory / "missing"); }, {"missing", "No such file"});
  expect_data_error([&] { Bytes::map(directory.path()); }, {directory.path(), "is a directory"});
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  expect_data_error([&] { Bytes::map(directory / "pipe"); }, {"pipe", "not a regular file"});
}

TEST(BytesTest, SmallFilesHaveALimit) {
  const TemporaryDirectory directory;
  write(directory / "a", std::string(100, 'x'));
  EXPECT_EQ(read_small_file(directory / "a", 100).size(), 100u);
  expect_data_error([&] { read_small_file(directory / "a", 99); }, {"100 bytes", "99"});
}

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

TEST(AtomicFileTest, AppearsOnlyWhenCommitted) {
  const TemporaryDirectory directory;
  {
    AtomicFile file(directory / "a");
    file.append("0123456789");
    const std::uint8_t x[] = {'x', 'y'};
    file.overwrite(3, x);
    EXPECT_FALSE(std::filesystem::exists(directory / "a"));
    file.commit();
  }
  EXPECT_EQ(read(directory / "a"), "012xy56789");
  EXPECT_EQ(directory.entries(), 1u);
  struct stat status {};
  ::stat((directory / "a").c_str(), &status);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(status.st_mode & 0777, 0666 & ~mask);
}

TEST(AtomicFileTest, WithoutCommitTheOldFileStays) {
  const TemporaryDirectory directory;
  write(directory / "a", "old");
  { AtomicFile(directory / "a").append("new"); }
  EXPECT_EQ(read(directory / "a"), "old");
  EXPECT_EQ(directory.entries(), 1u);
}

TEST(AtomicFileTest, AFullDiskLeavesTheOldFileAndNothingElse) {
  const TemporaryDirectory directory;
  write(directory / "a", "old");
  // A limit on the size of files fails as a full disk does: some writes succeed, one is short.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{10'000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  expect_data_error([&] { write_file(directory / "a", std::string(50'000, 'n')); },
                    {directory / "a", "cannot be written", "nothing under that name"});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(read(directory / "a"), "old");
  EXPECT_EQ(directory.entries(), 1u);
}

TEST(AtomicFileTest, ADirectoryThatCannotBeWrittenIsNamed) {
  const TemporaryDirectory directory;
  write(directory / "file", "");
  expect_data_error([&] { write_file(directory / "missing/a", ""); }, {"missing/a", "writable"});
  expect_data_error([&] { write_file(directory / "file/a", ""); }, {"file/a", "writable"});
}

}  // namespace
}  // namespace normball::testing
