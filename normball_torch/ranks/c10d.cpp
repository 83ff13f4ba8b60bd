// Ranks on c10d's Gloo, over a TCPStore or a FileStore. All that differs between versions of
// LibTorch is here: from 2.0 on a ProcessGroupGloo is a Backend and no ProcessGroup, with the same
// functions.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <sstream>

#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO  // the header is empty without it
#endif
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "normball/base/error.h"
#include "normball/peers.h"
#include "normball_torch/ranks/failures.h"
#include "normball_torch/ranks/ranks.h"

namespace normball::ranks {
namespace {

using ::torch::Tensor;
using StorePointer = c10::intrusive_ptr<::c10d::Store>;

constexpr auto where = "ranks";
constexpr std::chrono::milliseconds store_patience = std::chrono::seconds(5);

// The first line: what follows is a backtrace or advice to programmers.
std::string first_line(const std::exception& error) {
  const auto* const own = dynamic_cast<const c10::Error*>(&error);
  std::string text = own != nullptr ? own->what_without_backtrace() : error.what();
  text = text.substr(0, text.find('\n'));
  return text.size() > 300 ? text.substr(0, 300) + "..." : text;
}

// A store that has not answered once is not asked again: every call would take its whole timeout.
class StoreBoard final : public Board {
 public:
  explicit StoreBoard(StorePointer store) : store_(std::move(store)) {}

  void set(const std::string& key, const std::string& text) override {
    ask([&] { store_->set(key, std::vector<std::uint8_t>(text.begin(), text.end())); });
  }
  bool has(const std::string& key) override { return has_all({key}); }
  std::string get(const std::string& key) override {
    const auto bytes = ask([&] { return store_->get(key); });
    return {bytes.begin(), bytes.end()};
  }
  bool first(const std::string& key) override {
    return ask([&] { return store_->add(key, 1) == 1; });
  }
  bool has_all(const std::vector<std::string>& keys) {
    return ask([&] { return store_->check(keys); });
  }

 private:
  template <class Call>
  auto ask(const Call& call) -> decltype(call()) {
    if (lost_) throw std::runtime_error("the store does not answer");
    try {
      return call();
    } catch (...) {
      lost_ = true;
      throw;
    }
  }

  StorePointer store_;
  bool lost_ = false;
};

using Explain = std::function<std::string(const std::string& error)>;

class C10dPending final : public Pending {
 public:
  C10dPending(c10::intrusive_ptr<::c10d::Work> work, Explain explain)
      : work_(std::move(work)), explain_(std::move(explain)) {}
  void wait() override {
    try {
      work_->wait();
    } catch (const std::exception& error) {
      throw RanksError(error_message(where, explain_(first_line(error))));
    }
  }
  bool done() const override { return work_->isCompleted() && work_->isSuccess(); }

 private:
  c10::intrusive_ptr<::c10d::Work> work_;
  Explain explain_;
};

// What the ranks have of this one's part, on its way to be added in their order.
class ReducedPart final : public Pending {
 public:
  ReducedPart(std::unique_ptr<Pending> arrival, Tensor part, Tensor received, int own)
      : arrival_(std::move(arrival)),
        part_(std::move(part)),
        received_(std::move(received)),
        own_(own) {}
  void wait() override {
    arrival_->wait();
    const std::int64_t count = part_.numel(), arrived = count == 0 ? 0 : received_.numel() / count;
    for (std::int64_t i = 0; i < arrived; ++i) {
      if (i != own_) part_.add_(received_.narrow(0, i * count, count));
    }
    received_.reset();
  }
  bool done() const override { return arrival_->done(); }

 private:
  std::unique_ptr<Pending> arrival_;
  Tensor part_, received_;
  int own_;  // which of those received is this rank's own; -1: none
};

class C10dRanks final : public Ranks {
 public:
  C10dRanks(c10::intrusive_ptr<::c10d::ProcessGroupGloo> group, std::shared_ptr<StoreBoard> board,
            int rank, int size)
      : group_(std::move(group)),
        board_(std::move(board)),
        failures_(*board_, rank, size),
        rank_(rank),
        size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void fail(const std::string& reason) noexcept override { failures_.report(reason); }

  void gather(std::span<const std::byte> own, std::span<std::byte> all) override {
    const auto bytes = [](const std::byte* data, size_t count) {
      return ::torch::from_blob(const_cast<std::byte*>(data), {static_cast<int64_t>(count)},
                                ::torch::kUInt8);
    };
    std::vector<Tensor> input = {bytes(own.data(), own.size())};
    std::vector<std::vector<Tensor>> output(1);
    for (int rank = 0; rank < size_; ++rank) {
      output[0].push_back(bytes(all.data() + static_cast<size_t>(rank) * own.size(), own.size()));
    }
    start([&] { return group_->allgather(output, input); })->wait();
  }

