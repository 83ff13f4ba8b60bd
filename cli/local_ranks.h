// Several processes of this program on this machine, as ranks that train together: started, watched
// and stopped together.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace normball::cli {

struct LocalRanks {
  std::vector<std::string> command = {};  // for each: "train", its configuration, ...
  int count = 1;
  int threads = 1;  // of each
  int port = 0;     // where they meet, open to other machines; 0: at a file
  // How long a rank waits for another, and, with 5 more, how much longer than the first one that
  // ends the others may live.
  std::chrono::seconds timeout = std::chrono::seconds(60);
};

struct RanksEnd {
  int code = 0;    // of the rank that failed
  int signal = 0;  // that asked this process to stop, and was passed on to the ranks
  // Which rank failed first, by its own report or else as it seemed, and how; or that all did, with
  // the same error. Empty where all is well.
  std::string failure = {};
  std::string checkpoint = {};  // the last one that these ranks wrote; empty where there is none
};

// Returns when all have ended. Rank 0 has this process's output; what the others print appears on
// standard error when all have ended, each line once and with the rank, without what rank 0 said.
// SIGINT, SIGTERM and SIGHUP go on to all ranks. Throws std::runtime_error where they cannot be
// started.
RanksEnd run_local_ranks(const LocalRanks& ranks);

}  // namespace normball::cli
