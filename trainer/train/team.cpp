#include "trainer/train/team.h"

#include <c10/util/Logging.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "normball/base/error.h"
#include "normball/base/processor.h"

namespace normball::trainer::train {
namespace {

constexpr auto timeout_variable = "NORMBALL_TIMEOUT";

ranks::JoinOptions join_options() {
  ranks::JoinOptions options;
  const char* const text = std::getenv(timeout_variable);
  if (text == nullptr || *text == 0) return options;
  constexpr int most = 86'400;
  int seconds = 0;
  const std::string_view value = text;
  const auto [end, error] = std::from_chars(value.begin(), value.end(), seconds);
  if (error != std::errc() || end != value.end() || seconds < 1 || seconds > most) {
    throw_invalid("ranks", timeout_variable, " must be seconds from 1 to ", most, ", got '", value,
                  "'");
  }
  options.timeout = std::chrono::seconds(seconds);
  return options;
}

}  // namespace

Team::Team(const ranks::Place& place)
    : place_(place), joining_(ranks::join(place, join_options())) {}

Team::~Team() = default;

std::shared_ptr<Team> Team::find() {
  const auto place = ranks::find_place();
  if (place) c10::initLogging();  // heeds TORCH_CPP_LOG_LEVEL, which launch sets
  return place ? std::make_shared<Team>(*place) : std::make_shared<Team>();
}

void Team::agree_on(const ranks::Facts& facts) {
  if (joining_) ranks_ = joining_->agree_on(facts);
}

void Team::set_activity(std::string activity) {
  if (ranks_) ranks_->set_activity(std::move(activity));
}

void Team::fail(const std::string& reason) noexcept {
  if (!joining_) return;
  joining_->fail(reason);
  const bool others_read_it_here = leads() && place_.file.empty() && !place_.port_is_open;
  if (!others_read_it_here) return;
  ranks_.reset();  // they notice when the connections are closed
  std::this_thread::sleep_for(std::chrono::seconds(1));
}

bool Team::any(bool own) const {
  if (!ranks_) return own;
  const auto all = gather(static_cast<char>(own));
  return std::ranges::any_of(all, [](char one) { return one != 0; });
}

void Team::require_same(const std::string& what, const std::string& text,
                        const std::string& remedy) const {
  if (!ranks_) return;
  struct Text {
    char start[200] = {};
    size_t hash = 0;
  };
  Text own;
  text.copy(own.start, sizeof own.start - 1);
  own.hash = std::hash<std::string>()(text);
  const auto all = gather(own);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].hash == all[0].hash) continue;
    throw ranks::RanksError(error_message("ranks", "rank ", rank, " has another ", what,
                                          " than rank 0: '", all[rank].start, "', there '",
                                          all[0].start, "'; ", remedy));
  }
}

void Team::sum(torch::Tensor tensor) const {
  if (ranks_) ranks_->all_reduce(std::move(tensor))->wait();
}

void Team::copy_from_first(const torch::Tensor& tensor) const {
  if (ranks_) ranks_->broadcast(tensor.detach(), 0)->wait();
}

int threads_in(const ranks::Place& place) {
  const int usable = usable_cpus();
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const bool bound = usable * place.local_size <= cores;
  return bound ? usable : std::max(1, usable / place.local_size);
}

}  // namespace normball::trainer::train
