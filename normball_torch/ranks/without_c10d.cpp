// In place of c10d.cpp where LibTorch comes without it, or without Gloo.
#include "normball/base/error.h"
#include "normball_torch/ranks/ranks.h"

namespace normball::ranks {

bool available() { return false; }

std::unique_ptr<Joining> join(const Place& place, const JoinOptions&) {
  throw std::runtime_error(error_message(
      "ranks", place.launcher, " started ", place.size,
      " processes, but this program was built without c10d: the headers of LibTorch's ",
      "ProcessGroupGloo or of Gloo (Debian: libgloo-dev) were not found"));
}

}  // namespace normball::ranks
