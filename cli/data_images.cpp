#include "cli/data_images.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>

#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "normball/base/error.h"
#include "normball/base/text.h"
#include "trainer/data/data_error.h"
#include "trainer/data/packed_images.h"
#include "trainer/data/workers.h"
#include "trainer/images/decode.h"
#include "trainer/images/image_error.h"
#include "trainer/runtime/stop_signal.h"
#include "trainer/runtime/terminal.h"

namespace normball::cli {
namespace {

using namespace trainer::data;
using trainer::images::Header;
using trainer::images::Image;

constexpr std::int64_t most_classes = 20, looked_at = 1000;

std::string pixels_text(const std::vector<int>& sorted) {
  return std::to_string(sorted.front()) + " to " + std::to_string(sorted.back()) +
         ", half of them " + std::to_string(sorted[sorted.size() / 2]) + " or more";
}

// Of at most a thousand files, spread evenly.
void print_headers(const ImageFiles& files) {
  const std::int64_t count = std::min(looked_at, files.count());
  std::map<std::string, std::int64_t> formats;
  std::vector<int> widths, heights;
  std::int64_t bytes = 0, bad = 0;
  std::string buffer, problem;
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t i = k * files.count() / count;
    try {
      const auto file = files.bytes(i, buffer);
      bytes += static_cast<std::int64_t>(file.size());
      const Header header = trainer::images::read_header(file, files.name(i));
      ++formats[name_of(header.format)];
      widths.push_back(header.width);
      heights.push_back(header.height);
    } catch (const trainer::images::ImageError& error) {
      if (bad++ == 0) problem = error.what();
    }
  }
  std::ranges::sort(widths);
  std::ranges::sort(heights);
  std::cout << "\n"
            << (count < files.count()
                    ? "Of " + counted(count, "training image") + ", spread evenly:\n"
                    : "Training images:\n");
  for (const auto& [name, number] : formats) std::cout << "  " << name << "     " << number << '\n';
  if (!widths.empty()) {
    std::cout << "  width    " << pixels_text(widths) << "\n  height   " << pixels_text(heights)
              << '\n';
  }
  std::cout << "  size     "
            << printed("%.1f kB on average",
                       1e-3 * static_cast<double>(bytes) / static_cast<double>(count))
            << '\n';
  if (bad > 0) {
    std::cout << "  bad      " << bad << ", the first: " << trainer::runtime::one_line(problem)
              << '\n';
  }
}

}  // namespace

void show_image_files(const std::string& path) {
  const ImageFolders data = load_image_files(path);
  std::cout << data.kind << " in " << path << ": " << counted(data.train.count(), "training image")
            << ", " << counted(data.validation.count(), "validation image") << ", "
            << data.classes() << (data.classes() == 1 ? " class\n\n" : " classes\n\n");
  const auto train = class_histogram(data.train, data.classes());
  const auto validation = class_histogram(data.validation, data.classes());
  Table classes({"class", "name", "train", "val"});
  const std::int64_t shown = data.classes() > most_classes ? most_classes / 2 : data.classes();
  for (std::int64_t c = 0; c < shown; ++c) {
    const auto i = static_cast<size_t>(c);
    classes.add({std::to_string(c), trainer::runtime::one_line(data.class_names[i]),
                 std::to_string(train[i]), std::to_string(validation[i])});
  }
  classes.print(std::cout);
  if (shown < data.classes()) {
    const auto [few, many] = std::ranges::minmax(train);
    std::cout << "... and " << data.classes() - shown << " more; a class has " << few << " to "
              << many << " training images\n";
  }
  print_headers(data.train);
  if (data.ignored > 0) {
    std::cout << "  ignored  " << counted(data.ignored, "other file")
              << " (not named *.jpg, *.jpeg, *.png or *.webp)\n";
  }
}

