#include "benchmarks/line_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "normball/base/error.h"

namespace normball::benchmarks {

LineProcess::LineProcess(std::vector<std::string> command) : name_(command.at(0)) {
  int to_child[2], from_child[2];
  if (::pipe2(to_child, O_CLOEXEC) != 0 || ::pipe2(from_child, O_CLOEXEC) != 0) {
    throw_invalid("LineProcess", "cannot create a pipe: ", std::strerror(errno));
  }
  std::signal(SIGPIPE, SIG_IGN);  // a child that ended is seen by its missing answer
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to_child[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from_child[1], STDOUT_FILENO);
  std::vector<char*> words;
  for (auto& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  const int error = ::posix_spawnp(&process_, words[0], &actions, nullptr, words.data(), ::environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(to_child[0]);
  ::close(from_child[1]);
  input_ = ::fdopen(to_child[1], "w");
  output_ = ::fdopen(from_child[0], "r");
  if (error != 0) {
    process_ = 0;
    std::fclose(input_);
    std::fclose(output_);
    throw_invalid("LineProcess", "cannot start '", name_, "': ", std::strerror(error));
  }
}

LineProcess::~LineProcess() {
  std::fclose(input_);
  std::fclose(output_);
  ::waitpid(process_, nullptr, 0);
}

std::string LineProcess::ask(const std::string& line) {
  tell(line);
  return answer();
}

void LineProcess::tell(const std::string& line) {
  std::fputs((line + "\n").c_str(), input_);
  std::fflush(input_);
}

std::string LineProcess::answer() {
  char* answer = nullptr;
  size_t capacity = 0;
  const ssize_t length = ::getline(&answer, &capacity, output_);
  std::string text(answer, length > 0 ? static_cast<size_t>(length) - 1 : 0);
  std::free(answer);
  if (length <= 0) throw_invalid("LineProcess", "'", name_, "' ended without an answer");
  return text;
}

}  // namespace normball::benchmarks
