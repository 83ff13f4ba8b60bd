// The files that options like --json name.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace normball::cli {

// Tried before the work, so that a wrong path costs none. What stands there stays until write(),
// and a new file is there only when it is whole, also where the process is ended by a signal.
// Symbolic links are followed, pipes and devices written to as they are.
class OutputFile {
 public:
  // An empty path: no file is wanted, write() does nothing.
  OutputFile(std::string_view command, std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view text);

 private:
  std::string command_, path_;
  std::filesystem::path target_;
  int file_ = -1;
  bool new_ = false;
};

// Throws CLI::ValidationError where both name one regular file: the second would replace the first.
void require_two_files(std::string_view command, const std::string& first,
                       const std::string& second);

}  // namespace normball::cli
