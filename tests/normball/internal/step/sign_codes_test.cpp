#include "normball/internal/step/sign_codes.h"

#include <cmath>
#include <limits>

#include "testing.h"

namespace normball::detail {
namespace {

using normball::testing::gaussian;
using normball::testing::Matrix;

template <class T>
void expect_signs_back(Index rows, Index cols) {
  Random random(static_cast<std::uint64_t>(cols));
  Matrix<T> d = gaussian<T>(rows, cols, random);
  for (size_t i = 0; i < d.data.size(); i += 3) d.data[i] = i % 2 == 0 ? T(0) : -T(0);
  if (!d.data.empty()) d.data.back() = -std::numeric_limits<T>::denorm_min();
  std::vector<std::byte> codes(static_cast<size_t>(rows * sign_code_bytes(cols)));
  write_sign_codes<T>(d.view(), codes.data());
  // A block of a wider matrix, around which nothing is written.
  Matrix<T> wide = gaussian<T>(rows, cols + 5, random);
  const Matrix<T> before = wide;
  read_sign_codes<T>(codes.data(), wide.view().block(0, 2, rows, cols));
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols + 5; ++j) {
      const bool inside = j >= 2 && j < cols + 2;
      const T x = inside ? d.view()(i, j - 2) : T(0);
      const T sign = static_cast<T>(x > 0) - static_cast<T>(x < 0);
      EXPECT_EQ(wide.view()(i, j),
                inside ? sign : before.data[static_cast<size_t>(i * (cols + 5) + j)])
          << rows << "x" << cols << " at " << i << ", " << j;
    }
  }
}

TEST(SignCodes, GiveTheSignsBack) {
  for (const Index rows : {0, 1, 3}) {
    for (const Index cols : {1, 2, 3, 4, 5, 7, 8, 33}) {
      expect_signs_back<float>(rows, cols);
      expect_signs_back<double>(rows, cols);
    }
  }
}

}  // namespace
}  // namespace normball::detail
