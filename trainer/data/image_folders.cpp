// A folder for each class.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "trainer/data/data_error.h"
#include "trainer/data/image_files.h"
#include "trainer/files/checksum.h"
#include "trainer/files/file_system.h"
#include "trainer/images/image_error.h"

namespace normball::trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* where = "load_image_folders";
constexpr std::uintmax_t largest_file = std::uintmax_t{1} << 30;

bool is_image_name(const fs::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png" || ending == ".webp";
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

// What is not there at all is for reading to say. A pipe would be waited for.
void require_file(const std::string& path) {
  std::error_code error;
  const fs::file_type kind = fs::status(path, error).type();
  if (kind == fs::file_type::regular) return;
  const bool link = fs::is_symlink(path, error);
  if (kind == fs::file_type::not_found && !link) return;
  images::fail(where, path, link ? ": is a link that leads to no file" : ": is not a regular file",
               "; remove it, or set data.bad_images = \"skip\"");
}

class Folder final : public ImageFiles::Source {
 public:
  Folder(fs::path directory, const std::vector<std::string>& classes)
      : directory_(std::move(directory)), classes_(classes) {}

  void add(std::int64_t label, std::vector<std::string> names) {
    std::ranges::sort(names);
    for (auto& name : names) files_.push_back({std::move(name), label});
  }

  std::int64_t count() const override { return static_cast<std::int64_t>(files_.size()); }
  std::int64_t label(std::int64_t i) const override { return file(i).label; }
  std::string name(std::int64_t i) const override {
    return (directory_ / classes_[static_cast<size_t>(label(i))] / file(i).name).string();
  }
  std::span<const std::uint8_t> bytes(std::int64_t i, std::string& buffer) const override {
    const std::string path = name(i);
    require_file(path);
    buffer = files::read_small_file(path, largest_file);
    return {reinterpret_cast<const std::uint8_t*>(buffer.data()), buffer.size()};
  }
  std::string digest() const override {
    std::uint32_t crc = 0;
    for (std::int64_t i = 0; i < count(); ++i) {
      std::error_code missing;
      const auto size = fs::file_size(name(i), missing);
      crc = files::crc32c(classes_[static_cast<size_t>(label(i))] + '/' + file(i).name + '\n' +
                              (missing ? "?" : std::to_string(size)) + '\n',
                          crc);
    }
    return files::checksum_text(crc);
  }

 private:
  struct File {
    std::string name;
    std::int64_t label;
  };
  const File& file(std::int64_t i) const { return files_[static_cast<size_t>(i)]; }

  fs::path directory_;
  std::vector<std::string> classes_;
  std::vector<File> files_;
};

std::vector<std::string> folders_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.is_directory() && !is_hidden(entry.path())) names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

ImageFiles list_part(const fs::path& directory, const std::vector<std::string>& classes,
                     std::int64_t& ignored) {
  auto part = std::make_shared<Folder>(directory, classes);
  const auto present = folders_in(directory);
  if (present.empty()) {
    fail(where, directory.string(),
         ": has no folders; sort the images into a folder for each class, as in train");
  }
  for (const auto& name : present) {
    const auto found = std::ranges::lower_bound(classes, name);
    if (found == classes.end() || *found != name) {
      fail(where, (directory / name).string(),
           ": is a class without training images; a folder of this name is needed in train, too");
    }
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory / name)) {
      if (is_hidden(entry.path())) continue;
      if (is_image_name(entry.path())) {
        names.push_back(entry.path().filename());
      } else {
        ++ignored;
      }
    }
    if (names.empty()) {
      fail(where, (directory / name).string(),
           ": has no images (*.jpg, *.jpeg, *.png, *.webp); remove the folder, or fill it");
    }
    part->add(found - classes.begin(), std::move(names));
  }
  return ImageFiles(part);
}

fs::path validation_of(const fs::path& directory) {
  std::error_code ignored;
  for (const char* name : {"val", "validation"}) {
    if (fs::is_directory(directory / name, ignored)) return directory / name;
  }
  // ImageNet's test images have no classes; other sets have only these two parts.
  const fs::path test = directory / "test";
  return fs::is_directory(test, ignored) && !folders_in(test).empty() ? test : fs::path();
}

}  // namespace

std::string ImageFiles::digest() const {
  if (!source_) return "none";
  return source_->digest() + " of " + std::to_string(count()) + " images' names and sizes";
}

bool is_image_folders(const std::string& directory) {
  std::error_code ignored;
  const fs::path train = fs::path(directory) / "train";
  return fs::is_directory(train, ignored) && !folders_in(train).empty();
}

ImageFolders load_image_folders(const std::string& directory) {
  if (!is_image_folders(directory)) {
    fail(where, directory, ": has no train/<class>/ with images; name the directory above train");
  }
  const fs::path base(directory);
  ImageFolders data{
      .kind = "image folders", .path = directory, .class_names = folders_in(base / "train")};
  data.train = list_part(base / "train", data.class_names, data.ignored);
  const fs::path validation = validation_of(base);
  if (!validation.empty()) {
    data.validation = list_part(validation, data.class_names, data.ignored);
  }
  return data;
}

ImageFolders load_image_files(const std::string& directory) {
  return is_packed_images(directory) ? load_packed_images(directory)
                                     : load_image_folders(directory);
}

std::vector<std::int64_t> class_histogram(const ImageFiles& images, std::int64_t classes) {
  std::vector<std::int64_t> counts(static_cast<size_t>(classes));
  for (std::int64_t i = 0; i < images.count(); ++i) ++counts[static_cast<size_t>(images.label(i))];
  return counts;
}

}  // namespace normball::trainer::data
