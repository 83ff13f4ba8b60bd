// A directory that appears complete or not at all.
#pragma once

#include <filesystem>
#include <string>

namespace normball::trainer::data {

// Written beside the final one, and removed unless it is renamed to it.
class PartialDirectory {
 public:
  // `where` names the caller in errors. The path must be new, or an empty directory.
  PartialDirectory(const char* where, const std::string& path);
  ~PartialDirectory();
  PartialDirectory(const PartialDirectory&) = delete;
  PartialDirectory& operator=(const PartialDirectory&) = delete;

  std::string path() const { return partial_.string(); }
  void commit();

 private:
  const char* where_;
  std::filesystem::path final_, partial_;
};

}  // namespace normball::trainer::data
