#include "trainer/data/token_shard.h"

#include <glob.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <utility>

#include "trainer/data/data_error.h"
#include "trainer/files/checksum.h"

namespace normball::trainer::data {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "shards are little-endian");

constexpr const char* where = "read_shard";
constexpr std::int32_t magic = 20240520, version = 1;
constexpr size_t header_ints = 256, header_bytes = header_ints * sizeof(std::int32_t);

std::int32_t header_int(std::span<const std::uint8_t> file, size_t i) {
  std::int32_t value = 0;
  std::memcpy(&value, file.data() + i * sizeof value, sizeof value);
  return value;
}

// Reading from front to back is many times faster from a cold disk if the kernel knows of it.
class SequentialReading {
 public:
  explicit SequentialReading(std::span<const std::uint8_t> bytes) {
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    begin_ = reinterpret_cast<void*>(address / page * page);
    size_ = bytes.size() + address % page;
    ::madvise(begin_, size_, MADV_SEQUENTIAL);
  }
  ~SequentialReading() { ::madvise(begin_, size_, MADV_NORMAL); }
  SequentialReading(const SequentialReading&) = delete;
  SequentialReading& operator=(const SequentialReading&) = delete;

 private:
  void* begin_;
  size_t size_;
};

struct Glob {
  glob_t result{};
  int status;
  explicit Glob(const std::string& pattern)
      : status(::glob(pattern.c_str(), GLOB_ERR, nullptr, &result)) {}
  Glob(const Glob&) = delete;
  Glob& operator=(const Glob&) = delete;
  ~Glob() { ::globfree(&result); }
};

}  // namespace

bool is_shard(std::span<const std::uint8_t> file) {
  return file.size() >= sizeof magic && header_int(file, 0) == magic;
}

files::Bytes parse_shard(const files::Bytes& file, const std::string& name) {
  if (file.size() < header_bytes) {
    fail(where, name, ": has ", file.size(), " bytes, less than a shard's header of ", header_bytes,
         "; it is truncated or not a token shard");
  }
  if (!is_shard(file.span())) {
    fail(where, name, ": starts with ", header_int(file.span(), 0), ", not with a shard's magic ",
         magic, "; make shards with `normball data prepare`");
  }
  if (header_int(file.span(), 1) != version) {
    fail(where, name, ": is a shard of version ", header_int(file.span(), 1), "; version ", version,
         " (uint16 tokens) is read");
  }
  const std::int64_t count = header_int(file.span(), 2);
  if (count <= 0) fail(where, name, ": its header promises ", count, " tokens; at least 1 needed");
  const auto expected = header_bytes + static_cast<size_t>(count) * sizeof(std::uint16_t);
  if (file.size() != expected) {
    fail(where, name, ": has ", file.size(), " bytes, but its header promises ", count,
         " tokens, which take ", expected, "; make or get the file again");
  }
  return file.slice(header_bytes, expected - header_bytes);
}

files::Bytes read_shard(const std::string& path) {
  return parse_shard(files::Bytes::map(path), path);
}

void check_tokens(const files::Bytes& tokens, int vocabulary, const std::string& name,
                  std::string_view remedy) {
  const std::span values(reinterpret_cast<const std::uint16_t*>(tokens.span().data()),
                         tokens.size() / sizeof(std::uint16_t));
  const SequentialReading reading(tokens.span());
  constexpr size_t block = 1 << 16;
  for (size_t begin = 0; begin < values.size(); begin += block) {
    const auto part = values.subspan(begin, std::min(block, values.size() - begin));
    std::uint16_t largest = 0;
    for (const std::uint16_t token : part) largest = std::max(largest, token);
    if (largest < vocabulary) continue;
    const auto bad = std::ranges::find_if(part, [&](int token) { return token >= vocabulary; });
    fail(where, name, ": token ", begin + static_cast<size_t>(bad - part.begin()), " is ", *bad,
         ", outside the vocabulary of ", vocabulary, "; ", remedy);
  }
}

std::vector<std::string> list_shards(const std::string& path, const std::string& part) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator i(path, error), end; !error && i != end; i.increment(error)) {
    const fs::path& file = i->path();
    if (file.extension() == ".bin" && file.filename().string().find(part) != std::string::npos) {
      files.push_back(file.string());
    }
  }
  if (error) fail("find_shards", path, ": ", error.message());
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> find_shards(const std::string& path, const std::string& part) {
  std::error_code ignored;
  std::vector<std::string> files;
  if (fs::is_directory(path, ignored)) {
    files = list_shards(path, part);
    if (files.empty()) {
      fail("find_shards", path, ": has no ", part.empty() ? "" : "file named *" + part,
           part.empty() ? ".bin file" : "*.bin", "; make shards with `normball data prepare`");
    }
  } else if (path.find_first_of("*?[") != std::string::npos && !fs::exists(path, ignored)) {
    const Glob matches(path);
    for (size_t i = 0; matches.status == 0 && i < matches.result.gl_pathc; ++i) {
      files.emplace_back(matches.result.gl_pathv[i]);
    }
    if (files.empty())
      fail("find_shards", path,
           ": no file matches; check the pattern, or make shards with `normball data prepare` "
           "(docs/data.md)");
  } else {
    files.push_back(path);
  }
  std::ranges::sort(files);
  return files;
}

ShardWriter::ShardWriter(std::string directory, std::string prefix, std::int64_t shard_tokens,
                         files::FileSystem& files)
    : directory_(std::move(directory)),
      prefix_(std::move(prefix)),
      shard_tokens_(shard_tokens),
      files_(files) {
  if (shard_tokens < 1 || shard_tokens > max_shard_tokens) {
    throw_invalid("ShardWriter", "tokens of a shard must be in 1 to ", max_shard_tokens, ", got ",
                  shard_tokens);
  }
}

std::string ShardWriter::name_of_shard() const {
  std::string number = std::to_string(shards());
  number.insert(0, number.size() < 6 ? 6 - number.size() : 0, '0');
  return prefix_ + "_" + number + ".bin";
}

void ShardWriter::append(std::span<const std::uint16_t> tokens) {
  while (!tokens.empty()) {
    if (!file_) {
      if (shards() == max_shards) {
        fail("ShardWriter", "shards of ", shard_tokens_, " tokens would be more than ", max_shards,
             " files; make the shards larger");
      }
      file_ = std::make_unique<files::AtomicFile>(files_, fs::path(directory_) / name_of_shard());
      file_->contents().write(std::array<std::byte, header_bytes>{});
    }
    const auto count = std::min(tokens.size(), static_cast<size_t>(shard_tokens_ - in_shard_));
    file_->contents().write(std::as_bytes(tokens.first(count)));
    crc_ = files::crc32c(std::as_bytes(tokens.first(count)), crc_);
    in_shard_ += static_cast<std::int64_t>(count);
    tokens_ += static_cast<std::int64_t>(count);
    tokens = tokens.subspan(count);
    if (in_shard_ == shard_tokens_) finish_shard();
  }
}

void ShardWriter::finish_shard() {
  const std::array<std::int32_t, 3> header{magic, version, static_cast<std::int32_t>(in_shard_)};
  file_->contents().overwrite(0, std::as_bytes(std::span(header)));
  file_->commit(files::AtomicFile::Name::Unsynced);
  file_.reset();
  checksums_.emplace_back(name_of_shard(), crc_);
  in_shard_ = 0;
  crc_ = 0;
}

void ShardWriter::finish() {
  if (file_) finish_shard();
  if (shards() > 0) files::sync_directory(files_, directory_);
}

}  // namespace normball::trainer::data
