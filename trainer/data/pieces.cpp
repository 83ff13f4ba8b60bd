#include "trainer/data/pieces.h"

#include <algorithm>

namespace normball::trainer::data {

std::vector<Piece> pieces_of(std::int64_t parts, std::int64_t micro, int rank, int processes,
                             bool whole) {
  const std::int64_t unit = whole ? micro : 1, units = parts * micro / unit;
  // Without the product of units and rank, which may be too large.
  const auto border = [&](std::int64_t of) {
    return (units / processes * of + units % processes * of / processes) * unit;
  };
  const std::int64_t first = border(rank), end = border(rank + 1);
  std::vector<Piece> pieces;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t start = part * micro;
    const Piece piece{part, std::max(first - start, std::int64_t{0}), std::min(end - start, micro)};
    if (piece.items() > 0) pieces.push_back(piece);
  }
  return pieces;
}

}  // namespace normball::trainer::data
