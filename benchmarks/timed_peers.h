// The ranks' peers with a watch: when the last direction was found here, and how long those of
// others were waited for. A process alone has the watch only.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "normball_torch/ranks/shared_directions.h"

namespace normball::benchmarks {

class TimedPeers final : public Peers<float> {
 public:
  TimedPeers(std::shared_ptr<ranks::Ranks> ranks, std::span<const Layer> layers)
      : owners_(share_layers(layers, ranks ? ranks->size() : 1)) {
    if (ranks) {
      peers_ = std::make_unique<ranks::SharedDirections<float>>(std::move(ranks), layers, owners_);
    }
  }

  double lmos() const { return lmos_; }
  double waited() const { return waited_; }

  int rank() const override { return peers_ ? peers_->rank() : 0; }
  int size() const override { return peers_ ? peers_->size() : 1; }
  int owner(size_t layer) const override { return owners_[layer]; }
  void gather(std::span<const std::byte> own, std::span<std::byte> all) override {
    peers_ ? peers_->gather(own, all) : static_cast<void>(std::ranges::copy(own, all.begin()));
  }
  void start(std::span<const MatrixView<float>> directions) override {
    start_ = Clock::now();
    lmos_ = 0;
    if (peers_) peers_->start(directions);
  }
  void found(size_t layer) override {
    {
      const std::lock_guard lock(mutex_);
      lmos_ = seconds_since(start_);
    }
    if (peers_) peers_->found(layer);
  }
  void wait() override {
    const auto start = Clock::now();
    if (peers_) peers_->wait();
    waited_ = seconds_since(start);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  std::vector<int> owners_;
  std::unique_ptr<Peers<float>> peers_;
  Clock::time_point start_;
  std::mutex mutex_;  // of lmos_: found() comes from threads
  double lmos_ = 0, waited_ = 0;
};

}  // namespace normball::benchmarks
