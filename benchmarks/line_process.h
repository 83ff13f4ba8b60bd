// A program that answers each line on its standard input with a line on its standard output.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <string>
#include <vector>

namespace normball::benchmarks {

class LineProcess {
 public:
  // The first word is the program, looked for on the PATH.
  explicit LineProcess(std::vector<std::string> command);
  ~LineProcess();  // closes its input and waits for its end
  LineProcess(const LineProcess&) = delete;
  LineProcess& operator=(const LineProcess&) = delete;

  // Throws where the program ended instead.
  std::string ask(const std::string& line);
  // In two parts, for several programs that work at the same time.
  void tell(const std::string& line);
  std::string answer();

 private:
  std::string name_;
  pid_t process_ = 0;
  std::FILE* input_ = nullptr;
  std::FILE* output_ = nullptr;
};

}  // namespace normball::benchmarks
