// A temporary directory where local ranks meet, and where they leave word for their launcher.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace normball::cli {

// Removed with all that is in it.
class MeetingPlace {
 public:
  MeetingPlace();
  ~MeetingPlace();
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;

  std::string store() const { return path_ / "store"; }
  // The environment variables by which ranks know where to leave word.
  std::map<std::string, std::string> variables() const;

  // Why the first rank failed, "rank 1: reason", and why a rank did by itself: not since another
  // one had. Empty where nothing was said.
  std::string first_failure() const;
  std::string failure_of(int rank) const;
  // That of a rank which cannot say it itself, unless one has.
  void report(const std::string& failure) const;

  // Whether each of so many ranks, and more than one, failed by itself and for the same reason.
  bool all_failed_alike(int ranks) const;

  // The last one that was written; empty where there is none.
  std::string checkpoint() const;

 private:
  std::filesystem::path path_;
};

}  // namespace normball::cli