void verify_image_files(const std::string& path, int threads) {
  const ImageFolders data = load_image_files(path);
  if (is_packed_images(path)) check_packed_images(path);
  const trainer::runtime::StopSignals signals;
  const trainer::runtime::StopWish stop;
  Workers workers(threads);
  struct State {
    std::string buffer;
    Image image;
  };
  std::vector<State> states(static_cast<size_t>(workers.threads()));
  std::vector<std::string> problems;
  constexpr std::int64_t block = 1024, most_named = 10;
  for (const auto* files : {&data.train, &data.validation}) {
    for (std::int64_t begin = 0; begin < files->count(); begin += block) {
      if (stop.requested()) throw std::runtime_error("[verify] interrupted");
      const std::int64_t count = std::min(block, files->count() - begin);
      std::vector<std::string> found(static_cast<size_t>(count));
      workers.run(count, [&](int worker, std::int64_t k) {
        State& state = states[static_cast<size_t>(worker)];
        try {
          decode(files->bytes(begin + k, state.buffer), files->name(begin + k), state.image);
        } catch (const trainer::images::ImageError& error) {
          found[static_cast<size_t>(k)] = error.what();
        }
      });
      std::ranges::copy_if(found, std::back_inserter(problems),
                           [](const auto& text) { return !text.empty(); });
    }
  }
  if (problems.empty()) {
    std::cout << path << ": valid: " << data.kind << ", " << data.train.count() << " training and "
              << data.validation.count() << " validation images, " << data.classes()
              << (data.classes() == 1 ? " class\n" : " classes\n");
    return;
  }
  const auto bad = static_cast<std::int64_t>(problems.size());
  for (std::int64_t i = 0; i < std::min(bad, most_named); ++i) {
    std::cout << trainer::runtime::one_line(problems[static_cast<size_t>(i)]) << '\n';
  }
  if (bad > most_named) std::cout << "... and " << bad - most_named << " more\n";
  trainer::data::fail("verify", path, ": ", counted(bad, "image"), " of ",
                      data.train.count() + data.validation.count(),
                      " cannot be decoded; remove them, or train with data.bad_images = \"skip\"");
}

void add_pack_command(CLI::App& data, int threads) {
  auto options = std::make_shared<PackOptions>();
  options->threads = threads;
  auto& command = *data.add_subcommand("pack", "Put image folders into a few large files");
  command.add_option("from", options->from, "Directory with train/<class>/ and val/<class>/")
      ->required();
  command.add_option("-o,--out", options->out, "Directory to create")->required();
  command
      .add_option("--short-side", options->short_side,
                  "Pixels that the short side of larger images is shrunk to; 0: never shrink")
      ->check(integer_in(0, 65535))
      ->capture_default_str();
  command.add_option("--quality", options->quality, "JPEG quality")
      ->check(integer_in(1, 100))
      ->capture_default_str();
  command.add_option("--shard-bytes", options->shard_bytes, "Size of a file")
      ->check(integer_in(1, std::int64_t{1} << 40))
      ->capture_default_str();
  command.add_flag("--skip-bad", options->skip_bad, "Leave out images that cannot be decoded");
  command.add_option("--threads", options->threads, "Threads that decode")
      ->check(integer_in(1, 256))
      ->capture_default_str();
  command.footer(
      "The directory appears only when everything is written. Example:\n"
      "  normball data pack /data/imagenet --out /data/imagenet-256");
  command.callback([options] {
    const trainer::runtime::StopSignals signals;
    const trainer::runtime::StopWish stop;
    int tenth = 0;
    const PackResult result = pack_images(*options, [&](std::int64_t done, std::int64_t all) {
      if (stop.requested())
        throw std::runtime_error("[pack_images] interrupted; nothing was written");
      const int now = static_cast<int>(10 * done / all);
      if (now > tenth)
        std::cerr << 10 * now << " %  " << done << " of " << counted(all, "image") << '\n';
      tenth = now;
    });
    std::cout << "written to " << options->out << ": " << result.train << " training and "
              << result.validation << " validation images, " << result.shrunk << " of them shrunk, "
              << printed("%.1f MB", 1e-6 * static_cast<double>(result.bytes)) << '\n';
    if (result.skipped > 0) {
      std::cout << "left out: " << counted(result.skipped, "image")
                << " that cannot be decoded, the first: "
                << trainer::runtime::one_line(result.first_bad) << '\n';
    }
  });
}

}  // namespace normball::cli
