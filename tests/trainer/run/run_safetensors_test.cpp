#include <cstring>
#include <nlohmann/json.hpp>

#include "testing.h"
#include "tests/trainer/run_testing.h"
#include "trainer/run/safetensors.h"

namespace normball::trainer::run {
namespace {

using testing::expect_error;
using testing::expect_invalid;
using testing::ScratchDirectory;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

struct Example {
  std::vector<float> weight = {1, -2, 3.5f, 4, 5, 6};
  std::vector<double> momentum = {0.25};
  std::vector<std::int64_t> count = {-7, 1ll << 60};
  std::string flags = std::string("\1\0\1", 3);

  std::vector<TensorView> tensors() const {
    return {{"flags", Dtype::BOOL, {3}, bytes_of(flags)},
            {"weight", Dtype::F32, {2, 3}, std::as_bytes(std::span(weight))},
            {"empty", Dtype::U16, {0, 5}, {}},
            {"momentum", Dtype::F64, {}, std::as_bytes(std::span(momentum))},
            {"größe \"1\"", Dtype::I64, {2}, std::as_bytes(std::span(count))}};
  }
};

std::string written(std::span<const TensorView> tensors, const Metadata& metadata = {}) {
  ScratchDirectory scratch;
  files::OutputFile out(files::FileSystem::real(), scratch / "file");
  write_safetensors(out, tensors, metadata);
  out.finish();
  return testing::read(scratch / "file");
}

// A file around a header as it is given, for headers the writer would not write.
std::string with_header(const std::string& header, size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data_bytes, 'd');
}

void expect_refused(const std::string& file, const std::string& part) {
  expect_error<std::runtime_error>([&] { parse_safetensors(bytes_of(file), "x.safetensors"); },
                                   {"[safetensors] x.safetensors: ", part});
}

TEST(Safetensors, RoundTripKeepsEveryByte) {
  const Example example;
  const auto file = written(example.tensors(), {{"step", "12"}});
  const auto read = parse_safetensors(bytes_of(file), "x");
  EXPECT_EQ(read.metadata, (Metadata{{"step", "12"}}));
  ASSERT_EQ(read.tensors.size(), 5u);
  for (const auto& tensor : example.tensors()) {
    const auto found = std::ranges::find(read.tensors, tensor.name, &TensorView::name);
    ASSERT_NE(found, read.tensors.end()) << tensor.name;
    EXPECT_EQ(found->dtype, tensor.dtype);
    EXPECT_EQ(found->shape, tensor.shape);
    EXPECT_TRUE(std::ranges::equal(found->data, tensor.data));
    if (!found->data.empty()) {  // aligned for its type, where the file is
      EXPECT_EQ((found->data.data() - bytes_of(file).data()) %
                    static_cast<std::ptrdiff_t>(dtype_bytes(found->dtype)),
                0);
    }
  }
}

// The layout as the format's description has it, taken apart by hand.
TEST(Safetensors, LayoutIsTheDocumentedOne) {
  const std::vector<float> values = {1, 2};
  const std::vector<TensorView> tensors = {
      {"a", Dtype::F32, {2, 1}, std::as_bytes(std::span(values))}};
  const auto file = written(tensors, {{"k", "v"}});
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  EXPECT_EQ((8 + length) % 8, 0u);
  const auto header = nlohmann::json::parse(file.substr(8, length));
  EXPECT_EQ(header, nlohmann::json::parse(R"({"__metadata__": {"k": "v"},
      "a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}})"));
  EXPECT_EQ(file.substr(8 + length), std::string("\0\0\x80\x3f\0\0\0\x40", 8));
}

TEST(Safetensors, EveryDtypeHasItsSize) {
  const std::map<std::string, size_t> expected = {{"F64", 8},  {"F32", 4}, {"F16", 2},
                                                  {"BF16", 2}, {"I64", 8}, {"I32", 4},
                                                  {"U8", 1},   {"U16", 2}, {"BOOL", 1}};
  for (const auto dtype : {Dtype::F64, Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::I64, Dtype::I32,
                           Dtype::U8, Dtype::U16, Dtype::BOOL}) {
    EXPECT_EQ(dtype_bytes(dtype), expected.at(std::string(dtype_name(dtype))));
    const std::string data(dtype_bytes(dtype) * 3, 'x');
    const std::vector<TensorView> tensors = {{"t", dtype, {3}, bytes_of(data)}};
    const auto file = written(tensors);
    EXPECT_EQ(parse_safetensors(bytes_of(file), "x").tensors[0].dtype, dtype);
  }
}

TEST(Safetensors, WriterRefusesBadTensorsAndWritesNothing) {
  ScratchDirectory scratch;
  const std::string four = "1234";
  const auto refused = [&](std::vector<TensorView> tensors, const std::string& part) {
    files::OutputFile out(files::FileSystem::real(), scratch / "file");
    expect_invalid([&] { write_safetensors(out, tensors); }, {"[write_safetensors]", part});
    EXPECT_EQ(out.bytes(), 0u);
  };
  refused({{"a", Dtype::F32, {2}, bytes_of(four)}}, "F32 [2] but has 4 bytes");
  refused({{"a", Dtype::F32, {-1}, bytes_of(four)}}, "F32 [-1]");
  refused({{"a", Dtype::F32, {1ll << 62, 1ll << 62, 0}, {}}}, "but has 0 bytes");
  refused({{"a", Dtype::F32, {1}, bytes_of(four)}, {"a", Dtype::U8, {4}, bytes_of(four)}},
          "two tensors are named 'a'");
  refused({{"", Dtype::F32, {1}, bytes_of(four)}}, "another name");
  refused({{"__metadata__", Dtype::F32, {1}, bytes_of(four)}}, "another name");
  refused({{"\xff", Dtype::F32, {1}, bytes_of(four)}}, "not UTF-8");
}

TEST(Safetensors, ReaderRefusesWhatDoesNotFit) {
  const auto tensor = [](const std::string& name, const std::string& dtype,
                         const std::string& shape, const std::string& offsets) {
    return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape +
           "],\"data_offsets\":[" + offsets + "]}";
  };
  const auto good = tensor("a", "F32", "2", "0,8");
  EXPECT_EQ(parse_safetensors(bytes_of(with_header("{" + good + "}", 8)), "x").tensors.size(), 1u);
  EXPECT_TRUE(parse_safetensors(bytes_of(with_header("{}  ", 0)), "x").tensors.empty());

  expect_refused("", "0 bytes");
  expect_refused("1234567", "7 bytes");
  expect_refused(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10),
                 "Is it a safetensors file?");
  expect_refused(std::string("\x40\0\0\0\0\0\0\0{}", 10), "truncated");
  expect_refused(with_header("", 0), "begin with '{'");
  expect_refused(with_header(" {}", 0), "begin with '{'");
  expect_refused(with_header("{" + good, 8), "not JSON");
  expect_refused(with_header("{" + good + "}x", 8), "not JSON");
  expect_refused(with_header("{" + good + "," + good + "}", 8), "'a' appears twice");
  expect_refused(with_header("{" + good + "}", 9), "end at byte 8");
  expect_refused(with_header("{" + good + "}", 7), "0 to 8");
  expect_refused(with_header("{" + tensor("a", "F32", "2", "8,0") + "}", 8), "8 to 0");
  expect_refused(with_header("{" + tensor("a", "F32", "3", "0,8") + "}", 8), "but has 8 bytes");
  expect_refused(with_header("{" + tensor("a", "F31", "2", "0,8") + "}", 8), "did you mean 'F32'");
  expect_refused(with_header("{" + tensor("", "F32", "2", "0,8") + "}", 8), "name has 0 bytes");
  expect_refused(with_header("{" + tensor("a", "F32", "2", "0,8,8") + "}", 8), "number where none");
  expect_refused(with_header("{" + tensor("a", "F32", "2", "0") + "}", 8), "two data_offsets");
  expect_refused(with_header("{" + tensor("a", "F32", "-2", "0,8") + "}", 8), "negative");
  expect_refused(with_header("{" + tensor("a", "F32", "2.0", "0,8") + "}", 8), "fraction");
  expect_refused(with_header("{" + tensor("a", "F32", "18446744073709551615", "0,8") + "}", 8),
                 "dimension too large");
  // 2^62 · 4 · 4 wraps around to 0 in 64 bits.
  expect_refused(with_header("{" + tensor("a", "F32", "4611686018427387904,4", "0,0") + "}", 0),
                 "but has 0 bytes");
  expect_refused(with_header("{" + good + "," + tensor("b", "F32", "2", "4,12") + "}", 12),
                 "4 to 12");
  expect_refused(with_header("{" + good + "," + tensor("b", "F32", "1", "12,16") + "}", 16),
                 "12 to 16");
  expect_refused(with_header(R"({"a":{"dtype":"F32","shape":[2]}})", 8), "needs dtype, shape");
  expect_refused(with_header(R"({"a":{"dtype":"F32","dtype":"F32"}})", 8), "appears twice");
  expect_refused(with_header(R"({"a":{"size":3}})", 8), "unknown field 'size'");
  expect_refused(with_header(R"({"a":3})", 8), "number where none");
  expect_refused(with_header(R"({"a":{"shape":[[2]]}})", 8), "list where none");
  expect_refused(with_header(R"({"__metadata__":{"a":1}})", 0), "number where none");
  expect_refused(with_header(R"({"__metadata__":{"a":"1","a":"2"}})", 0), "appears twice");
}

