// Writes a checkpoint with a tensor of every type; Python's torch reads it back.
#include <sys/wait.h>

#include <cstdlib>
#include <numbers>

#include "tests/trainer/run_testing.h"
#include "trainer/run/checkpoint.h"

namespace normball::trainer::run {
namespace {

template <class T>
TensorView view(std::string name, Dtype dtype, std::vector<std::int64_t> shape,
                const std::vector<T>& values) {
  return {std::move(name), dtype, std::move(shape), std::as_bytes(std::span(values))};
}

TEST(Python, TorchReadsACheckpoint) {
  const std::vector<float> weight = {1, -2, 3.5f, 4, 5, std::numbers::pi_v<float>},
                           scalar = {0.25f}, empty;
  const std::vector<double> number = {std::numbers::e};
  const std::vector<std::uint16_t> half = {0x3c00, 0xb800}, brain = {0x3f80, 0xc000},
                                   tokens = {1, 50256};
  const std::vector<std::int64_t> whole = {-7, 1ll << 60};
  const std::vector<std::int32_t> small = {-1, 1 << 30};
  const std::vector<std::uint8_t> bytes = {0, 255}, flags = {1, 0};
  const std::vector<TensorView> model = {
      view("flags", Dtype::BOOL, {2}, flags),  view("weight", Dtype::F32, {2, 3}, weight),
      view("double", Dtype::F64, {1}, number), view("half", Dtype::F16, {2}, half),
      view("brain", Dtype::BF16, {2}, brain),  view("tokens", Dtype::U16, {2}, tokens),
      view("long", Dtype::I64, {2}, whole),    view("int", Dtype::I32, {2}, small),
      view("bytes", Dtype::U8, {2}, bytes),    view("empty", Dtype::F32, {0, 3}, empty),
      view("scalar", Dtype::F32, {}, scalar)};
  testing::ScratchDirectory scratch;
  CheckpointStore store(scratch.path());
  const auto path = store.save({.step = 12}, model, {});
  const std::string command =
      NORMBALL_PYTHON " " NORMBALL_SOURCE
                      "/tests/trainer/run/run_read_checkpoint.py " NORMBALL_SOURCE "/scripts " +
      path.string();
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127) {
    GTEST_SKIP() << NORMBALL_PYTHON " has no torch (Debian: python3-torch)";
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace normball::trainer::run
