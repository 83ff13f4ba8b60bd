#include "trainer/data/token_data.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "trainer/data/data_error.h"
#include "trainer/data/text_files.h"
#include "trainer/data/token_shard.h"
#include "trainer/files/checksum.h"

namespace normball::trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr int gpt2_vocabulary = 50257;
constexpr size_t largest_description = size_t{16} << 20;  // with 200,000 checksums

// False where no checksum of the shard is recorded.
bool check_contents(const Bytes& tokens, const std::string& path,
                    const ShardDescription& description) {
  const auto recorded = description.checksums.find(fs::path(path).filename().string());
  if (recorded == description.checksums.end()) return false;
  const std::uint32_t crc = files::crc32c(std::as_bytes(tokens.span()));
  if (crc != recorded->second) {
    fail("load_shards", path, ": its tokens have the checksum ", files::checksum_text(crc),
         ", but dataset.json says ", files::checksum_text(recorded->second),
         "; the file is damaged or foreign, prepare the data again");
  }
  return true;
}

TokenData open_shards(const std::vector<std::string>& paths, int vocabulary,
                      const std::optional<ShardDescription>& description, bool* compared) {
  const bool stated = description && description->vocabulary == vocabulary;
  TokenData data;
  for (const auto& path : paths) {
    const Bytes tokens = read_shard(path);
    if (!description || !check_contents(tokens, path, *description)) *compared = false;
    check_tokens(tokens, vocabulary, path,
                 stated ? "dataset.json says so: the file is damaged or foreign, prepare the data "
                          "again"
                        : "set the vocabulary the shards were made with");
    data.append(tokens, TokenData::Width::Two);
  }
  return data;
}

TokenData encode_parts(const std::vector<TextPart>& parts, const Tokenizer& tokenizer,
                       int threads) {
  TokenData data;
  for (const auto& part : parts) {
    if (tokenizer.is_bytes()) {
      data.append(part.text, TokenData::Width::One);
      continue;
    }
    if (part.starts_file) {
      data.append(Bytes::own(std::vector<Token>{*tokenizer.end_of_text()}), TokenData::Width::Two);
    }
    data.append(Bytes::own(tokenizer.encode(part.text.text(), threads)), TokenData::Width::Two);
  }
  return data;
}

std::optional<ShardDescription> description_beside(const std::string& path) {
  std::error_code ignored;
  const fs::path directory =
      fs::is_directory(path, ignored) ? fs::path(path) : fs::path(path).parent_path();
  const fs::path file = directory / "dataset.json";
  if (!fs::exists(file, ignored)) return std::nullopt;
  return parse_shard_description(read_small_file(file.string(), largest_description).text(),
                                 file.string());
}

std::optional<Tokenizer> tokenizer_of(const ShardDescription& description,
                                      const std::string& directory) {
  if (description.tokenizer == "bytes") return Tokenizer::bytes();
  std::error_code ignored;
  if (!fs::exists(fs::path(directory) / "vocab.bpe", ignored)) return std::nullopt;
  const Tokenizer tokenizer = Tokenizer::gpt2(directory);
  if (tokenizer.vocabulary() != description.vocabulary) {
    fail("load_shards", directory, ": vocab.bpe makes ", tokenizer.vocabulary(),
         " tokens, but dataset.json says ", description.vocabulary, "; prepare the data again");
  }
  return tokenizer;
}

void check_count(const std::string& directory, const char* part, std::int64_t found,
                 std::int64_t described) {
  if (found == described) return;
  fail("load_shards", directory, ": the ", part, " shards hold ", found,
       " tokens, but dataset.json says ", described,
       "; a shard is missing or foreign, prepare the data again");
}

std::map<std::string, std::uint32_t> parse_checksums(const nlohmann::json& json,
                                                     const std::string& name) {
  std::map<std::string, std::uint32_t> checksums;
  const auto refuse = [&] {
    fail("load_shards", name,
         ": \"crc32c\" must give eight hexadecimal digits for each shard; prepare the data again");
  };
  if (!json.is_object()) refuse();
  for (const auto& [shard, value] : json.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    std::uint32_t crc = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, crc, 16);
    if (text.size() != 8 || error != std::errc() || rest != end) refuse();
    checksums[shard] = crc;
  }
  return checksums;
}

}  // namespace

void TokenData::append(Bytes tokens, Width width) {
  const auto count = static_cast<std::int64_t>(tokens.size() / static_cast<size_t>(width));
  if (count == 0) return;
  pieces_.push_back({std::move(tokens), width, size_, count});
  size_ += count;
}

void TokenData::read(std::int64_t first, std::span<std::int64_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  if (first < 0 || count > size_ - first) {
    detail::invalid("TokenData", "tokens ", first, " to ", first + count, " of ", size_,
                    " asked for");
  }
  auto piece = std::ranges::upper_bound(pieces_, first, {}, &Piece::first);
  for (size_t done = 0; done < out.size(); ++piece) {
    const Piece& p = *std::prev(piece);
    const auto at = static_cast<size_t>(first - p.first) + done;
    const size_t part = std::min(out.size() - done, static_cast<size_t>(p.count) - at);
    if (p.width == Width::One) {
      std::copy_n(p.tokens.span().data() + at, part, out.data() + done);
    } else {
      const auto* tokens = reinterpret_cast<const Token*>(p.tokens.span().data());
      std::copy_n(tokens + at, part, out.data() + done);
    }
    done += part;
  }
}

