#include "trainer/runtime/tensor_memory.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

namespace normball::trainer::runtime {
namespace {

constexpr std::int64_t mebibyte = 1 << 20;

torch::Tensor bytes(std::int64_t count) { return torch::empty({count}, torch::kUInt8); }

class TensorMemoryTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { keep_tensor_memory(); }
};

TEST_F(TensorMemoryTest, IsUsedAgain) {
  void* first = bytes(32 * mebibyte).data_ptr();
  const auto again = bytes(31 * mebibyte);
  EXPECT_EQ(again.data_ptr(), first);
  EXPECT_NE(bytes(20 * mebibyte).data_ptr(), first);  // a third of it would be lost
}

TEST_F(TensorMemoryTest, SmallTensorsAreLeftAlone) {
  const auto before = tensor_memory();
  const auto small = bytes(mebibyte), none = bytes(0);
  EXPECT_EQ(tensor_memory().live, before.live);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small.data_ptr()) % 64, 0U);
}

TEST_F(TensorMemoryTest, HoldsLittleMoreThanWasNeededAtOnce) {
  for (int round = 0; round < 30; ++round) {
    std::vector<torch::Tensor> some;
    for (int i = 0; i < 5; ++i) {
      some.push_back(bytes((4 + (round * 7 + i * 13) % 40) * mebibyte));
      some.back().fill_(i);
    }
    const auto memory = tensor_memory();
    EXPECT_LE(memory.live + memory.unused, memory.peak + memory.peak / 10);
    for (int i = 0; i < 5; ++i) EXPECT_TRUE((some[static_cast<size_t>(i)] == i).all().item<bool>());
  }
}

// Convolutions allocate and free their scratch memory so.
TEST_F(TensorMemoryTest, WithoutATensor) {
  auto* allocator = c10::GetAllocator(c10::kCPU);
  for (const size_t size : {size_t(100), size_t(8 * mebibyte)}) {
    allocator->raw_deallocate(allocator->raw_allocate(size));
  }
  allocator->raw_deallocate(allocator->raw_allocate(0));
}

TEST_F(TensorMemoryTest, FromSeveralThreads) {
  const auto work = [](int value) {
    for (int i = 0; i < 10; ++i) {
      const auto tensor = torch::full({mebibyte + i * 40000}, value, torch::kInt32);
      ASSERT_TRUE((tensor == value).all().item<bool>());
    }
  };
  std::thread first(work, 1), second(work, 2);
  first.join();
  second.join();
}

TEST_F(TensorMemoryTest, MemoryThatIsNotThereIsAnError) {
  EXPECT_THROW(bytes(std::int64_t(1) << 60), c10::Error);
  EXPECT_EQ(bytes(5 * mebibyte).numel(), 5 * mebibyte);
}

}  // namespace
}  // namespace normball::trainer::runtime
