#include "normball_torch/ranks/failures.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

#include "normball_torch/ranks/ranks.h"

namespace normball::ranks {

void wait_for(std::span<const std::unique_ptr<Pending>> pending) {
  std::exception_ptr first;
  for (const auto& one : pending) {
    try {
      one->wait();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

namespace {

// How long the others get to say that they, too, have lost somebody.
constexpr std::chrono::milliseconds patience = std::chrono::seconds(3);

// Only the first writes; a short text is there as a whole.
void write_first(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return;
  [[maybe_unused]] const auto written = ::write(file, text.data(), text.size());
  ::close(file);
}

std::string read_whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

bool poll(std::chrono::milliseconds time, const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

Failures::Failures(Board& board, int rank, int size) : board_(board), rank_(rank), size_(size) {
  if (const char* file = std::getenv("NORMBALL_FAILURE_FILE")) file_ = file;
}

void Failures::report(const std::string& reason) noexcept {
  const std::string text = "rank " + std::to_string(rank_) + ": " + reason;
  try {
    if (!file_.empty()) {
      write_first(file_, text);
      // What each says of itself, beside the first: a launcher tells a common error from one
      // rank's.
      write_first(file_ + "." + std::to_string(rank_), reason);
    }
    if (board_.first("failures")) board_.set("failure", text);
  } catch (...) {  // the store is gone, and with it those who would read
  }
}

std::optional<std::string> Failures::find() noexcept {
  try {
    if (!file_.empty()) {
      if (std::string text = read_whole(file_); !text.empty()) return text;
    }
    if (board_.has("failure")) return board_.get("failure");
  } catch (...) {  // the store is gone
  }
  return std::nullopt;
}

std::string Failures::explain(const std::string& activity, const std::string& error) noexcept {
  std::string silent;
  try {
    const auto lost = [](int rank) { return "lost/" + std::to_string(rank); };
    board_.set(lost(rank_), activity);
    std::optional<std::string> reason;
    poll(patience, [&] {
      reason = find();
      if (reason) return true;
      silent.clear();
      for (int rank = 0; rank < size_; ++rank) {
        if (board_.has(lost(rank))) continue;
        silent.append(silent.empty() ? "rank " : ", rank ").append(std::to_string(rank));
      }
      return silent.empty();
    });
    if (reason) return *reason;
  } catch (...) {
    silent = "rank 0, where all meet,";
  }
  if (auto reason = find()) return *reason;
  return (silent.empty() ? "a connection was lost" : silent + " ended or does not answer") +
         ", while rank " + std::to_string(rank_) + " was at " + activity + " (" + error + ")";
}

}  // namespace normball::ranks
