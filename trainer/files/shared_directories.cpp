#include "trainer/files/shared_directories.h"

#include <cstdlib>

namespace normball::trainer::files {
namespace fs = std::filesystem;

std::vector<fs::path> shared_directories(const char* variable, const fs::path& installed,
                                         const fs::path& source) {
  std::vector<fs::path> directories;
  if (const char* own = std::getenv(variable); own != nullptr && *own != '\0') {
    directories.emplace_back(own);
  }
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  if (!program.empty()) directories.push_back(program.parent_path().parent_path() / installed);
  directories.push_back(source);
  std::erase_if(directories,
                [&](const fs::path& path) { return !fs::is_directory(path, ignored); });
  return directories;
}

}  // namespace normball::trainer::files
