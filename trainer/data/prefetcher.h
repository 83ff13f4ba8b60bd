// Makes the next batches on a thread of its own while the current one is worked on. The batches are
// those of the loader, in its order; where the data stands goes with each batch (`after`), so what
// was made ahead and never delivered is made again after a resume.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace normball::trainer::data {

template <class Loader, class Batch>
class Prefetcher {
 public:
  // Keeps up to `ahead` batches ready.
  explicit Prefetcher(Loader loader, size_t ahead = 2)
      : loader_(std::move(loader)), empty_(ahead), thread_([this] { work(); }) {}

  ~Prefetcher() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Exchanges the batch for the next one; its buffers are reused. Throws what the loader threw.
  void next(Batch& batch) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || error_; });
    if (ready_.empty()) std::rethrow_exception(error_);
    std::swap(batch, ready_.front());
    empty_.push_back(std::move(ready_.front()));
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    try {
      for (;;) {
        changed_.wait(lock, [&] { return stop_ || !empty_.empty(); });
        if (stop_) return;
        Batch batch = std::move(empty_.back());
        empty_.pop_back();
        lock.unlock();
        loader_.next(batch);
        lock.lock();
        ready_.push_back(std::move(batch));
        changed_.notify_all();
      }
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      error_ = std::current_exception();
      changed_.notify_all();
    }
  }

  Loader loader_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Batch> empty_;
  std::deque<Batch> ready_;
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;  // last: it starts when all else is there
};

}  // namespace normball::trainer::data
