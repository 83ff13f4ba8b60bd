#include "trainer/data/prepare.h"

#include <algorithm>
#include <filesystem>

#include "trainer/data/data_error.h"
#include "trainer/data/partial_directory.h"
#include "trainer/data/split_words.h"
#include "trainer/data/text_files.h"
#include "trainer/data/token_shard.h"
#include "trainer/files/atomic_file.h"

namespace normball::trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* where = "prepare";
constexpr size_t step_bytes = size_t{8} << 20;  // of text between two calls of the progress
constexpr std::int64_t shards_between = 16;     // at most

class Preparation {
 public:
  Preparation(const PrepareOptions& options, const Tokenizer& tokenizer,
              const PrepareProgress& progress, std::int64_t all)
      : options_(options), tokenizer_(tokenizer), progress_(progress), all_(all) {}

  // The number of tokens written.
  std::int64_t write(const std::vector<TextPart>& parts, const std::string& directory,
                     const std::string& prefix) {
    ShardWriter writer(directory, prefix, options_.shard_tokens);
    for (const auto& part : parts) {
      if (part.starts_file) separate(writer);
      write_documents(part.text.text(), writer);
    }
    writer.finish();
    checksums_.insert(writer.checksums().begin(), writer.checksums().end());
    return writer.tokens();
  }

  const std::map<std::string, std::uint32_t>& checksums() const { return checksums_; }

 private:
  void separate(ShardWriter& writer) const {
    if (const auto token = tokenizer_.end_of_text()) writer.append({&*token, 1});
  }

  void write_documents(std::string_view text, ShardWriter& writer) {
    while (options_.separators_in_text) {
      const size_t end = text.find(Bpe::end_of_text);
      if (end == std::string_view::npos) break;
      write_text(text.substr(0, end), writer);
      separate(writer);
      report(Bpe::end_of_text.size());
      text.remove_prefix(end + Bpe::end_of_text.size());
    }
    write_text(text, writer);
  }

  void write_text(std::string_view text, ShardWriter& writer) {
    while (!text.empty()) {
      const size_t size = tokenizer_.is_bytes()
                              ? std::min(step_bytes, text.size())
                              : next_safe_cut(text, std::min(step_bytes, text.size()));
      write_tokens(tokenizer_.encode(text.substr(0, size), options_.threads), writer);
      text.remove_prefix(size);
      report(size);
    }
  }

  // Small shards take long to write: the progress, which may throw, is called in between.
  void write_tokens(std::span<const Token> tokens, ShardWriter& writer) {
    const size_t some = static_cast<size_t>(
        std::min(options_.shard_tokens, ShardWriter::max_shard_tokens / shards_between) *
        shards_between);
    while (!tokens.empty()) {
      const auto part = tokens.first(std::min(some, tokens.size()));
      writer.append(part);
      tokens = tokens.subspan(part.size());
      if (!tokens.empty()) report(0);
    }
  }

  void report(size_t bytes) {
    done_ += static_cast<std::int64_t>(bytes);
    if (progress_) progress_(done_, all_);
  }

  const PrepareOptions& options_;
  const Tokenizer& tokenizer_;
  const PrepareProgress& progress_;
  std::int64_t all_;
  std::int64_t done_ = 0;
  std::map<std::string, std::uint32_t> checksums_;
};

std::int64_t size_of(const std::vector<TextPart>& parts) {
  std::int64_t size = 0;
  for (const auto& part : parts) size += static_cast<std::int64_t>(part.text.size());
  return size;
}

// Of bytes the number is known before; of other tokens the writer finds it out.
void require_few_shards(const PrepareOptions& options, const TextSplit& split) {
  const auto shards_of = [&](const std::vector<TextPart>& parts) {
    return (size_of(parts) + options.shard_tokens - 1) / options.shard_tokens;
  };
  const std::int64_t shards = std::max(shards_of(split.train), shards_of(split.validation));
  if (shards <= ShardWriter::max_shards) return;
  throw_invalid(where, "shards of ", options.shard_tokens, " tokens would be ", shards,
                " files; at most ", ShardWriter::max_shards, " are made. Make the shards larger");
}

void copy_vocabulary(const std::string& from, const std::string& to) {
  for (const char* name : {"vocab.bpe", "encoder.json"}) {
    std::error_code ignored;
    const fs::path source = fs::path(from) / name;
    if (fs::exists(source, ignored)) {
      files::copy_file_atomically(files::FileSystem::real(), source, fs::path(to) / name);
    }
  }
}

}  // namespace

ShardDescription prepare(const PrepareOptions& options, const PrepareProgress& progress) {
  const Tokenizer tokenizer =
      options.bpe_directory.empty() ? Tokenizer::bytes() : Tokenizer::gpt2(options.bpe_directory);
  if (options.separators_in_text && tokenizer.is_bytes()) {
    throw_invalid(where, "bytes have no token for <|endoftext|>; separators need a vocabulary");
  }
  const TextSplit split = split_text(options.texts, tokenizer, options.validation_share);
  if (split.train.empty()) throw_invalid(where, "no text is left to train on");
  if (tokenizer.is_bytes()) require_few_shards(options, split);
  PartialDirectory directory(where, options.out);
  Preparation preparation(options, tokenizer, progress,
                          size_of(split.train) + size_of(split.validation));
  ShardDescription description{
      .tokenizer = tokenizer.name(),
      .vocabulary = tokenizer.vocabulary(),
      .train_tokens = preparation.write(split.train, directory.path(), "train"),
      .validation_tokens = preparation.write(split.validation, directory.path(), "val")};
  description.checksums = preparation.checksums();
  if (!tokenizer.is_bytes()) copy_vocabulary(options.bpe_directory, directory.path());
  files::write_file_atomically(files::FileSystem::real(),
                               fs::path(directory.path()) / "dataset.json", to_json(description));
  directory.commit();
  return description;
}

}  // namespace normball::trainer::data
