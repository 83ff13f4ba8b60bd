// Real ranks for tests: this program started again several times, each with a body to run.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "temporary_directory.h"

namespace support {

using Environment = std::map<std::string, std::string>;

struct RankResult {
  int code = -1;  // or minus the signal
  std::string text;
  double seconds = 0;
};

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The environment is set between fork() and exec(): nothing else runs there.
inline pid_t start_body(const std::string& body, const Environment& variables,
                        const std::string& output) {
  const pid_t child = fork();
  if (child != 0) return child;
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  if (freopen(output.c_str(), "w", stderr) == nullptr) _exit(90);
  execl("/proc/self/exe", "rank", body.c_str(), nullptr);
  _exit(91);
}

// `own` may change a rank's variables.
inline std::vector<RankResult> run_ranks(
    const std::string& body, int count, const std::filesystem::path& directory,
    const std::function<void(int rank, Environment&)>& own = nullptr) {
  std::vector<pid_t> children;
  const auto text = [&](int rank) {
    return (directory / ("text" + std::to_string(rank))).string();
  };
  static int meeting = 0;
  const std::string store = directory / ("store" + std::to_string(meeting++));
  const auto start = std::chrono::steady_clock::now();
  for (int rank = 0; rank < count; ++rank) {
    Environment variables = {{"DIRECTORY", directory.string()}, {"OMP_NUM_THREADS", "1"}};
    if (count > 1) {
      variables.insert({{"RANK", std::to_string(rank)},
                        {"WORLD_SIZE", std::to_string(count)},
                        {"LOCAL_RANK", std::to_string(rank)},
                        {"LOCAL_WORLD_SIZE", std::to_string(count)},
                        {"NORMBALL_STORE", store}});
    }
    if (own) own(rank, variables);
    children.push_back(start_body(body, variables, text(rank)));
  }
  std::vector<RankResult> results(children.size());
  for (size_t left = children.size(); left > 0; --left) {
    int status = 0;
    const pid_t ended = wait(&status);
    const auto rank = std::ranges::find(children, ended) - children.begin();
    RankResult& result = results[static_cast<size_t>(rank)];
    result.code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    result.text = file_text(text(static_cast<int>(rank)));
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return results;
}

}  // namespace support
