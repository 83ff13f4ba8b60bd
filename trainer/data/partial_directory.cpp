#include "trainer/data/partial_directory.h"

#include "trainer/data/data_error.h"
#include "trainer/files/atomic_file.h"

namespace normball::trainer::data {

namespace fs = std::filesystem;

PartialDirectory::PartialDirectory(const char* where, const std::string& path)
    : where_(where), final_(fs::absolute(path).lexically_normal()) {
  if (!final_.has_filename()) final_ = final_.parent_path();  // a trailing slash
  std::error_code error;
  if (fs::exists(final_, error) &&
      !(fs::is_directory(final_, error) && fs::is_empty(final_, error))) {
    fail(where, final_.string(), ": exists and is not an empty directory; name a new one");
  }
  fs::create_directories(final_.parent_path(), error);
  while (!error) {  // a process of the same number may have died and left its directory
    partial_ = files::partial_name(final_);
    if (fs::create_directory(partial_, error)) return;
  }
  partial_.clear();
  fail(where, final_.string(), ": cannot be created: ", error.message(),
       "; name a directory that can be written");
}

PartialDirectory::~PartialDirectory() {
  std::error_code ignored;
  if (!partial_.empty()) fs::remove_all(partial_, ignored);
}

void PartialDirectory::commit() {
  files::sync_directory(files::FileSystem::real(), partial_);
  std::error_code error;
  fs::rename(partial_, final_, error);  // replaces an empty directory
  if (error) fail(where_, final_.string(), ": cannot be put in place: ", error.message());
  partial_.clear();
  files::sync_directory(files::FileSystem::real(), final_.parent_path());
}

}  // namespace normball::trainer::data
