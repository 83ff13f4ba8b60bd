#include "cli/contact_sheet.h"

#include <algorithm>
#include <iostream>
#include <memory>

#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "trainer/images/encode.h"
#include "trainer/train/folder_options.h"

namespace normball::cli {
namespace {

using namespace trainer::data;
using trainer::images::Image;

// A white page with pictures on it.
class Sheet {
 public:
  Sheet(int columns, int rows, int size) : size_(size) {
    page_.reshape(gap + first_gap + columns * (size + gap), gap + rows * (size + gap) + first_gap);
    std::ranges::fill(page_.pixels, std::uint8_t{255});
  }

  // The first column stands a little apart, and so do rows from `below` on.
  void draw(int column, int row, bool below, const float* planes) {
    const int left = gap + column * (size_ + gap) + (column > 0 ? first_gap : 0);
    const int top = gap + row * (size_ + gap) + (below ? first_gap : 0);
    for (int y = 0; y < size_; ++y) {
      std::uint8_t* to = page_.row(top + y) + 4 * left;
      for (int x = 0; x < size_; ++x) {
        for (int c = 0; c < 3; ++c) {
          const float value = planes[(c * size_ + y) * size_ + x];
          const float byte =
              255 * (value * trainer::images::image_std[c] + trainer::images::image_mean[c]);
          to[4 * x + c] = static_cast<std::uint8_t>(std::clamp(byte + 0.5f, 0.f, 255.f));
        }
      }
    }
  }
  const Image& page() const { return page_; }

 private:
  static constexpr int gap = 6, first_gap = 14;
  int size_;
  Image page_;
};

// How images are shown, and the batches of which a row is shown mixed.
struct Plan {
  trainer::images::AugmentOptions augment;
  std::vector<FolderLoaderOptions> mixed = {};
  std::string mixed_text = {};
};

Plan as_for_deit(int size) {
  Plan plan{.augment = {.size = size, .operations = 2, .erase = 0.25}};
  for (const MixOptions& mix : {MixOptions{.mixup = 0.8}, MixOptions{.cutmix = 1.0}}) {
    plan.mixed.push_back({.augment = {.size = size}, .mix = mix});
  }
  plan.mixed_text = "Mixup and CutMix";
  return plan;
}

Plan as_configured(const std::string& path, const SheetOptions& options) {
  require_not_set(options.settings, "data.path", path);
  auto settings = options.settings;
  settings.push_back("data.path=" + path);
  const auto config = load_with_warnings(options.config, settings);
  if (config.data.kind != "folder") {
    throw CLI::ValidationError("--config", options.config + " has data.kind = \"" +
                                               config.data.kind +
                                               "\"; images are augmented so with \"folder\" "
                                               "(--set data.kind=folder)");
  }
  const auto loading = trainer::train::folder_options(config);
  Plan plan{.augment = loading.augment};
  if (loading.mix.any()) {
    plan.mixed.push_back(loading);
    plan.mixed_text = loading.mix.mixup == 0    ? "CutMix"
                      : loading.mix.cutmix == 0 ? "Mixup"
                                                : "Mixup or CutMix";
  }
  return plan;
}

}  // namespace

void write_contact_sheet(const std::string& path, const SheetOptions& options) {
  const Plan plan =
      options.config.empty() ? as_for_deit(options.size) : as_configured(path, options);
  const ImageFolders data = load_image_files(path);
  OutputFile file("data show", options.out);
  constexpr int columns = 7;
  const int rows = static_cast<int>(std::min<std::int64_t>(6, data.train.count()));
  const int size = plan.augment.size;
  Sheet sheet(columns, rows + static_cast<int>(plan.mixed.size()), size);
  trainer::images::Augmenter augmenter(plan.augment);
  std::vector<float> planes(static_cast<size_t>(3 * size * size));
  std::string buffer;
  for (int row = 0; row < rows; ++row) {
    const std::int64_t i = (2 * row + 1) * data.train.count() / (2 * rows);
    const auto bytes = data.train.bytes(i, buffer);
    augmenter.evaluation(bytes, data.train.name(i), planes.data());
    sheet.draw(0, row, false, planes.data());
    for (int column = 1; column < columns; ++column) {
      augmenter.training(bytes, data.train.name(i),
                         random_for(options.seed, Purpose::Augment, column, i), planes.data());
      sheet.draw(column, row, false, planes.data());
    }
  }
  int row = rows;
  for (FolderLoaderOptions loading : plan.mixed) {
    loading.batch = std::min<std::int64_t>(columns - 1, data.train.count());
    loading.classes = data.classes();
    loading.threads = 1;
    loading.skipped = std::make_shared<BadImages>();
    ImageBatch batch;
    FolderLoader(data.train, loading, {.seed = options.seed}).next(batch);
    for (int column = 0; column < batch.count; ++column) {
      sheet.draw(column + 1, row, true, batch.pixels.data() + column * 3 * size * size);
    }
    ++row;
  }
  const auto png = encode_png(sheet.page());
  file.write({reinterpret_cast<const char*>(png.data()), png.size()});
  std::cout << options.out << ": " << counted(rows, "row")
            << " of an image as it is evaluated and its augmentations "
            << (options.config.empty() ? "as for DeiT" : "as " + options.config + " has them");
  if (!plan.mixed.empty()) {
    std::cout << ", then " << plan.mixed_text
              << " of other images, each with the one at the same place from the end";
  }
  std::cout << '\n';
}

}  // namespace normball::cli
