// Runs independent pieces of work on the OpenMP team of this process.
#pragma once

#include <functional>

#include "normball/matrix_view.h"

namespace normball {

// With more threads than this, the OpenMP runtime crashes instead of reporting an error.
inline constexpr int max_threads = 4096;

// The number set by set_default_threads(), or else OpenMP's current default for the calling thread
// (OMP_NUM_THREADS, omp_set_num_threads(), or the cores), up to max_threads. If no number was set
// at all, no more than the control group of this process grants (usable_cpus() in processor.h).
int default_threads();

// For the whole process, from 1 to max_threads; 0 returns to OpenMP's default. OpenMP's own
// setting, which other libraries in the process read, does not change.
void set_default_threads(int threads);
int chosen_threads();  // 0 if none was set

// Limits BLAS to one thread in its scope, so that results do not depend on the number of threads,
// and small matrices are not slowed down by waking other threads. Affects only the calling thread.
class SingleThreadedBlas {
 public:
  SingleThreadedBlas();
  ~SingleThreadedBlas();
  SingleThreadedBlas(const SingleThreadedBlas&) = delete;
  SingleThreadedBlas& operator=(const SingleThreadedBlas&) = delete;

 private:
  int saved_;
};

namespace detail {
using Task = void (*)(const void* body, Index i, int thread);
void run_tasks(Index count, int threads, Task task, const void* body);
}  // namespace detail

// Calls body(i, thread) for every i in [0, count), in order of i as threads become free; thread <
// threads. BLAS runs single-threaded inside, even if threads == 1, so that results do not depend on
// the number of threads. The first exception thrown by a body is rethrown after all have ended.
// OpenMP's threads do not survive fork(): a child whose parent had used them runs on one thread.
template <class Body>
void parallel_for(Index count, int threads, const Body& body) {
  detail::run_tasks(
      count, threads,
      [](const void* self, Index i, int thread) {
        std::invoke(*static_cast<const Body*>(self), i, thread);
      },
      &body);
}

}  // namespace normball