  std::unique_ptr<Pending> broadcast(Tensor tensor, int root) override {
    std::vector<Tensor> tensors = {std::move(tensor)};
    ::c10d::BroadcastOptions options;
    options.rootRank = root;
    return start([&] { return group_->broadcast(tensors, options); });
  }

  std::unique_ptr<Pending> all_reduce(Tensor tensor) override {
    std::vector<Tensor> tensors = {std::move(tensor)};
    return start([&] { return group_->allreduce(tensors); });
  }

  // Gloo has no reduce_scatter in LibTorch 1.13, and its reduce to one rank goes around a ring
  // first. All to all sends no more than has to be; the sum is taken here.
  std::unique_ptr<Pending> reduce_parts(Tensor tensor, std::vector<std::int64_t> parts) override {
    if (size_ > most_direct_processes) {
      const auto most = std::ranges::max_element(parts);
      if (*most == tensor.numel()) return reduce(tensor, static_cast<int>(most - parts.begin()));
      if (*most > 2 * tensor.numel() / size_) return all_reduce(tensor);
    }
    const std::int64_t own = parts[static_cast<size_t>(rank_)];
    const std::int64_t begin = std::accumulate(parts.begin(), parts.begin() + rank_, int64_t{0});
    // What a rank sends must be in one piece: so its own part goes along if it lies between others.
    const bool first = begin == 0, last = begin + own == tensor.numel();
    Tensor sent = tensor;
    if (first || last) {
      sent = first ? tensor.narrow(0, own, tensor.numel() - own) : tensor.narrow(0, 0, begin);
      parts[static_cast<size_t>(rank_)] = 0;
    }
    const std::int64_t itself = parts[static_cast<size_t>(rank_)];
    std::vector<std::int64_t> arriving(parts.size(), own);
    arriving[static_cast<size_t>(rank_)] = itself;
    Tensor received = ::torch::empty({own * (size_ - 1) + itself}, tensor.options());
    auto arrival = start([&] { return group_->alltoall_base(received, sent, arriving, parts); });
    return std::make_unique<ReducedPart>(std::move(arrival), tensor.narrow(0, begin, own), received,
                                         itself > 0 ? rank_ : -1);
  }

 private:
  template <class Call>
  std::unique_ptr<Pending> start(const Call& call) {
    const auto explain = [this](const std::string& error) {
      if (lost_.empty()) lost_ = failures_.explain(activity(), error);  // which takes seconds
      return lost_;
    };
    try {
      return std::make_unique<C10dPending>(call(), explain);
    } catch (const std::exception& error) {
      throw RanksError(error_message(where, explain(first_line(error))));
    }
  }

  std::unique_ptr<Pending> reduce(Tensor tensor, int root) {
    std::vector<Tensor> tensors = {std::move(tensor)};
    ::c10d::ReduceOptions options;
    options.rootRank = root;
    return start([&] { return group_->reduce(tensors, options); });
  }

  c10::intrusive_ptr<::c10d::ProcessGroupGloo> group_;
  std::shared_ptr<StoreBoard> board_;
  Failures failures_;
  int rank_, size_;
  std::string lost_;  // why no more calls can work
};

std::string text_of(const Facts& facts) {
  std::string text;
  for (const auto& [name, value] : facts) text += name + '\x1f' + value + '\x1e';
  return text;
}

Facts facts_of(const std::string& text) {
  Facts facts;
  std::istringstream in(text);
  for (std::string fact; std::getline(in, fact, '\x1e');) {
    const size_t cut = fact.find('\x1f');
    facts.emplace_back(fact.substr(0, cut), fact.substr(cut + 1));
  }
  return facts;
}

// The first line in which two texts differ.
std::pair<std::string, std::string> differing_lines(const std::string& a, const std::string& b) {
  std::istringstream first(a), second(b);
  for (std::string x, y;;) {
    const bool more = static_cast<bool>(std::getline(first, x));
    if (!more) x.clear();
    if (!std::getline(second, y)) y.clear();
    if (x != y || !more) return {x, y};
  }
}

std::string difference(const Facts& own, const Facts& first) {
  for (size_t i = 0; i < own.size(); ++i) {
    if (i < first.size() && own[i] == first[i]) continue;
    if (i >= first.size() || own[i].first != first[i].first) break;
    const auto [here, there] = differing_lines(own[i].second, first[i].second);
    return "another " + own[i].first + " than rank 0: '" + here + "', there '" + there + "'";
  }
  return own.size() == first.size() ? "" : "other facts than rank 0: it is another program";
}

std::shared_ptr<::gloo::transport::Device> device_of(const Place& place) {
  using Gloo = ::c10d::ProcessGroupGloo;
  const char* const interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr && *interface != 0) return Gloo::createDeviceForInterface(interface);
  if (place.local_size == place.size) return Gloo::createDeviceForHostname("127.0.0.1");
  return Gloo::createDefaultDevice();
}

class StoreJoining final : public Joining {
 public:
  StoreJoining(StorePointer store, Place place, const JoinOptions& options)
      : store_(std::move(store)),
        place_(std::move(place)),
        options_(options),
        board_(std::make_shared<StoreBoard>(store_)),
        failures_(*board_, place_.rank, place_.size) {}

