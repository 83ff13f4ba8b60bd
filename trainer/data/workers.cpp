#include "trainer/data/workers.h"

#include <utility>

namespace normball::trainer::data {

Workers::Workers(int threads) {
  for (int i = 1; i < threads; ++i) threads_.emplace_back([this, i] { work(i); });
}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void Workers::run(std::int64_t count, const Task& task) {
  std::unique_lock lock(mutex_);
  task_ = &task;
  next_ = 0;
  count_ = count;
  failed_ = -1;
  error_ = nullptr;
  changed_.notify_all();
  take(0, lock);
  changed_.wait(lock, [&] { return busy_ == 0; });
  task_ = nullptr;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Workers::work(int worker) {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || (task_ != nullptr && next_ < count_); });
    if (stop_) return;
    take(worker, lock);
  }
}

void Workers::take(int worker, std::unique_lock<std::mutex>& lock) {
  while (task_ != nullptr && next_ < count_) {
    const std::int64_t i = next_++;
    ++busy_;
    lock.unlock();
    std::exception_ptr error;
    try {
      (*task_)(worker, i);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error && (failed_ < 0 || i < failed_)) {
      failed_ = i;
      error_ = error;
    }
    if (--busy_ == 0 && next_ >= count_) changed_.notify_all();
  }
}

}  // namespace normball::trainer::data
