#include "trainer/data/packed_images.h"

#include <bit>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "trainer/data/data_error.h"
#include "trainer/files/bytes.h"
#include "trainer/files/checksum.h"
#include "trainer/files/file_system.h"

namespace normball::trainer::data {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "records are read as they are");

constexpr const char* where = "load_packed_images";
constexpr const char* again = "; pack the images again";
constexpr const char* format = "normball images 1";
constexpr size_t largest_description = size_t{16} << 20;

class Packed final : public ImageFiles::Source {
 public:
  Packed(const fs::path& directory, const PackedPart& part, size_t classes)
      : directory_(directory), part_(part), index_(map(part.index)) {
    const std::uint32_t crc = files::crc32c(std::as_bytes(index_.span()));
    const std::string path = (directory / part.index.name).string();
    if (crc != part.index.crc || index_.size() % sizeof(PackedRecord) != 0) {
      fail(where, path, ": has the checksum ", files::checksum_text(crc), ", but images.json says ",
           files::checksum_text(part.index.crc), again);
    }
    for (const auto& shard : part.shards) shards_.push_back(map(shard));
    for (std::int64_t i = 0; i < count(); ++i) {
      const PackedRecord entry = record(i);
      if (entry.shard >= shards_.size() || entry.label >= classes ||
          entry.first > shards_[entry.shard].size() ||
          entry.bytes > shards_[entry.shard].size() - entry.first) {
        fail(where, path, ": image ", i, " is not inside of the shards and classes", again);
      }
    }
  }

  std::int64_t count() const override {
    return static_cast<std::int64_t>(index_.size() / sizeof(PackedRecord));
  }
  std::int64_t label(std::int64_t i) const override { return record(i).label; }
  std::string name(std::int64_t i) const override {
    const PackedRecord entry = record(i);
    return (directory_ / part_.shards[entry.shard].name).string() + " (image " + std::to_string(i) +
           ", at byte " + std::to_string(entry.first) + ")";
  }
  std::span<const std::uint8_t> bytes(std::int64_t i, std::string& /*buffer*/) const override {
    const PackedRecord entry = record(i);
    return shards_[entry.shard].span().subspan(entry.first, entry.bytes);
  }
  std::string digest() const override {
    std::uint32_t crc = part_.index.crc;
    for (const auto& shard : part_.shards) {
      crc = files::crc32c(files::checksum_text(shard.crc), crc);
    }
    return files::checksum_text(crc);
  }

 private:
  files::Bytes map(const PackedFile& file) const {
    const fs::path path = directory_ / file.name;
    files::Bytes bytes = files::Bytes::map(path);
    if (bytes.size() != file.bytes) {
      fail(where, path.string(), ": has ", bytes.size(), " bytes, but images.json says ",
           file.bytes, again);
    }
    return bytes;
  }
  PackedRecord record(std::int64_t i) const {
    PackedRecord entry;
    std::memcpy(&entry, index_.span().data() + static_cast<size_t>(i) * sizeof entry, sizeof entry);
    return entry;
  }

  fs::path directory_;
  PackedPart part_;
  files::Bytes index_;
  std::vector<files::Bytes> shards_;
};

nlohmann::ordered_json json_of(const PackedFile& file) {
  return {{"name", file.name}, {"bytes", file.bytes}, {"crc32c", files::checksum_text(file.crc)}};
}
nlohmann::ordered_json json_of(const PackedPart& part) {
  nlohmann::ordered_json shards = nlohmann::ordered_json::array();
  for (const auto& shard : part.shards) shards.push_back(json_of(shard));
  return {{"index", json_of(part.index)}, {"shards", shards}};
}

class Parser {
 public:
  explicit Parser(const std::string& name) : name_(name) {}

