#include "trainer/runtime/threads.h"

#include <ATen/Parallel.h>

#include <cstdlib>

#include "normball/base/processor.h"

namespace normball::trainer::runtime {

int use_threads(std::int64_t threads) {
  if (threads <= 0 && std::getenv("OMP_NUM_THREADS") != nullptr) {
    threads = std::atol(std::getenv("OMP_NUM_THREADS"));
  }
  if (threads <= 0) threads = usable_cpus();
  at::set_num_threads(static_cast<int>(threads));
  return static_cast<int>(threads);
}

}  // namespace normball::trainer::runtime
