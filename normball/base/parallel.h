// Independent pieces of work over the cores of this process's OpenMP team.
#pragma once

#include <functional>

#include "normball/matrix_view.h"

namespace normball {

// More than this ends in the OpenMP runtime's own crash, not in an error.
inline constexpr int max_threads = 4096;

// What set_default_threads() chose; without that OpenMP's current default for the calling thread
// (OMP_NUM_THREADS, omp_set_num_threads(), or the cores), up to max_threads. Where nobody gave a
// number, not more than this process's control group grants (usable_cpus() in processor.h).
int default_threads();

// For the whole process, from 1 to max_threads; 0 leaves it to OpenMP again. OpenMP's own setting,
// which others in the process read, stays as it is.
void set_default_threads(int threads);
int chosen_threads();  // 0 where nothing was chosen

// Holds BLAS to one thread in its scope: results then do not depend on the number of threads, and
// small matrices are not slowed down by waking others. The setting is the calling thread's alone.
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

// body(i, thread) for every i in [0, count), in order of i as threads become free; thread <
// threads. BLAS runs single-threaded inside, also where threads == 1, so that results do not depend
// on the number of threads. The first exception thrown by a body is rethrown after all have ended.
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
