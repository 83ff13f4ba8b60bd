// Threads that share out numbered tasks.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace normball::trainer::data {

class Workers {
 public:
  // The calling thread is one of them.
  explicit Workers(int threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int threads() const { return static_cast<int>(threads_.size()) + 1; }

  // task(worker, i) for i = 0, ..., count - 1, each by one worker, 0 to threads() - 1. Once all are
  // done, throws what the one with the smallest i threw.
  using Task = std::function<void(int worker, std::int64_t i)>;
  void run(std::int64_t count, const Task& task);

 private:
  void work(int worker);
  void take(int worker, std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  const Task* task_ = nullptr;
  std::int64_t next_ = 0, count_ = 0, busy_ = 0;
  std::int64_t failed_ = -1;
  std::exception_ptr error_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace normball::trainer::data
