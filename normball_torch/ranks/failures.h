// Why a rank failed, for all others to read: in the store, and in a file where the launcher has one
// (it also knows of ranks that were killed, and outlives them). Internal.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace normball::ranks {

// What c10d's stores can do; each may throw.
class Board {
 public:
  virtual ~Board() = default;
  virtual void set(const std::string& key, const std::string& text) = 0;
  virtual bool has(const std::string& key) = 0;
  virtual std::string get(const std::string& key) = 0;  // of a key that is there
  virtual bool first(const std::string& key) = 0;       // whether nobody asked before
};

class Failures {
 public:
  Failures(Board& board, int rank, int size);

  // The first reason of all ranks: "rank 2: ...".
  void report(const std::string& reason) noexcept;
  std::optional<std::string> find() noexcept;

  // After a call of c10d failed with `error`: who failed and why, or else who does not answer.
  std::string explain(const std::string& activity, const std::string& error) noexcept;

 private:
  Board& board_;
  int rank_, size_;
  std::string file_;
};

// Calls `done` every few milliseconds until it is true; false where the time is over.
bool poll(std::chrono::milliseconds time, const std::function<bool()>& done);

}  // namespace normball::ranks
