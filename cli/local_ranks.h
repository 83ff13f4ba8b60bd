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
  int port = 0;     // of 127.0.0.1, where they meet; 0: at a file
  // How long a rank waits for another, and, with 5 more, how much longer than the first one that
  // ends the others may live.
  std::chrono::seconds timeout = std::chrono::seconds(60);
};

struct RanksEnd {
  int code = 0;              // of the first rank that failed
  int signal = 0;            // that asked this process to stop, and was passed on to the ranks
  std::string failure = {};  // which rank failed and how; empty where all is well
};

// Returns when all have ended. Rank 0 has this process's output; what the others print appears on
// standard error when they end, each line once and with the rank. SIGINT, SIGTERM and SIGHUP go on
// to all ranks. Throws std::runtime_error where they cannot be started.
RanksEnd run_local_ranks(const LocalRanks& ranks);

}  // namespace normball::cli
