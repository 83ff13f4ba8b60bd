// Reads event files with nothing of the writer: own framing, own bitwise CRC, own protobuf reader.
#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "tests/trainer/run_testing.h"
#include "trainer/run/tensorboard.h"

namespace normball::trainer::run {
namespace {

std::uint32_t bitwise_crc(std::string_view text) {
  // Most significant bit first, with bits and result mirrored: another way than the library's.
  const auto mirrored = [](std::uint32_t x) {
    std::uint32_t r = 0;
    for (int i = 0; i < 32; ++i) r |= ((x >> i) & 1u) << (31 - i);
    return r;
  };
  std::uint32_t r = 0xffffffffu;
  for (const char c : text) {
    for (int bit = 0; bit < 8; ++bit) {
      const std::uint32_t in = (static_cast<unsigned char>(c) >> bit) & 1u;
      const bool carry = ((r >> 31) ^ in) != 0;
      r = (r << 1) ^ (carry ? 0x1edc6f41u : 0u);
    }
  }
  return ~mirrored(r);
}

std::uint32_t masked_crc(std::string_view text) {
  const std::uint32_t crc = bitwise_crc(text);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

template <class T>
T take(std::string_view& data) {
  T value{};
  EXPECT_GE(data.size(), sizeof value);
  std::memcpy(&value, data.data(), std::min(data.size(), sizeof value));
  data.remove_prefix(std::min(data.size(), sizeof value));
  return value;
}

std::vector<std::string> records(const std::string& file) {
  std::vector<std::string> result;
  std::string_view data = file;
  while (!data.empty() && !::testing::Test::HasFailure()) {
    const auto head = data.substr(0, 8);
    const auto length = take<std::uint64_t>(data);
    EXPECT_EQ(take<std::uint32_t>(data), masked_crc(head));
    EXPECT_GE(data.size(), length + 4);
    result.emplace_back(data.substr(0, length));
    data.remove_prefix(length);
    EXPECT_EQ(take<std::uint32_t>(data), masked_crc(result.back()));
  }
  return result;
}

// field number -> raw values, in order.
struct Fields {
  std::map<int, std::vector<std::uint64_t>> numbers;
  std::map<int, std::vector<std::string>> texts;
};

std::uint64_t varint(std::string_view& data) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    const auto byte = take<unsigned char>(data);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) break;
  }
  return value;
}

Fields fields(std::string_view data) {
  Fields result;
  while (!data.empty() && !::testing::Test::HasFailure()) {
    const auto tag = varint(data);
    const int field = static_cast<int>(tag >> 3);
    switch (tag & 7) {
      case 0:
        result.numbers[field].push_back(varint(data));
        break;
      case 1:
        result.numbers[field].push_back(take<std::uint64_t>(data));
        break;
      case 2: {
        const auto length = varint(data);
        result.texts[field].emplace_back(data.substr(0, length));
        data.remove_prefix(length);
        break;
      }
      case 5:
        result.numbers[field].push_back(take<std::uint32_t>(data));
        break;
      default:
        ADD_FAILURE() << "wire type " << (tag & 7);
    }
  }
  return result;
}

float scalar_of(const Fields& value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.numbers.at(2)[0]));
}

TEST(TensorBoard, CrcOfTheTestIsRight) { EXPECT_EQ(bitwise_crc("123456789"), 0xe3069283u); }

