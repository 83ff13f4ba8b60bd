// From facts about a machine and a process to lines that say good, or wrong and what helps. Pure:
// the facts come from examine.h, or from a test.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "normball/base/processor.h"

namespace normball::doctor {

enum class State { Good, Note, Wrong };
const char* to_text(State state);

struct Finding {
  std::string subject;
  State state = State::Good;
  std::string text;
  std::string remedy = {};
};

// Float products on one thread, in flops for each second of processor time.
struct KernelRate {
  std::string core;
  double flops = 0;
};

enum class BlasThreads { Unknown, Sequential, Pthreads, OpenMp };

struct Facts {
  std::string cpu_model = {};
  Processor processor = {};
  bool amx = false;                // the flag
  bool amx_palette = false;        // CPUID leaf 0x1D, which some hypervisors hide
  std::string kernels = {};        // of ours
  std::string kernels_given = {};  // by the environment

  std::string blas_config = {};  // empty: not OpenBLAS
  std::string blas_core = {};
  std::string core_type_given = {};  // by the environment
  BlasThreads blas_threads = BlasThreads::Unknown;
  std::vector<std::string> blas_libraries = {};
  KernelRate rate = {};
  std::vector<KernelRate> other_rates = {};  // of the same library with other kernels

  std::vector<std::string> openmp_runtimes = {};
  bool waiting_threads_sleep = false;  // OMP_WAIT_POLICY=passive
  int threads = 1;
  int machine_cores = 1;
  int allowed_cores = 1;        // by affinity
  double granted_cores = 0;     // by control groups; infinite: no limit
  std::string huge_pages = {};  // "always [madvise] never"; empty: unknown
  std::string disk_path = {};
  double disk_free = 0;          // bytes; negative: unknown
  std::string self_chosen = {};  // variables that the program set for itself
};

std::vector<Finding> findings(const Facts& facts);

// A library that chooses its instructions by itself: where it is `below` the processor wrong if the
// environment sets one of `variables`, which tell it to be, and a note if it chose so itself.
Finding library(const std::string& subject, const std::string& text, bool below,
                std::initializer_list<const char*> variables);

// The processor, the BLAS and the threads, and whatever is wrong: for the head of a benchmark.
std::vector<Finding> short_form(const std::vector<Finding>& all);

bool anything_wrong(const std::vector<Finding>& all);

// The lines as they are printed; remedies below what is wrong.
std::string report_text(const std::vector<Finding>& all);

}  // namespace normball::doctor
