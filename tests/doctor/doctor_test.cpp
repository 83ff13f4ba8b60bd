#include "doctor/examine.h"
#include "doctor/loaded_libraries.h"
#include "doctor/rate.h"
#include "testing.h"

namespace normball::doctor {
namespace {

const Facts good{.cpu_model = "Some processor",
                 .processor = {.avx = true, .avx2 = true, .avx512 = true},
                 .kernels = "avx512",
                 .blas_config = "OpenBLAS 0.3.21",
                 .blas_core = "SkylakeX",
                 .blas_threads = BlasThreads::OpenMp,
                 .blas_libraries = {"/usr/lib/libopenblas.so.0"},
                 .rate = {"SkylakeX", 100e9},
                 .other_rates = {{"HASWELL", 90e9}, {"SKYLAKEX", 101e9}},
                 .openmp_runtimes = {"/usr/lib/libgomp.so.1"},
                 .threads = 8,
                 .machine_cores = 8,
                 .allowed_cores = 8,
                 .granted_cores = INFINITY,
                 .huge_pages = "always [madvise] never",
                 .disk_path = ".",
                 .disk_free = 1e11};

// The one finding that is wrong, after `spoil`.
template <class Spoil>
Finding spoiled(const Spoil& spoil) {
  Facts facts = good;
  spoil(facts);
  std::vector<Finding> wrong;
  for (const auto& finding : findings(facts)) {
    EXPECT_EQ(finding.state == State::Wrong,
              !finding.remedy.empty() && finding.state != State::Note);
    if (finding.state == State::Wrong) wrong.push_back(finding);
  }
  EXPECT_EQ(wrong.size(), 1u);
  EXPECT_TRUE(anything_wrong(findings(facts)));
  return wrong.empty() ? Finding{} : wrong.front();
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Doctor, AGoodMachine) {
  EXPECT_FALSE(anything_wrong(findings(good)));
  for (const auto& finding : findings(good)) {
    EXPECT_EQ(finding.state, State::Good) << finding.subject;
  }
}

TEST(Doctor, WhatTheProgramSetIsTold) {
  Facts facts = good;
  facts.self_chosen = "OPENBLAS_CORETYPE";
  EXPECT_EQ(findings(facts).back().text, "the program set OPENBLAS_CORETYPE for itself");
}

TEST(Doctor, PoorKernelsByNameAndByRate) {
  const auto named = spoiled([](Facts& facts) {
    facts.blas_core = "Prescott";
    facts.other_rates.clear();
  });
  EXPECT_EQ(named.remedy, "set OPENBLAS_CORETYPE=SKYLAKEX before the program starts");
  const auto slow = spoiled([](Facts& facts) { facts.rate.flops = 85e9; });
  EXPECT_TRUE(mentions(slow.text, "SkylakeX 85 GF/s")) << slow.text;
  EXPECT_TRUE(mentions(slow.remedy, "SKYLAKEX")) << slow.remedy;
  const auto forced = spoiled([](Facts& facts) {
    facts.blas_core = "Prescott";
    facts.core_type_given = "PRESCOTT";
    facts.rate.flops = 30e9;
  });
  EXPECT_TRUE(mentions(forced.remedy, "unset OPENBLAS_CORETYPE")) << forced.remedy;
}

TEST(Doctor, KernelsHeldBelowTheProcessor) {
  const auto found = spoiled([](Facts& facts) { facts.kernels = facts.kernels_given = "generic"; });
  EXPECT_EQ(found.subject, "processor");
  EXPECT_TRUE(mentions(found.text, "generic instead of avx512")) << found.text;
  EXPECT_EQ(found.remedy, "unset NORMBALL_KERNELS (it is generic)");
  Facts facts = good;
  facts.kernels_given = "avx512";
  EXPECT_FALSE(anything_wrong(findings(facts))) << "what it would be anyway";
  facts.processor = {.avx = true};
  facts.kernels = "generic";
  facts.kernels_given.clear();
  EXPECT_FALSE(anything_wrong(findings(facts))) << "this processor has no more";
}

TEST(Doctor, LibrariesHeldBelowTheProcessor) {
  const char* name = "NORMBALL_TEST_LEVEL";
  ::unsetenv(name);
  EXPECT_EQ(library("x", "1.0", true, {name}).state, State::Note) << "its own choice";
  ::setenv(name, "SSE41", 1);
  const auto found = library("x", "1.0", true, {"NORMBALL_TEST_OTHER", name});
  EXPECT_EQ(found.state, State::Wrong);
  EXPECT_EQ(found.remedy, "unset NORMBALL_TEST_LEVEL (it is SSE41)");
  EXPECT_EQ(library("x", "1.0", false, {name}).state, State::Good);
  ::unsetenv(name);
}

TEST(Doctor, ThePthreadBuild) {
  const auto found = spoiled([](Facts& facts) { facts.blas_threads = BlasThreads::Pthreads; });
  EXPECT_EQ(found.subject, "BLAS");
  EXPECT_TRUE(mentions(found.remedy, "libopenblas0-openmp"));
}

TEST(Doctor, TooManyThreads) {
  EXPECT_EQ(spoiled([](Facts& facts) { facts.threads = 64; }).remedy,
            "unset OMP_NUM_THREADS, or set it to 8");
  EXPECT_EQ(spoiled([](Facts& facts) { facts.granted_cores = 1.5; }).remedy,
            "unset OMP_NUM_THREADS, or set it to 2");
  EXPECT_EQ(spoiled([](Facts& facts) { facts.allowed_cores = 4; }).remedy,
            "unset OMP_NUM_THREADS, or set it to 4");
}

TEST(Doctor, SeveralOpenMpRuntimes) {
  const auto two = [](Facts& facts) { facts.openmp_runtimes.push_back("/x/libomp.so.5"); };
  const auto found = spoiled(two);
  EXPECT_TRUE(mentions(found.text, "2 runtimes") && mentions(found.text, "/x/libomp.so.5"));
  EXPECT_TRUE(mentions(found.remedy, "OMP_WAIT_POLICY=passive"));
  Facts remedied = good;
  two(remedied);
  remedied.waiting_threads_sleep = true;
  EXPECT_FALSE(anything_wrong(findings(remedied))) << "the remedy helps";
}

TEST(Doctor, TheWaitPolicyInCapitalsOrNot) {
  for (const char* policy : {"passive", "PASSIVE", "Passive"}) {
    EXPECT_TRUE(sleeps_while_waiting(policy)) << policy;
  }
  for (const char* policy : {"", "active", "passiv", "passive2"}) {
    EXPECT_FALSE(sleeps_while_waiting(policy)) << policy;
  }
}

TEST(Doctor, HugePagesAndDisk) {
  EXPECT_EQ(spoiled([](Facts& facts) { facts.huge_pages = "always madvise [never]"; }).subject,
            "huge pages");
  EXPECT_EQ(spoiled([](Facts& facts) { facts.disk_free = 1e8; }).subject, "disk");
}

TEST(Doctor, AHiddenPaletteIsANote) {
  Facts facts = good;
  facts.amx = true;
  const auto unit = findings(facts)[1];
  EXPECT_EQ(unit.state, State::Note);
  EXPECT_TRUE(mentions(unit.remedy, "ONEDNN_MAX_CPU_ISA"));
  facts.amx_palette = true;
  EXPECT_EQ(findings(facts)[1].state, State::Good);
}

TEST(Doctor, TheShortFormKeepsWhatIsWrong) {
  Facts facts = good;
  facts.disk_free = 0;
  std::vector<std::string> subjects;
  for (const auto& finding : short_form(findings(facts))) subjects.push_back(finding.subject);
  EXPECT_EQ(subjects,
            (std::vector<std::string>{"processor", "BLAS", "BLAS kernels", "threads", "disk"}));
}

TEST(Doctor, LibrariesOfAProcess) {
  const std::string maps =
      "7f00-7f10 r-xp 00000000 08:01 12 /usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0\n"
      "7f10-7f20 r--p 00010000 08:01 12 /usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0\n"
      "7f20-7f30 r-xp 00000000 08:01 13 /venv/torch.libs/libgomp-a34b3233.so.1.0.0\n"
      "7f30-7f40 r-xp 00000000 08:01 14 /usr/lib/llvm-14/lib/libomp.so.5\n"
      "7f40-7f50 r-xp 00000000 08:01 15 /usr/lib/libgomphosis.so.1\n"
      "7f50-7f60 r-xp 00000000 08:01 16 /usr/lib/openblas-openmp/libopenblasp-r0.3.21.so\n"
      "7f60-7f70 r-xp 00000000 08:01 17 /venv/numpy.libs/libscipy_openblas64_-99b71e71.so\n"
      "7f70-7f80 rw-p 00000000 00:00 0 \n"
      "7f80-7f90 rw-p 00000000 00:00 0 [stack]";
  EXPECT_EQ(openmp_runtimes(maps),
            (std::vector<std::string>{"/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0",
                                      "/venv/torch.libs/libgomp-a34b3233.so.1.0.0",
                                      "/usr/lib/llvm-14/lib/libomp.so.5"}));
  EXPECT_EQ(blas_libraries(maps),
            (std::vector<std::string>{"/usr/lib/openblas-openmp/libopenblasp-r0.3.21.so",
                                      "/venv/numpy.libs/libscipy_openblas64_-99b71e71.so"}));
}

TEST(Doctor, ModelOfTheProcessor) {
  EXPECT_EQ(cpu_model("processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nmodel name\t: B\n"),
            "AMD EPYC");
  EXPECT_EQ(cpu_model(""), "");
}

TEST(Doctor, ThisProcess) {
  const Facts facts = examine(".");
  EXPECT_GE(facts.machine_cores, facts.allowed_cores);
  EXPECT_GE(facts.allowed_cores, 1);
  EXPECT_FALSE(facts.openmp_runtimes.empty());
  EXPECT_GT(facts.disk_free, 0);
  EXPECT_GT(product_rate(), 1e8);
  EXPECT_EQ(findings(facts).size(), 9u);
}

}  // namespace
}  // namespace normball::doctor
