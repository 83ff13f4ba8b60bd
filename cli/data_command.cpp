// `normball data`: prepares text for training, shows data sets and verifies them.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/contact_sheet.h"
#include "cli/data_images.h"
#include "cli/data_show.h"
#include "cli/options.h"
#include "cli/table.h"
#include "normball/base/processor.h"
#include "normball/base/text.h"
#include "trainer/data/idx.h"
#include "trainer/data/image_set.h"
#include "trainer/data/prepare.h"
#include "trainer/data/token_shard.h"
#include "trainer/runtime/stop_signal.h"
#include "trainer/runtime/terminal.h"
#include "trainer/runtime/terminal_line.h"

namespace normball::cli {
namespace {

using namespace trainer::data;

struct Options {
  PrepareOptions prepare;
  bool bytes = false;
  std::string path;
  TokenView view;
  SheetOptions sheet;
};

// A bar that is rewritten on a terminal; every tenth as a line elsewhere.
class Progress {
 public:
  void operator()(std::int64_t done, std::int64_t all) {
    const auto percent =
        static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(all));
    if (percent == shown_ || (!terminal_ && percent / 10 == shown_ / 10)) return;
    shown_ = percent;
    const double mega = static_cast<double>(done) / 1e6;
    const std::string text = std::to_string(percent) + " %  " + printed("%.1f MB", mega) +
                             printed("  %.1f MB/s", mega / seconds());
    if (!terminal_) {
      std::cerr << text << '\n';
      return;
    }
    line_.draw(trainer::runtime::progress_bar(percent / 100.0, 30) + " " + text);
    if (done == all) line_.leave();
  }

  double seconds() const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
    return std::max(passed.count(), 1e-3);
  }

 private:
  bool terminal_ = trainer::runtime::can_redraw(STDERR_FILENO);
  trainer::runtime::TerminalLine line_{std::cerr};
  int shown_ = -1;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

void run_prepare(const Options& options) {
  const trainer::runtime::StopSignals signals;
  const trainer::runtime::StopWish stop;
  Progress progress;
  const ShardDescription result = prepare(options.prepare, [&](auto done, auto all) {
    if (stop.requested()) throw std::runtime_error("[prepare] interrupted; nothing was written");
    progress(done, all);
  });
  std::cout << "written to " << options.prepare.out << " in "
            << printed("%.1f s", progress.seconds()) << ": "
            << counted(result.train_tokens, "token") << " to train on, " << result.validation_tokens
            << " to validate with; tokenizer " << result.tokenizer << ", vocabulary "
            << result.vocabulary << '\n';
}

const char* name_of(DatasetKind kind) {
  switch (kind) {
    case DatasetKind::Images:
      return "images";
    case DatasetKind::IdxFile:
      return "an IDX file";
    case DatasetKind::ImageFiles:
      return "image folders";
    case DatasetKind::Bpe:
      return "a vocabulary";
    case DatasetKind::Shards:
      return "token shards";
    case DatasetKind::Text:
      return "a text";
  }
  return "";
}

// --bpe and --vocabulary say how tokens are read: what has none refuses them.
void require_used(const Options& options, DatasetKind kind) {
  const auto refuse = [&](const char* option, const char* used) {
    throw CLI::ValidationError(option, std::string("has no effect on ") + name_of(kind) +
                                           "; it is for " + used + ". Leave it out");
  };
  const bool tokens = kind == DatasetKind::Shards || kind == DatasetKind::Text;
  if (!options.view.bpe.empty() && !tokens) refuse("--bpe", "token shards and texts");
  if (options.view.vocabulary > 0 && kind != DatasetKind::Shards) {
    refuse("--vocabulary", "token shards");
  }
  if (!options.sheet.out.empty() && kind != DatasetKind::ImageFiles) {
    refuse("--augmented", "image folders and packed images");
  }
}

// What being right does not cover.
void note_about(const TokenDataset& data, const std::string& path) {
  if (!data.compared) {
    std::cout << "note: no checksums are recorded beside these shards (`normball data prepare` "
                 "records them): whether tokens were changed is unknown\n";
  }
  std::error_code ignored;
  const auto named = [&](const char* part) {
    return std::ranges::count_if(data.files, [&](const std::string& file) {
      return std::filesystem::path(file).filename().string().find(part) != std::string::npos;
    });
  };
  if (!std::filesystem::is_directory(path, ignored) && named("val") > 0 && named("train") > 0) {
    std::cout << "note: " << named("val")
              << " of the files are named *val*: as data.path they would all be trained on; the "
                 "directory's name tells the two parts apart\n";
  }
}

void run_verify(const Options& options) {
  const DatasetKind kind = dataset_kind(options.path);
  require_used(options, kind);
  switch (kind) {
    case DatasetKind::Images: {
      const ImageData data = load_images(options.path);
      std::cout << options.path << ": valid: " << data.kind << ", " << data.train.count
                << " training and " << data.test.count << " test images, " << data.classes
                << " classes\n";
      break;
    }
    case DatasetKind::IdxFile:
      std::cout << options.path << ": valid: IDX array " << shape_text(read_idx(options.path).shape)
                << '\n';
      break;
    case DatasetKind::ImageFiles:
      verify_image_files(options.path, options.view.threads);
      break;
    case DatasetKind::Bpe:
      std::cout << options.path << ": valid: byte-pair vocabulary of "
                << Tokenizer::gpt2(options.path).vocabulary() << " tokens\n";
      break;
    case DatasetKind::Shards:
    case DatasetKind::Text: {
      const TokenDataset data = load_tokens(options.path, kind, options.view);
      std::cout << options.path << ": valid: " << data.kind << " with ";
      if (has_parts(options.path, kind)) {
        std::cout << data.train.size() << " training and " << data.validation.size()
                  << " validation tokens";
      } else {
        std::cout << counted(data.train.size(), "token");
      }
      std::cout << " below " << data.vocabulary << '\n';
      if (kind == DatasetKind::Shards) note_about(data, options.path);
      break;
    }
  }
}

void add_view_options(CLI::App& command, const std::shared_ptr<Options>& options) {
  command
      .add_option("path", options->path,
                  "A directory, file or pattern (quoted), or the name fashion-mnist")
      ->required();
  command.add_option("--bpe", options->view.bpe,
                     "Directory with vocab.bpe (and encoder.json): read tokens as GPT-2's");
  command
      .add_option("--vocabulary", options->view.vocabulary,
                  "Tokens of shards must be below this (default: as prepared, else 50257)")
      ->check(integer_in(1, 65536));
}

void add_prepare(CLI::App& data, const std::shared_ptr<Options>& options) {
  auto& command = *data.add_subcommand("prepare", "Turn text files into token shards");
  PrepareOptions& prepare = options->prepare;
  command.add_option("texts", prepare.texts, "Text files, in this order")->required();
  command.add_option("-o,--out", prepare.out, "Directory to create")->required();
  auto* bpe = command.add_option("--bpe", prepare.bpe_directory,
                                 "Directory with vocab.bpe (and encoder.json): GPT-2's tokens");
  command.add_flag("--bytes", options->bytes, "A token for each byte (the default)")->excludes(bpe);
  command.add_option("--shard-tokens", prepare.shard_tokens, "Tokens of a shard")
      ->check(integer_in(1, ShardWriter::max_shard_tokens))
      ->capture_default_str();
  command
      .add_option("--validation", prepare.validation_share,
                  "The share, at the end, that is for validation")
      ->check(number_in({.low = 0, .high = 1, .high_open = true}))
      ->capture_default_str();
  command
      .add_flag("--separators", prepare.separators_in_text,
                "<|endoftext|> in the text separates documents (otherwise it is text)")
      ->needs(bpe);
  command.add_option("--threads", prepare.threads, "Threads that encode")
      ->check(integer_in(1, 256))
      ->capture_default_str();
  command.footer(
      "The directory appears only when everything is written. Example:\n"
      "  normball data prepare book.txt --out data/book --bpe ~/.cache/normball/gpt2\n"
      "scripts/fetch-gpt2-bpe gets that vocabulary.");
  command.callback([options] { run_prepare(*options); });
}

}  // namespace