  std::shared_ptr<Ranks> agree_on(const Facts& facts) override {
    try {
      board_->set(key("facts", place_.rank), text_of(facts));
      wait_for_all("facts");
      const std::string text = difference(facts, facts_of(board_->get(key("facts", 0))));
      if (!text.empty()) {
        fail(text);
        throw RanksError(error_message(where, "rank ", place_.rank, ": ", text));
      }
      board_->set(key("agreed", place_.rank), "yes");
      wait_for_all("agreed");
      return connect();
    } catch (const RanksError&) {
      throw;
    } catch (const std::exception& error) {
      throw RanksError(error_message(where, failures_.explain("the start", first_line(error))));
    }
  }

  void fail(const std::string& reason) noexcept override { failures_.report(reason); }

 private:
  static std::string key(const std::string& name, int rank) {
    return name + "/" + std::to_string(rank);
  }

  void wait_for_all(const std::string& name) {
    std::vector<std::string> keys;
    for (int rank = 0; rank < place_.size; ++rank) keys.push_back(key(name, rank));
    const bool all = poll(options_.start_timeout, [&] {
      if (const auto reason = failures_.find()) throw RanksError(error_message(where, *reason));
      return board_->has_all(keys);
    });
    if (all) return;
    std::string missing;
    for (int rank = 0; rank < place_.size; ++rank) {
      if (!board_->has(key(name, rank))) missing.append(" ").append(std::to_string(rank));
    }
    throw RanksError(error_message(where, "of ", place_.size, " ranks these did not join within ",
                                   options_.start_timeout.count() / 1000, " s:", missing));
  }

  std::shared_ptr<Ranks> connect() {
    const auto options = ::c10d::ProcessGroupGloo::Options::create(options_.timeout);
    try {
      options->devices.push_back(device_of(place_));
    } catch (const std::exception& error) {
      const std::string text = "no network interface (GLOO_SOCKET_IFNAME): " + first_line(error);
      fail(text);
      throw RanksError(error_message(where, "rank ", place_.rank, ": ", text));
    }
    auto group =
        c10::make_intrusive<::c10d::ProcessGroupGloo>(store_, place_.rank, place_.size, options);
    // From now on it is asked after a failure only, whose message should not wait twice as long.
    store_->setTimeout(std::min(options_.timeout, store_patience));
    return std::make_shared<C10dRanks>(std::move(group), board_, place_.rank, place_.size);
  }

  StorePointer store_;
  Place place_;
  JoinOptions options_;
  std::shared_ptr<StoreBoard> board_;
  Failures failures_;
};

// Since 2.4 a store is on libuv unless told otherwise, also where LibTorch was built without it.
template <class Options>
void without_libuv(Options& options) {
  if constexpr (requires { options.useLibUV; }) options.useLibUV = false;
}

StorePointer open_port(const Place& place, const JoinOptions& options) {
  ::c10d::TCPStoreOptions tcp;
  tcp.port = static_cast<std::uint16_t>(place.port);
  tcp.isServer = place.rank == 0 && !place.port_is_open;
  tcp.numWorkers = place.size;
  tcp.waitWorkers = false;
  tcp.timeout = options.start_timeout;
  without_libuv(tcp);
  try {
    return c10::make_intrusive<::c10d::TCPStore>(place.address, tcp);
  } catch (const std::exception& error) {
    throw RanksError(error_message(
        where, "rank ", place.rank, " cannot ", tcp.isServer ? "open port " : "reach port ",
        place.port, " of ", place.address, " (MASTER_PORT, MASTER_ADDR)",
        tcp.isServer ? ", which another program may have taken: " : ": ", first_line(error)));
  }
}

}  // namespace

bool available() { return true; }

std::unique_ptr<Joining> join(const Place& place, const JoinOptions& options) {
  StorePointer store;
  if (place.file.empty()) {
    store = open_port(place, options);
  } else {
    store = c10::make_intrusive<::c10d::FileStore>(place.file, -1);  // which its maker removes
  }
  store = c10::make_intrusive<::c10d::PrefixStore>("normball/" + place.attempt, std::move(store));
  store->setTimeout(options.timeout);
  return std::make_unique<StoreJoining>(std::move(store), place, options);
}

}  // namespace normball::ranks