  const nlohmann::json& member(const nlohmann::json& json, const char* key) const {
    if (!json.is_object() || !json.contains(key)) wrong(key, "is missing");
    return json[key];
  }
  std::string text(const nlohmann::json& json, const char* key) const {
    const auto& value = member(json, key);
    if (!value.is_string()) wrong(key, "must be a text");
    return value.get<std::string>();
  }
  PackedFile file(const nlohmann::json& json) const {
    PackedFile file;
    file.name = text(json, "name");
    if (file.name.empty() || file.name.find('/') != std::string::npos || file.name[0] == '.') {
      wrong("name", "must be a plain file name");
    }
    const auto& bytes = member(json, "bytes");
    if (!bytes.is_number_unsigned()) wrong("bytes", "must be a number");
    file.bytes = bytes.get<std::uint64_t>();
    const std::string crc = text(json, "crc32c");
    if (crc.size() != 8 || crc.find_first_not_of("0123456789abcdef") != std::string::npos) {
      wrong("crc32c", "must be eight hexadecimal digits");
    }
    file.crc = static_cast<std::uint32_t>(std::stoul(crc, nullptr, 16));
    return file;
  }
  PackedPart part(const nlohmann::json& json) const {
    PackedPart part{.index = file(member(json, "index"))};
    const auto& shards = member(json, "shards");
    if (!shards.is_array()) wrong("shards", "must be a list");
    for (const auto& shard : shards) part.shards.push_back(file(shard));
    return part;
  }
  [[noreturn]] void wrong(const char* key, const char* problem) const {
    fail(where, name_, ": ", key, " ", problem, again);
  }

 private:
  const std::string& name_;
};

PackedDescription read_description(const std::string& directory) {
  const fs::path path = fs::path(directory) / "images.json";
  return parse_packed_description(files::read_small_file(path, largest_description), path.string());
}

}  // namespace

std::string to_json(const PackedDescription& description) {
  nlohmann::ordered_json json = {
      {"format", format}, {"classes", description.classes}, {"train", json_of(description.train)}};
  if (!description.validation.shards.empty()) json["val"] = json_of(description.validation);
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

PackedDescription parse_packed_description(std::string_view json, const std::string& name) {
  const auto value = nlohmann::json::parse(json, nullptr, false);
  const Parser parser(name);
  if (value.is_discarded() || !value.is_object()) {
    fail(where, name, ": is not JSON", again);
  }
  if (parser.text(value, "format") != format) {
    fail(where, name, ": its format is not \"", format, "\"", again);
  }
  PackedDescription description;
  const auto& classes = parser.member(value, "classes");
  if (!classes.is_array() || classes.empty()) parser.wrong("classes", "must be a list of names");
  for (const auto& entry : classes) {
    if (!entry.is_string()) parser.wrong("classes", "must be a list of names");
    description.classes.push_back(entry.get<std::string>());
  }
  description.train = parser.part(parser.member(value, "train"));
  if (value.contains("val")) description.validation = parser.part(value["val"]);
  return description;
}

bool is_packed_images(const std::string& directory) {
  std::error_code ignored;
  return fs::exists(fs::path(directory) / "images.json", ignored);
}

ImageFolders load_packed_images(const std::string& directory) {
  const PackedDescription description = read_description(directory);
  const auto open = [&](const PackedPart& part) {
    return ImageFiles(std::make_shared<Packed>(directory, part, description.classes.size()));
  };
  ImageFolders data{.kind = "packed images", .path = directory, .class_names = description.classes};
  data.train = open(description.train);
  if (!description.validation.shards.empty()) data.validation = open(description.validation);
  if (data.train.count() == 0) fail(where, directory, ": has no training images", again);
  return data;
}

void check_packed_images(const std::string& directory) {
  const PackedDescription description = read_description(directory);
  for (const auto* part : {&description.train, &description.validation}) {
    for (const auto& shard : part->shards) {
      const fs::path path = fs::path(directory) / shard.name;
      const auto sum = files::file_checksum(path);
      if (sum.crc != shard.crc || sum.bytes != shard.bytes) {
        fail(where, path.string(), ": has the checksum ", files::checksum_text(sum.crc), " of ",
             sum.bytes, " bytes, but images.json says ", files::checksum_text(shard.crc), " of ",
             shard.bytes, again);
      }
    }
  }
}

}  // namespace normball::trainer::data
