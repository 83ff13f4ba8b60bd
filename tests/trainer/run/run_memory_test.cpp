// However hostile a file is, reading it takes no more memory than its size and 64 MiB.
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "tests/trainer/run_testing.h"
#include "trainer/config/config.h"
#include "trainer/run/checkpoint_state.h"
#include "trainer/run/metrics.h"
#include "trainer/run/safetensors.h"

namespace {

size_t live = 0, peak = 0;

}  // namespace

// Not inlined: the compiler would take malloc and delete for a mismatched pair.
[[gnu::noinline]] void* operator new(size_t bytes) {
  void* p = std::malloc(bytes);
  if (p == nullptr) throw std::bad_alloc();
  live += ::malloc_usable_size(p);
  peak = std::max(peak, live);
  return p;
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  live -= ::malloc_usable_size(p);
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { operator delete(p); }

namespace normball::trainer::run {
namespace {

constexpr size_t allowance = 64 << 20;

std::string repeated(const std::string& piece, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += piece;
  return text;
}

template <class Read>
void expect_bounded(const char* what, size_t file_bytes, const Read& read) {
  const size_t before = live;
  peak = live;
  std::string outcome = "read";
  try {
    read();
  } catch (const std::exception& error) {
    outcome = error.what();
  }
  EXPECT_LE(peak - before, file_bytes + allowance) << what << ": " << outcome.substr(0, 200);
  std::printf("%-28s %9zu bytes, %10zu allocated at most\n", what, file_bytes, peak - before);
}

void safetensors(const char* what, std::string header, size_t length) {
  std::string file(8, '\0');
  std::copy_n(reinterpret_cast<const char*>(&length), 8, file.begin());
  file += header;
  header = {};
  expect_bounded(what, file.size(),
                 [&] { parse_safetensors(std::as_bytes(std::span(file)), "x"); });
}

TEST(Memory, SafetensorsHeaders) {
  constexpr size_t most = 4 << 20;
  std::string tensors = "{";
  for (int i = 0; tensors.size() < most - 100; ++i) {
    tensors += '"' + std::to_string(i) + R"(":{"dtype":"U8","shape":[],"data_offsets":[0,0]},)";
  }
  safetensors("many tensors", tensors, tensors.size());
  std::string metadata = R"({"__metadata__":{)";
  for (int i = 0; metadata.size() < most - 100; ++i)
    metadata += '"' + std::to_string(i) + R"(":"",)";
  safetensors("much metadata", metadata, metadata.size());
  const auto nested = "{\"a\":" + repeated("[", most - 10);
  safetensors("deep nesting", nested, nested.size());
  const auto shape = R"({"a":{"dtype":"U8","shape":[)" + repeated("1,", most - 100);
  safetensors("long shape", shape, shape.size());
  const auto name = "{\"" + repeated("a", most - 10);
  safetensors("long name", name, name.size());
  safetensors("header longer than the file", "{}", 1ull << 62);
}

TEST(Memory, CheckpointState) {
  constexpr size_t most = (256 << 10) - 100;
  for (const char* piece : {"[", "0,", "{\"a\":", "[],", "\"a\","}) {
    const auto text = with_checksum("\",\"a\":[" + repeated(piece, most));
    expect_bounded("state.json", text.size(), [&] { parse_state(text, "x"); });
    const auto closed = with_checksum("\",\"a\":[" + repeated(piece, most) + "0]}");
    expect_bounded("state.json, closed", closed.size(), [&] { parse_state(closed, "x"); });
  }
}

TEST(Memory, Toml) {
  constexpr size_t most = (1 << 20) - 100;
  for (const char* piece : {"[", "0,", "{a=", "[],", "{},", "a.", "\n[[a]]", "\n#"}) {
    const auto text = "[model]\nhidden = [" + repeated(piece, most) + "]\n";
    expect_bounded("config.toml", text.size(), [&] {
      config::Config config;
      config::apply_toml(config, text, "x");
    });
  }
  std::string keys;
  for (int i = 0; keys.size() < most; ++i) keys += std::to_string(i) + "=0\n";
  expect_bounded("config.toml, many keys", keys.size(), [&] {
    config::Config config;
    config::apply_toml(config, keys, "x");
  });
}

TEST(Memory, FilesOfTheWrongKindAreRefusedBySize) {
  testing::ScratchDirectory scratch;
  std::filesystem::path path = scratch / "huge";
  testing::write(path, "x");
  std::filesystem::resize_file(path, 1ull << 40);  // sparse
  for (const auto& read : std::initializer_list<void (*)(const std::filesystem::path&)>{
           [](const auto& p) { files::read_small_file(p, 1 << 20); },
           [](const auto& p) { read_metrics(p); },
           [](const auto& p) { SafetensorsFile file(p); }}) {
    expect_bounded("a file of a terabyte", 0,
                   [&] { EXPECT_THROW(read(path), std::runtime_error); });
  }
}

}  // namespace
}  // namespace normball::trainer::run