TokenData TokenData::slice(std::int64_t first, std::int64_t count) const {
  if (first < 0 || count < 0 || count > size_ - first) {
    detail::invalid("TokenData", "a slice of ", count, " tokens from ", first, " of ", size_);
  }
  TokenData part;
  for (const auto& p : pieces_) {
    const std::int64_t from = std::clamp(first, p.first, p.first + p.count);
    const std::int64_t to = std::clamp(first + count, p.first, p.first + p.count);
    const auto width = static_cast<std::int64_t>(p.width);
    part.append(p.tokens.slice(static_cast<size_t>((from - p.first) * width),
                               static_cast<size_t>((to - from) * width)),
                p.width);
  }
  return part;
}

std::vector<std::span<const std::uint8_t>> TokenData::bytes() const {
  std::vector<std::span<const std::uint8_t>> all;
  for (const auto& piece : pieces_) all.push_back(piece.tokens.span());
  return all;
}

TokenDataset load_text(const std::vector<std::string>& paths, const Tokenizer& tokenizer,
                       double validation_share, int threads) {
  const TextSplit split = split_text(paths, tokenizer, validation_share);
  return {.kind = "text",
          .train = encode_parts(split.train, tokenizer, threads),
          .validation = encode_parts(split.validation, tokenizer, threads),
          .vocabulary = tokenizer.vocabulary(),
          .tokenizer = tokenizer,
          .files = paths};
}

TokenDataset load_shards(const std::string& path, const ShardOptions& options) {
  std::error_code ignored;
  const bool directory = fs::is_directory(path, ignored);
  const auto description = description_beside(path);
  TokenDataset dataset;
  dataset.kind = "token shards";
  dataset.vocabulary = options.vocabulary > 0 ? options.vocabulary
                       : description          ? description->vocabulary
                                              : gpt2_vocabulary;
  const auto base = directory ? path : fs::path(path).parent_path().string();
  if (description) dataset.tokenizer = tokenizer_of(*description, base);

  dataset.files = find_shards(path, directory ? "train" : "");
  std::vector<std::string> validation;
  if (!options.validation.empty()) {
    validation = find_shards(options.validation);
  } else if (directory) {
    validation = list_shards(path, "val");
  }
  dataset.compared = true;
  dataset.train = open_shards(dataset.files, dataset.vocabulary, description, &dataset.compared);
  // Those of a path of their own may have another dataset.json beside them.
  const auto beside =
      options.validation.empty() ? description : description_beside(options.validation);
  dataset.validation = open_shards(validation, dataset.vocabulary, beside, &dataset.compared);
  dataset.files.insert(dataset.files.end(), validation.begin(), validation.end());
  if (description && directory && options.validation.empty()) {
    check_count(path, "training", dataset.train.size(), description->train_tokens);
    check_count(path, "validation", dataset.validation.size(), description->validation_tokens);
  }
  return dataset;
}

std::string to_json(const ShardDescription& description) {
  nlohmann::ordered_json json = {{"format", "normball tokens 1"},
                                 {"tokenizer", description.tokenizer},
                                 {"vocabulary", description.vocabulary},
                                 {"train_tokens", description.train_tokens},
                                 {"validation_tokens", description.validation_tokens}};
  for (const auto& [name, crc] : description.checksums) {
    json["crc32c"][name] = files::checksum_text(crc);
  }
  return json.dump(2) + "\n";
}

ShardDescription parse_shard_description(std::string_view json, const std::string& name) {
  const auto value = nlohmann::json::parse(json, nullptr, false);
  const auto count = [&](const char* key, std::int64_t least, std::int64_t most) {
    if (!value.contains(key) || !value[key].is_number_integer()) {
      fail("load_shards", name, ": lacks the number \"", key, "\"; prepare the data again");
    }
    const auto number = value[key].get<std::int64_t>();
    if (number < least || number > most) {
      fail("load_shards", name, ": \"", key, "\" is ", number, ", not in ", least, " to ", most);
    }
    return number;
  };
  if (!value.is_object() || !value.contains("tokenizer") || !value["tokenizer"].is_string()) {
    fail("load_shards", name,
         ": is not the JSON that `normball data prepare` writes; remove it or prepare the data "
         "again");
  }
  ShardDescription description;
  description.tokenizer = value["tokenizer"].get<std::string>();
  if (description.tokenizer != "bytes" && description.tokenizer != "gpt2") {
    fail("load_shards", name, ": unknown tokenizer '", description.tokenizer,
         "'; known are bytes and gpt2");
  }
  constexpr std::int64_t any = std::int64_t{1} << 62;
  description.vocabulary = static_cast<int>(count("vocabulary", 1, 65536));
  description.train_tokens = count("train_tokens", 0, any);
  description.validation_tokens = count("validation_tokens", 0, any);
  if (value.contains("crc32c")) description.checksums = parse_checksums(value["crc32c"], name);
  return description;
}

}  // namespace normball::trainer::data
