// `normball data show`: what a data set contains, for people.
#include "cli/data_show.h"

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <iostream>

#include "cli/data_images.h"
#include "cli/picture.h"
#include "cli/table.h"
#include "normball/base/text.h"
#include "trainer/data/dataset_kind.h"
#include "trainer/data/idx.h"
#include "trainer/data/image_set.h"
#include "trainer/data/token_data.h"
#include "trainer/runtime/terminal.h"

namespace normball::cli {
namespace {

using namespace trainer::data;

constexpr std::int64_t excerpt_tokens = 160;

// In one line, where new lines show as a sign.
std::string printable(std::string_view text, std::string_view new_line = "⏎") {
  std::string out;
  for (const char c : trainer::runtime::printable(text)) {
    if (c == '\n') {
      out += new_line;
    } else {
      out += c;
    }
  }
  return out;
}

void show_images(const ImageData& data) {
  std::cout << data.kind << " images in " << data.path << ": " << data.classes
            << (data.classes == 1 ? " class\n\n" : " classes\n\n");
  Table sizes({"part", "images", "channels", "height", "width"});
  for (const auto& [name, set] : {std::pair{"train", &data.train}, {"test", &data.test}}) {
    sizes.add({name, std::to_string(set->count), std::to_string(set->channels),
               std::to_string(set->height), std::to_string(set->width)});
  }
  sizes.print(std::cout);

  std::cout << '\n';
  const auto train = class_histogram(data.train, data.classes);
  const auto test = class_histogram(data.test, data.classes);
  Table classes({"class", "name", "train", "test"});
  for (size_t c = 0; c < train.size(); ++c) {
    classes.add({std::to_string(c), data.class_names.empty() ? "" : data.class_names[c],
                 std::to_string(train[c]), std::to_string(test[c])});
  }
  classes.print(std::cout);

  const auto statistics = channel_statistics(data.train);
  std::cout << "\nTraining pixels, scaled to [0, 1]:\n";
  for (size_t c = 0; c < statistics.mean.size(); ++c) {
    std::cout << "  channel " << c << "  mean " << printed("%.4f", statistics.mean[c]) << "  std "
              << printed("%.4f", statistics.std[c]) << '\n';
  }
  std::vector<std::int64_t> first;
  std::cout << "\nThe first training images:";
  for (std::int64_t i = 0; i < std::min<std::int64_t>(3, data.train.count); ++i) {
    first.push_back(i);
    const auto label = static_cast<size_t>(data.train.label(i));
    std::cout << (i > 0 ? ", " : " ") << label;
    if (!data.class_names.empty()) std::cout << " (" << data.class_names[label] << ')';
  }
  std::cout << "\n\n" << draw_images(data.train, first, trainer::runtime::shows_colors());
}

void show_idx(const std::string& path) {
  const IdxArray array = read_idx(path);
  std::cout << "IDX array in " << path << ": " << shape_text(array.shape) << " bytes\n";
  if (array.shape.size() == 3) {
    const ImageSet images{array.shape[0], 1, array.shape[1], array.shape[2], array.data, {}};
    std::cout << "\nThe first images:\n\n";
    std::vector<std::int64_t> first;
    for (std::int64_t i = 0; i < std::min<std::int64_t>(3, images.count); ++i) first.push_back(i);
    std::cout << draw_images(images, first, trainer::runtime::shows_colors());
    return;
  }
  std::cout << "The first elements:";
  for (size_t i = 0; i < std::min<size_t>(32, array.data.size()); ++i) {
    std::cout << ' ' << int{array.data[i]};
  }
  std::cout << '\n';
}

// How many different tokens there are, and which is the most frequent.
void print_frequencies(const TokenDataset& dataset, bool parts) {
  std::vector<std::int64_t> counts(static_cast<size_t>(dataset.vocabulary));
  std::vector<std::int64_t> block(1 << 16);
  for (std::int64_t i = 0; i < dataset.train.size();) {
    const auto count = std::min(static_cast<std::int64_t>(block.size()), dataset.train.size() - i);
    const std::span part(block.data(), static_cast<size_t>(count));
    dataset.train.read(i, part);
    for (const auto token : part) ++counts[static_cast<size_t>(token)];
    i += count;
  }
  const auto different = std::ranges::count_if(counts, [](auto n) { return n > 0; });
  const auto most = std::ranges::max_element(counts);
  std::cout << "  " << different << (different == 1 ? " token" : " different tokens")
            << (parts ? " in the training part" : "") << "; the most frequent, "
            << most - counts.begin();
  if (dataset.tokenizer) {
    const auto token = static_cast<Token>(most - counts.begin());
    std::cout << " '" << printable(dataset.tokenizer->decode({&token, 1})) << "'";
  }
  std::cout << ", is "
            << printed("%.1f %%",
                       100 * static_cast<double>(*most) / static_cast<double>(dataset.train.size()))
            << " of them\n";
}

void show_tokens(const TokenDataset& dataset, const std::string& path, bool parts) {
  std::cout << dataset.kind << " in " << path << "\n\n";
  std::cout << "  files        " << dataset.files.size() << '\n';
  if (parts) {
    std::cout << "  training     " << counted(dataset.train.size(), "token") << '\n'
              << "  validation   " << counted(dataset.validation.size(), "token") << '\n';
  } else {
    std::cout << "  tokens       " << dataset.train.size() << '\n';
  }
  std::cout << "  vocabulary   " << dataset.vocabulary << '\n'
            << "  tokenizer    " << (dataset.tokenizer ? dataset.tokenizer->name() : "unknown")
            << "\n\n";
  print_frequencies(dataset, parts);
  std::vector<std::int64_t> first(
      static_cast<size_t>(std::min(excerpt_tokens, dataset.train.size())));
  dataset.train.read(0, first);
  std::cout << "\n  The first tokens:";
  for (size_t i = 0; i < std::min<size_t>(16, first.size()); ++i) std::cout << ' ' << first[i];
  std::cout << (first.size() > 16 ? " ...\n" : "\n");
  if (dataset.tokenizer) {
    const std::vector<Token> tokens(first.begin(), first.end());
    std::cout << "\n  They read:\n\n    " << printable(dataset.tokenizer->decode(tokens), "⏎\n    ")
              << '\n';
  } else {
    std::cout << "  (--bpe DIRECTORY with GPT-2's vocab.bpe shows them as text)\n";
  }
}

void show_bpe(const std::string& path) {
  const Tokenizer tokenizer = Tokenizer::gpt2(path);
  std::cout << "Byte-pair vocabulary in " << path << ": " << tokenizer.vocabulary()
            << " tokens, end of text is " << *tokenizer.end_of_text() << "\n\n";
  constexpr std::string_view example = "Optimizers that step on norm balls";
  std::cout << "  \"" << example << "\" is:";
  for (const Token token : tokenizer.encode(example)) {
    std::cout << ' ' << token << '\'' << printable(tokenizer.decode({&token, 1})) << '\'';
  }
  std::cout << '\n';
}

}  // namespace

TokenDataset load_tokens(const std::string& path, DatasetKind kind, const TokenView& view) {
  if (kind == DatasetKind::Text) {
    const auto tokenizer = view.bpe.empty() ? Tokenizer::bytes() : Tokenizer::gpt2(view.bpe);
    return load_text({path}, tokenizer, view.validation_share, view.threads);
  }
  TokenDataset dataset = load_shards(path, {.vocabulary = view.vocabulary, .validation = {}});
  if (!view.bpe.empty()) {
    dataset.tokenizer = Tokenizer::gpt2(view.bpe);
    dataset.vocabulary = std::max(dataset.vocabulary, dataset.tokenizer->vocabulary());
  }
  return dataset;
}

bool has_parts(const std::string& path, DatasetKind kind) {
  std::error_code ignored;
  return kind == DatasetKind::Text || std::filesystem::is_directory(path, ignored);
}

void show_data(const std::string& path, const TokenView& view) {
  switch (const DatasetKind kind = dataset_kind(path)) {
    case DatasetKind::Images:
      return show_images(load_images(path));
    case DatasetKind::IdxFile:
      return show_idx(path);
    case DatasetKind::ImageFiles:
      return show_image_files(path);
    case DatasetKind::Bpe:
      return show_bpe(path);
    case DatasetKind::Shards:
    case DatasetKind::Text:
      return show_tokens(load_tokens(path, kind, view), path, has_parts(path, kind));
  }
}

}  // namespace normball::cli
