// Makes the next batch on a thread of its own while the last one is in use.
#pragma once

#include <future>
#include <utility>

#include "trainer/data/cursor.h"

namespace normball::data {

template <class Loader, class Batch>
class Prefetch {
 public:
  explicit Prefetch(Loader loader) : loader_(std::move(loader)), cursor_(loader_.cursor()) {
    start();
  }

  // Valid until the next call. An error in making it is thrown here.
  Batch& next() {
    pending_.get();
    std::swap(ready_, coming_);
    cursor_ = ready_.after;
    start();
    return ready_;
  }

  // Where the data stands after the batches handed out, not those made ahead.
  const DataCursor& cursor() const { return cursor_; }

 private:
  void start() {
    pending_ = std::async(std::launch::async, [this] { loader_.next(coming_); });
  }

  Loader loader_;
  Batch ready_, coming_;
  DataCursor cursor_;
  std::future<void> pending_;  // last: destroyed first, it waits for the thread
};

}  // namespace normball::data