TEST(Safetensors, MissingOrDifferentTensorIsNamed) {
  ScratchDirectory scratch;
  const Example example;
  testing::write(scratch / "m.safetensors", written(example.tensors()));
  const SafetensorsFile file(scratch / "m.safetensors");
  EXPECT_TRUE(file.contains("weight"));
  EXPECT_EQ(file.at("weight").data.size(), 24u);
  expect_error<std::runtime_error>([&] { file.at("wieght"); },
                                   {"m.safetensors", "did you mean 'weight'", "another model"});
  const std::vector<std::int64_t> shape = {3, 3};
  expect_error<std::runtime_error>([&] { file.at("weight", Dtype::F32, shape); },
                                   {"F32 [2, 3] in the file but F32 [3, 3] is needed"});
  expect_error<files::FileError>([&] { SafetensorsFile(scratch / "none"); },
                                 {"none", "check the path"});
}

TEST(Safetensors, TruncationAtEveryOffsetIsRefused) {
  const Example example;
  const auto file = written(example.tensors());
  for (size_t length = 0; length < file.size(); ++length) {
    const std::string cut = file.substr(0, length);
    EXPECT_THROW(parse_safetensors(bytes_of(cut), "x"), std::runtime_error) << length;
  }
}

}  // namespace
}  // namespace normball::trainer::run
