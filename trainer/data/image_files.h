// Labelled images that stay compressed until they are needed: a folder for each class, as ImageNet
// has them, or shards that `normball data pack` wrote.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace normball::trainer::data {

// One part of a data set. A value; copies share.
class ImageFiles {
 public:
  class Source {
   public:
    virtual ~Source() = default;
    virtual std::int64_t count() const = 0;
    virtual std::int64_t label(std::int64_t i) const = 0;
    virtual std::string name(std::int64_t i) const = 0;
    virtual std::span<const std::uint8_t> bytes(std::int64_t i, std::string& buffer) const = 0;
    virtual std::string digest() const = 0;
  };

  ImageFiles() = default;
  explicit ImageFiles(std::shared_ptr<const Source> source) : source_(std::move(source)) {}

  std::int64_t count() const { return source_ ? source_->count() : 0; }
  std::int64_t label(std::int64_t i) const { return source_->label(i); }
  // Of the file, for messages.
  std::string name(std::int64_t i) const { return source_->name(i); }
  // The compressed image. The buffer is where a file is read into; what is mapped leaves it alone.
  std::span<const std::uint8_t> bytes(std::int64_t i, std::string& buffer) const {
    return source_->bytes(i, buffer);
  }
  // Of the files' names, sizes and labels, in their order: a resumed run must have the same. The
  // images themselves may be too many to read them all before every run.
  std::string digest() const;

 private:
  std::shared_ptr<const Source> source_;
};

struct ImageFolders {
  std::string kind;  // "image folders" or "packed images"
  std::string path;
  ImageFiles train = {}, validation = {};
  std::vector<std::string> class_names = {};
  std::int64_t ignored = 0;  // files that are no images by their names

  std::int64_t classes() const { return static_cast<std::int64_t>(class_names.size()); }
};

// train/<class>/*.jpg, *.jpeg, *.png or *.webp in either case, and the same in val/ (or
// validation/, or test/) if it is there. Classes are numbered in the order of their names.
ImageFolders load_image_folders(const std::string& directory);
bool is_image_folders(const std::string& directory);

// What `normball data pack` wrote.
ImageFolders load_packed_images(const std::string& directory);
bool is_packed_images(const std::string& directory);

// Either.
ImageFolders load_image_files(const std::string& directory);

std::vector<std::int64_t> class_histogram(const ImageFiles& images, std::int64_t classes);

}  // namespace normball::trainer::data
