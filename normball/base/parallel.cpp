#include "normball/base/parallel.h"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>

#include "normball/base/error.h"
#include "normball/base/processor.h"

namespace normball {
namespace {

struct Job {
  Index count;
  detail::Task task;
  const void* body;
  std::atomic<Index> next = 0;
  std::atomic<bool> failed = false;
  std::exception_ptr error = nullptr;
  std::atomic<int> finished = 0;

  void run(int thread) {
    for (Index i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
      try {
        task(body, i, thread);
      } catch (...) {
        if (!failed.exchange(true)) error = std::current_exception();
      }
    }
    finished.fetch_add(1, std::memory_order_release);
  }
};

// The team takes its job from here and not from variables captured by the parallel region: the
// hand-over is then an atomic that thread sanitizers see (they cannot see into libgomp). One region
// at a time uses the cores; callers on other threads wait for their turn.
std::mutex team_mutex;
std::atomic<Job*> team_job;

// In a forked child the team's threads are gone, but OpenMP would wait for them for ever.
std::atomic<bool> team_lost = false;

std::atomic<int> chosen = 0;

void run_on_team(Job& job, int threads) {
  const std::lock_guard lock(team_mutex);
  [[maybe_unused]] static const int watched =
      pthread_atfork(nullptr, nullptr, [] { team_lost = true; });
  team_job.store(&job, std::memory_order_release);
#pragma omp parallel num_threads(threads)
  {
    // A thread reads its own setting: BLAS sees omp_in_parallel() and stays single-threaded.
    team_job.load(std::memory_order_acquire)->run(omp_get_thread_num());
  }
  (void)job.finished.load(std::memory_order_acquire);
}

}  // namespace

SingleThreadedBlas::SingleThreadedBlas() : saved_(omp_get_max_threads()) { omp_set_num_threads(1); }
SingleThreadedBlas::~SingleThreadedBlas() { omp_set_num_threads(saved_); }

int default_threads() {
  if (const int own = chosen_threads(); own > 0) return own;
  // OpenMP's own default is the cores of this process, whatever time its control group grants it.
  static const int usable = std::getenv("OMP_NUM_THREADS") != nullptr ? max_threads : usable_cpus();
  const int threads = omp_get_max_threads();
  return std::min(threads == omp_get_num_procs() ? std::min(threads, usable) : threads,
                  max_threads);
}

void set_default_threads(int threads) {
  if (threads < 0 || threads > max_threads) {
    throw_invalid("set_default_threads", "threads must be from 0 (OpenMP's default) to ",
                  max_threads, ", got ", threads);
  }
  chosen = threads;
}

int chosen_threads() { return chosen; }

void detail::run_tasks(Index count, int threads, Task task, const void* body) {
  if (count <= 0) return;
  Job job{.count = count, .task = task, .body = body};
  // A team of one size keeps libgomp from building another, which allocates.
  if (threads <= 1 || count == 1 || omp_in_parallel() || team_lost) {
    const SingleThreadedBlas guard;
    job.run(0);
  } else {
    run_on_team(job, threads);
  }
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace normball
