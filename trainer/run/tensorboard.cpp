#include "trainer/run/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>

#include "trainer/files/atomic_file.h"
#include "trainer/files/checksum.h"

namespace normball::trainer::run {
namespace fs = std::filesystem;
namespace {

// Protocol buffers' wire format: a field is its number and type, then the value.
class Message {
 public:
  Message& integer(int field, std::uint64_t value) {
    varint(static_cast<std::uint64_t>(field) << 3);
    varint(value);
    return *this;
  }
  Message& fixed(int field, double value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 1);
    raw(value);
    return *this;
  }
  Message& fixed(int field, float value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 5);
    raw(value);
    return *this;
  }
  Message& bytes(int field, std::string_view value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 2);
    varint(value.size());
    data_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return bytes(field, value.data_); }
  const std::string& data() const { return data_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) data_ += static_cast<char>((value & 0x7f) | 0x80);
    data_ += static_cast<char>(value);
  }
  template <class T>
  void raw(T value) {
    const auto parts = std::bit_cast<std::array<char, sizeof(T)>>(value);
    data_.append(parts.data(), parts.size());
  }

  std::string data_;
};

const std::string prefix = "events.out.tfevents.";

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Event: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7.
Message event(std::int64_t step) {
  Message message;
  message.fixed(1, wall_time());
  if (step != 0) message.integer(2, static_cast<std::uint64_t>(step));
  return message;
}

// A CRC of data that holds CRCs is weak; the format rotates it and adds a constant.
std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8u; }

template <class T>
std::string raw(T value) {
  std::string text(sizeof value, '\0');
  std::memcpy(text.data(), &value, sizeof value);
  return text;
}

fs::path new_path(const fs::path& directory) {
  char host[256] = "localhost";
  ::gethostname(host, sizeof host - 1);
  auto seconds = static_cast<std::int64_t>(wall_time());
  for (const auto& name : event_files(directory)) {
    const std::string text = name.string().substr(prefix.size());
    std::int64_t then = 0;
    std::from_chars(text.data(), text.data() + text.size(), then);
    if (then < INT64_MAX) seconds = std::max(seconds, then + 1);
  }
  return directory /
         (prefix + std::to_string(seconds) + "." + host + "." + std::to_string(::getpid()) + ".0");
}

}  // namespace

std::vector<fs::path> event_files(const fs::path& directory) {
  std::vector<fs::path> names;
  std::error_code error;  // a directory that cannot be read is named where it is written to
  for (fs::directory_iterator i(directory, error), end; !error && i != end; i.increment(error)) {
    const fs::path name = i->path().filename();
    if (name.string().starts_with(prefix)) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

EventWriter::EventWriter(const fs::path& directory, std::optional<std::int64_t> first_step,
                         files::FileSystem& files)
    : path_(new_path(directory)), files_(files) {
  file_ = files_.open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0666);
  if (file_ < 0) throw files::FileError("EventWriter", "creating", path_, errno);
  write(event(0).bytes(3, "brain.Event:2").data());
  if (first_step) {  // SessionLog: status = 1, START = 1
    write(event(*first_step).message(7, Message().integer(1, 1)).data());
  }
}

EventWriter::~EventWriter() { files_.close(file_); }

void EventWriter::scalars(std::int64_t step, std::span<const Scalar> values) {
  Message summary;
  for (const auto& [tag, value] : values) {  // Summary.Value: tag = 1, simple_value = 2
    summary.message(1, Message().bytes(1, tag).fixed(2, static_cast<float>(value)));
  }
  write(event(step).message(5, summary).data());
}

void EventWriter::text(std::int64_t step, std::string_view tag, std::string_view text) {
  // TensorProto: dtype = 1 (7 is a string), tensor_shape = 2 with one dimension of one, string_val
  // = 8. SummaryMetadata = 9: plugin_data = 1 with its name = 1.
  const Message shape = Message().message(2, Message().integer(1, 1));
  const Message tensor = Message().integer(1, 7).message(2, shape).bytes(8, text);
  const Message metadata = Message().message(1, Message().bytes(1, "text"));
  const Message value = Message().bytes(1, tag).message(8, tensor).message(9, metadata);
  write(event(step).message(5, Message().message(1, value)).data());
}

void EventWriter::write(const std::string& data) {
  const std::string length = raw(static_cast<std::uint64_t>(data.size()));
  const std::string record =
      length + raw(masked(files::crc32c(length))) + data + raw(masked(files::crc32c(data)));
  files::write_fully(files_, file_, std::as_bytes(std::span(record)), "EventWriter", path_);
}

}  // namespace normball::trainer::run
