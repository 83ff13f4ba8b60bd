// What the tests of the adapter share.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <vector>

namespace support {

using torch::Tensor;

// Bit for bit.
inline bool equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Tensor& x, const Tensor& y) { return torch::equal(x, y); });
}

template <class Body>
void expect_error(const Body& body, const std::vector<std::string>& parts) {
  try {
    body();
    ADD_FAILURE() << "no exception; expected one with " << parts.front();
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.front(), '[') << text;
    for (const auto& part : parts) {
      EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' not in: " << text;
    }
  }
}

inline Tensor parameter(torch::IntArrayRef sizes, uint64_t seed = 1,
                        torch::ScalarType type = torch::kFloat64) {
  torch::manual_seed(seed);
  Tensor result = torch::randn(sizes, torch::kFloat64).to(type);
  result.set_requires_grad(true);
  result.mutable_grad() = torch::randn(sizes, torch::kFloat64).to(type);
  return result;
}

}  // namespace support