TEST(TensorBoard, FramesChecksumsAndValuesReadBack) {
  testing::ScratchDirectory scratch;
  std::filesystem::path path;
  {
    EventWriter writer(scratch.path());
    path = writer.path();
    for (std::int64_t step : {0ll, 1ll, 300ll, 5'000'000'000ll}) {
      const EventWriter::Scalar values[] = {
          {"train/loss", 1.5 / static_cast<double>(step + 1)}, {"train/lr", 1e-4}, {"s", NAN}};
      writer.scalars(step, values);
    }
    writer.text(7, "sample", "Röslein auf der Heiden");
  }
  EXPECT_TRUE(path.filename().string().starts_with("events.out.tfevents."));
  const auto all = records(testing::read(path));
  ASSERT_EQ(all.size(), 6u);
  const auto first = fields(all[0]);
  EXPECT_EQ(first.texts.at(3), std::vector<std::string>{"brain.Event:2"});
  const double now = static_cast<double>(::time(nullptr));
  EXPECT_NEAR(std::bit_cast<double>(first.numbers.at(1)[0]), now, 60);

  const std::int64_t steps[] = {0, 1, 300, 5'000'000'000};
  for (size_t i = 0; i < 4; ++i) {
    const auto event = fields(all[i + 1]);
    EXPECT_EQ(event.numbers.contains(2) ? event.numbers.at(2)[0] : 0u,
              static_cast<std::uint64_t>(steps[i]));
    const auto values = fields(event.texts.at(5)[0]).texts.at(1);
    ASSERT_EQ(values.size(), 3u);
    EXPECT_EQ(fields(values[0]).texts.at(1)[0], "train/loss");
    EXPECT_EQ(scalar_of(fields(values[0])),
              static_cast<float>(1.5 / static_cast<double>(steps[i] + 1)));
    EXPECT_EQ(fields(values[1]).texts.at(1)[0], "train/lr");
    EXPECT_EQ(scalar_of(fields(values[1])), 1e-4f);
    EXPECT_TRUE(std::isnan(scalar_of(fields(values[2]))));
  }
  const auto text = fields(fields(fields(all[5]).texts.at(5)[0]).texts.at(1)[0]);
  EXPECT_EQ(text.texts.at(1)[0], "sample");
  EXPECT_EQ(fields(fields(text.texts.at(9)[0]).texts.at(1)[0]).texts.at(1)[0], "text");
  const auto tensor = fields(text.texts.at(8)[0]);
  EXPECT_EQ(tensor.numbers.at(1)[0], 7u);
  EXPECT_EQ(tensor.texts.at(8)[0], "Röslein auf der Heiden");
}

TEST(TensorBoard, ResumedRunTellsReadersWhatToDrop) {
  testing::ScratchDirectory scratch;
  const EventWriter before(scratch.path());
  const EventWriter after(scratch.path(), 41);
  EXPECT_NE(before.path(), after.path());
  const auto all = records(testing::read(after.path()));
  ASSERT_EQ(all.size(), 2u);
  const auto event = fields(all[1]);
  EXPECT_EQ(event.numbers.at(2)[0], 41u);
  EXPECT_EQ(fields(event.texts.at(7)[0]).numbers.at(1)[0], 1u);  // SessionLog.START
}

TEST(TensorBoard, UnwritableDirectoryIsNamed) {
  testing::ScratchDirectory scratch;
  try {
    EventWriter(scratch / "none");
    ADD_FAILURE();
  } catch (const files::FileError& error) {
    EXPECT_NE(std::string(error.what()).find("none"), std::string::npos);
  }
}

TEST(EventWriter, ANewFileComesAfterAllThatAreThere) {
  const testing::ScratchDirectory scratch;
  testing::write(scratch / "events.out.tfevents.8888888888.zzz.1.0", "");  // a clock ahead of ours
  testing::write(scratch / "events.out.tfevents.old", "");                 // no time at all
  std::vector<std::filesystem::path> made;
  for (int i = 0; i < 3; ++i) made.push_back(EventWriter(scratch.path()).path().filename());
  EXPECT_GT(made[0].string(), "events.out.tfevents.8888888888.zzz.1.0");
  EXPECT_LT(made[0], made[1]);
  EXPECT_LT(made[1], made[2]);
  EXPECT_EQ(event_files(scratch.path()).size(), 5u);
}

}  // namespace
}  // namespace normball::trainer::run
