// Mapped files, and files that appear complete or not at all.
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>

#include "temporary_directory.h"
#include "testing.h"
#include "trainer/files/atomic_file.h"
#include "trainer/files/bytes.h"

namespace normball::testing {
namespace {

using namespace trainer::files;

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
  expect_error<FileError>([&] { Bytes::map(directory / "missing"); },
                          {"missing", "No such file", "check the path"});
  expect_error<FileError>([&] { Bytes::map(directory.path()); },
                          {directory.path(), "is a directory"});
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  expect_error<FileError>([&] { Bytes::map(directory / "pipe"); }, {"pipe", "not a regular file"});
}

TEST(BytesTest, SmallFilesHaveALimit) {
  const TemporaryDirectory directory;
  write(directory / "a", std::string(100, 'x'));
  EXPECT_EQ(read_small_file(directory / "a", 100).size(), 100u);
  expect_error<std::runtime_error>([&] { read_small_file(directory / "a", 99); },
                                   {directory / "a", "larger than the 99 bytes"});
}

TEST(AtomicFileTest, AppearsOnlyWhenCommitted) {
  const TemporaryDirectory directory;
  {
    AtomicFile file(FileSystem::real(), directory / "a");
    file.contents().write("0123456789");
    const std::byte x[] = {std::byte{'x'}, std::byte{'y'}};
    file.contents().overwrite(3, x);
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
  { AtomicFile(FileSystem::real(), directory / "a").contents().write("new"); }
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
  expect_error<FileError>(
      [&] { write_file_atomically(FileSystem::real(), directory / "a", std::string(50'000, 'n')); },
      {directory / "a", "while writing", "File too large"});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(read(directory / "a"), "old");
  EXPECT_EQ(directory.entries(), 1u);
}

TEST(AtomicFileTest, ADirectoryThatCannotBeWrittenIsNamed) {
  const TemporaryDirectory directory;
  write(directory / "file", "");
  expect_error<FileError>(
      [&] { write_file_atomically(FileSystem::real(), directory / "missing/a", ""); },
      {"missing/a", "No such file"});
  expect_error<FileError>(
      [&] { write_file_atomically(FileSystem::real(), directory / "file/a", ""); },
      {"file/a", "Not a directory"});
}

TEST(CheckDirectoryTest, RefusesWhatCannotBeMadeAndLeavesNothing) {
  const TemporaryDirectory directory;
  auto& files = FileSystem::real();
  check_directory(files, directory / "");
  check_directory(files, directory / "a/b/c/");
  EXPECT_EQ(directory.entries(), 0u);
  write(directory / "file", "");
  expect_error<FileError>([&] { check_directory(files, directory / "file"); },
                          {"file", "Not a directory", "choose another one"});
  expect_error<FileError>([&] { check_directory(files, directory / "file/a"); }, {"file"});
  expect_error<FileError>([&] { check_directory(files, "/proc/normball/a"); },
                          {"creating the directory /proc/normball", "No such file"});
  expect_error<FileError>(  // the directories that could be made are removed again
      [&] { check_directory(files, directory / ("new/" + std::string(300, 'n'))); }, {"too long"});
  EXPECT_EQ(directory.entries(), 1u);
}

// Making directories may be allowed where making files is not: each operation is tried.
TEST(CheckDirectoryTest, TriesAFile) {
  struct NoFiles : FileSystem {
    int open(const char*, int, mode_t) override {
      errno = EROFS;
      return -1;
    }
  } files;
  const TemporaryDirectory directory;
  expect_error<FileError>([&] { check_directory(files, directory / "new"); },
                          {"creating a file in", "new", "Read-only"});
  EXPECT_EQ(directory.entries(), 0u);
}

TEST(AtomicFileTest, TwoWritersOfOneFileDoNotMeet) {
  const TemporaryDirectory directory;
  AtomicFile first(FileSystem::real(), directory / "a"),
      second(FileSystem::real(), directory / "a");
  first.contents().write("first");
  second.contents().write("second");
  first.commit();
  EXPECT_EQ(read(directory / "a"), "first");
  second.commit();
  EXPECT_EQ(read(directory / "a"), "second");
  EXPECT_EQ(directory.entries(), 1u);
}

}  // namespace
}  // namespace normball::testing
