#include "doctor/findings.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "normball/base/text.h"

namespace normball::doctor {
namespace {

constexpr double good_share = 0.9;         // of the best kernels' rate
constexpr double least_disk = 1073741824;  // a run with a few checkpoints of a small model

std::string count(int n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

std::string joined(const std::vector<std::string>& texts, const char* between = ", ") {
  std::string all;
  for (const auto& text : texts) all += (all.empty() ? "" : between) + text;
  return all;
}

std::string rate_text(const KernelRate& rate) {
  return rate.core + " " + printed("%.0f GF/s", rate.flops / 1e9);
}

Finding processor(const Facts& facts) {
  std::vector<std::string> levels;
  if (facts.processor.avx) levels.push_back("AVX");
  if (facts.processor.avx2) levels.push_back("AVX2");
  if (facts.processor.avx512) levels.push_back("AVX-512");
  const std::string text = (facts.cpu_model.empty() ? "unknown" : facts.cpu_model) + "; " +
                           (levels.empty() ? "no AVX" : joined(levels)) +
                           "; our kernels: " + facts.kernels;
  const char* best = facts.processor.avx512 ? "avx512" : facts.processor.avx2 ? "avx2" : "generic";
  if (facts.kernels_given.empty() || facts.kernels == best) {
    return {"processor", State::Good, text};
  }
  return {"processor", State::Wrong, text + " instead of " + best,
          "unset NORMBALL_KERNELS (it is " + facts.kernels_given + ")"};
}

Finding matrix_unit(const Facts& facts) {
  if (!facts.amx) return {"matrix unit", State::Good, "none (AMX); nothing here needs one"};
  if (facts.amx_palette) return {"matrix unit", State::Good, "AMX; nothing here uses it"};
  return {
      "matrix unit", State::Note,
      "AMX without its palette (CPUID leaf 0x1D is hidden): bfloat16 products of oneDNN may die "
      "of SIGILL. normball's are float and not concerned",
      "for bfloat16 in PyTorch: ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"};
}

Finding blas_build(const Facts& facts) {
  const std::string library =
      facts.blas_libraries.empty() ? "no library file to be seen" : joined(facts.blas_libraries);
  if (facts.blas_config.empty()) {
    return {"BLAS", State::Note, "not OpenBLAS, or not visible as such: " + library};
  }
  const std::string text = facts.blas_config + "; " + library;
  if (facts.blas_threads != BlasThreads::Pthreads) return {"BLAS", State::Good, text};
  return {
      "BLAS", State::Wrong,
      text + ": the pthread build, whose threads fight with OpenMP's for the cores",
      "install the OpenMP build (Debian: libopenblas0-openmp) and choose it: update-alternatives "
      "--config libopenblas.so.0-x86_64-linux-gnu; or OPENBLAS_NUM_THREADS=1"};
}

Finding blas_kernel(const Facts& facts) {
  const std::string measured =
      rate_text({facts.blas_core.empty() ? "products" : facts.blas_core, facts.rate.flops}) +
      " on one thread";
  const auto better = better_core_type(facts.processor, facts.blas_core);
  const auto best = std::ranges::max_element(facts.other_rates, {},
                                             [](const KernelRate& rate) { return rate.flops; });
  const bool slow = best != facts.other_rates.end() && facts.rate.flops < good_share * best->flops;
  const bool poor = !facts.blas_core.empty() && !better.empty();
  std::string text = facts.rate.flops > 0 ? measured : facts.blas_core;
  if (best != facts.other_rates.end()) {
    std::vector<std::string> others;
    for (const auto& rate : facts.other_rates) others.push_back(rate_text(rate));
    text += "; the same library with other kernels: " + joined(others);
  }
  if (!slow && !poor) return {"BLAS kernels", State::Good, text};
  const std::string wanted = slow ? best->core : std::string(better);
  std::string upper = wanted;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return {
      "BLAS kernels", State::Wrong, text,
      facts.core_type_given.empty()
          ? "set OPENBLAS_CORETYPE=" + upper + " before the program starts"
          : "unset OPENBLAS_CORETYPE (it is " + facts.core_type_given + "), or set it to " + upper};
}

Finding openmp(const Facts& facts) {
  const auto& runtimes = facts.openmp_runtimes;
  if (runtimes.empty()) return {"OpenMP", State::Note, "no runtime found in the process"};
  if (runtimes.size() == 1) return {"OpenMP", State::Good, runtimes.front()};
  const std::string text = std::to_string(runtimes.size()) +
                           " runtimes, each with threads of its own: " + joined(runtimes);
  if (facts.waiting_threads_sleep) {
    return {"OpenMP", State::Note, text + "; waiting threads sleep (OMP_WAIT_POLICY=passive)"};
  }
  return {"OpenMP", State::Wrong, text + "; waiting threads of one take the cores from the other",
          "use libraries built on one runtime (Debian's torch and OpenBLAS are), or set "
          "OMP_WAIT_POLICY=passive"};
}

int usable(const Facts& facts) {
  const double granted = std::ceil(facts.granted_cores);
  return granted < facts.allowed_cores ? std::max(1, static_cast<int>(granted))
                                       : facts.allowed_cores;
}

Finding limits(const Facts& facts) {
  std::string text = "may run on " + std::to_string(facts.allowed_cores) + " of " +
                     count(facts.machine_cores, "core");
  text += std::isinf(facts.granted_cores)
              ? "; no limit by control group"
              : "; the control group grants the time of " + printed("%.2g", facts.granted_cores);
  return {"cores", State::Good, text};
}

Finding threads(const Facts& facts) {
  const int cores = usable(facts);
  const std::string text =
      count(facts.threads, "thread") + " by default, " + count(cores, "core") + " to use";
  if (facts.threads > cores) {
    return {"threads", State::Wrong, text,
            "unset OMP_NUM_THREADS, or set it to " + std::to_string(cores)};
  }
  if (facts.threads < cores) {
    return {"threads", State::Note, text, "OMP_NUM_THREADS=" + std::to_string(cores) + " uses all"};
  }
  return {"threads", State::Good, text};
}

Finding huge_pages(const Facts& facts) {
  const auto& setting = facts.huge_pages;
  if (setting.empty()) return {"huge pages", State::Note, "unknown on this system"};
  const auto open = setting.find('['), close = setting.find(']');
  const std::string chosen = open < close ? setting.substr(open + 1, close - open - 1) : setting;
  if (chosen != "never") return {"huge pages", State::Good, chosen};
  return {"huge pages", State::Wrong, "never: large tensors fault in 4 KiB at a time",
          "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"};
}

Finding disk(const Facts& facts) {
  if (facts.disk_free < 0) return {"disk", State::Note, "unknown"};
  const std::string text =
      printed("%.1f GiB", facts.disk_free / 1073741824) + " free in " + facts.disk_path;
  if (facts.disk_free >= least_disk) return {"disk", State::Good, text};
  return {"disk", State::Wrong, text, "make room, or put runs elsewhere: --set run.dir=PATH"};
}

}  // namespace

const char* to_text(State state) {
  switch (state) {
    case State::Good:
      return "good";
    case State::Note:
      return "note";
    case State::Wrong:
      return "wrong";
  }
  return "";
}

Finding library(const std::string& subject, const std::string& text, bool below,
                std::initializer_list<const char*> variables) {
  if (!below) return {subject, State::Good, text};
  const std::string less = text + ", less than the processor has";
  for (const char* name : variables) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    return {subject, State::Wrong, less, std::string("unset ") + name + " (it is " + value + ")"};
  }
  return {subject, State::Note, less};
}

std::vector<Finding> findings(const Facts& facts) {
  std::vector<Finding> all = {processor(facts),   matrix_unit(facts), blas_build(facts),
                              blas_kernel(facts), openmp(facts),      limits(facts),
                              threads(facts),     huge_pages(facts),  disk(facts)};
  if (!facts.self_chosen.empty()) {
    all.push_back(
        {"environment", State::Good, "the program set " + facts.self_chosen + " for itself"});
  }
  return all;
}

std::vector<Finding> short_form(const std::vector<Finding>& all) {
  std::vector<Finding> chosen;
  for (const auto& finding : all) {
    if (finding.state == State::Wrong || finding.subject == "processor" ||
        finding.subject == "BLAS" || finding.subject == "BLAS kernels" ||
        finding.subject == "threads") {
      chosen.push_back(finding);
    }
  }
  return chosen;
}

bool anything_wrong(const std::vector<Finding>& all) {
  return std::ranges::any_of(all,
                             [](const Finding& finding) { return finding.state == State::Wrong; });
}

std::string report_text(const std::vector<Finding>& all) {
  size_t width = 0;
  for (const auto& finding : all) width = std::max(width, finding.subject.size());
  std::string text;
  for (const auto& [subject, state, line, remedy] : all) {
    const std::string word = to_text(state);
    text += word + std::string(7 - word.size(), ' ') + subject +
            std::string(width + 2 - subject.size(), ' ') + line + '\n';
    if (!remedy.empty()) text += std::string(width + 9, ' ') + "-> " + remedy + '\n';
  }
  return text;
}

}  // namespace normball::doctor
