#include "trainer/run/run_files.h"

#include <cstdlib>
#include <fstream>
#include <system_error>
#include <vector>

#include "normball/base/error.h"
#include "trainer/files/atomic_file.h"
#include "trainer/run/tensorboard.h"

namespace normball::trainer::run {
namespace fs = std::filesystem;

void write_run_files(const fs::path& directory, const std::string& configuration,
                     const fs::path& vocabulary) {
  auto& files = files::FileSystem::real();
  files::write_file_atomically(files, directory / "config.toml", configuration);
  if (vocabulary.empty()) return;
  files::make_directories(files, directory / "tokenizer");
  for (const char* name : {"vocab.bpe", "encoder.json"}) {
    const fs::path from = vocabulary / name;
    if (fs::exists(from)) files::copy_file_atomically(files, from, directory / "tokenizer" / name);
  }
}

void copy_curves(const fs::path& from, const fs::path& to) {
  auto& files = files::FileSystem::real();
  std::vector<fs::path> names = event_files(from);
  names.emplace_back("metrics.jsonl");
  for (const auto& name : names) {
    if (!fs::exists(from / name) || fs::exists(to / name)) continue;
    files::copy_file_atomically(files, from / name, to / name);
  }
}

void require_run_files(const fs::path& directory, const MetricsWriter& metrics,
                       const fs::path& checkpoint) {
  std::error_code ignored;
  const fs::path config = directory / "config.toml", lines = directory / "metrics.jsonl";
  const bool has_config = fs::exists(config, ignored), has_lines = metrics.writes_to(lines),
             has_checkpoint = checkpoint.empty() || fs::exists(checkpoint / "state.json", ignored);
  std::vector<std::string> gone;
  if (!has_config) gone.push_back(config.string());
  if (!has_lines) gone.push_back(lines.string());
  if (!has_checkpoint) gone.push_back(checkpoint.string());
  if (gone.empty()) return;
  std::string names = gone.front();
  for (size_t i = 1; i < gone.size(); ++i) names.append(" and ").append(gone[i]);
  throw std::runtime_error(normball::error_message(
      "train", names, gone.size() == 1 ? " was" : " were",
      " removed or replaced while the run was trained. ",
      has_config ? "" : "Put config.toml back from a copy, or from `normball config --show`. ",
      "--resume continues from ",
      has_checkpoint && !checkpoint.empty() ? checkpoint.string()
                                            : "an earlier checkpoint, if there is one",
      has_lines ? "" : ", with curves that begin there if metrics.jsonl is missing"));
}

void tell_launcher(const fs::path& checkpoint) noexcept {
  const char* const file = std::getenv("NORMBALL_CHECKPOINT_FILE");
  if (file == nullptr || *file == 0) return;
  try {
    std::ofstream(file, std::ios::trunc) << checkpoint.string();
  } catch (const std::exception&) {  // the launcher then starts nothing again
  }
}

}  // namespace normball::trainer::run