void add_data_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  options->prepare.threads = usable_cpus();
  options->view.threads = options->prepare.threads;
  auto& data =
      *app.add_subcommand("data", "Prepare text, pack images, show data sets and verify them");
  data.require_subcommand(1);
  add_prepare(data, options);
  add_pack_command(data, options->prepare.threads);

  auto& show = *data.add_subcommand("show", "Show what a data set contains");
  add_view_options(show, options);
  auto* sheet = show.add_option("--augmented", options->sheet.out,
                                "Draw augmented images of a folder into this PNG instead: as "
                                "for DeiT, or as --config has them");
  auto* config = show.add_option("--config", options->sheet.config,
                                 "A preset or TOML file: augment as it trains")
                     ->needs(sheet);
  add_settings(show, options->sheet.settings);
  show.get_option("--set")->needs(config);
  show.add_option("--size", options->sheet.size, "Height and width of each image in pixels")
      ->check(integer_in(8, 1024))
      ->needs(sheet)
      ->excludes(config)
      ->capture_default_str();
  show.add_option("--seed", options->sheet.seed, "Seed of the augmentation")
      ->check(integer_in(0, 1'000'000'000'000'000'000))
      ->needs(sheet)
      ->capture_default_str();
  show.callback([options] {
    require_used(*options, dataset_kind(options->path));
    if (!options->sheet.out.empty()) return write_contact_sheet(options->path, options->sheet);
    show_data(options->path, options->view);
  });

  auto& verify = *data.add_subcommand("verify",
                                      "Read a whole data set and check everything; exit code 1 and "
                                      "the cause if something is wrong");
  add_view_options(verify, options);
  verify.callback([options] { run_verify(*options); });

  data.footer(
      "A data set is a directory with MNIST's IDX files, CIFAR-10's binary batches or image "
      "folders\n"
      "(train/<class>/, val/<class>/), token shards (a directory, a pattern, or one .bin file), a\n"
      "text, or a vocabulary (vocab.bpe).\n"
      "  normball data show fashion-mnist\n"
      "  normball data verify data/book");
}

}  // namespace normball::cli
