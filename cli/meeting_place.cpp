#include "cli/meeting_place.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "normball/base/error.h"

namespace normball::cli {
namespace {

std::string text_in(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

MeetingPlace::MeetingPlace() {
  std::string name = std::filesystem::temp_directory_path() / "normball-ranks-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error(
        error_message("launch", "a temporary directory cannot be made: ", std::strerror(errno)));
  }
  path_ = name;
}

MeetingPlace::~MeetingPlace() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::map<std::string, std::string> MeetingPlace::variables() const {
  return {{"NORMBALL_FAILURE_FILE", path_ / "failure"},
          {"NORMBALL_CHECKPOINT_FILE", path_ / "checkpoint"}};
}

std::string MeetingPlace::first_failure() const { return text_in(path_ / "failure"); }

std::string MeetingPlace::failure_of(int rank) const {
  return text_in(path_ / ("failure." + std::to_string(rank)));
}

void MeetingPlace::report(const std::string& failure) const {
  const auto path = path_ / "failure";
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return;
  [[maybe_unused]] const auto written = ::write(file, failure.data(), failure.size());
  ::close(file);
}

bool MeetingPlace::all_failed_alike(int ranks) const {
  const std::string reason = failure_of(0);
  if (reason.empty() || ranks < 2) return false;
  for (int rank = 1; rank < ranks; ++rank) {
    if (failure_of(rank) != reason) return false;
  }
  return true;
}

std::string MeetingPlace::checkpoint() const { return text_in(path_ / "checkpoint"); }

}  // namespace normball::cli
