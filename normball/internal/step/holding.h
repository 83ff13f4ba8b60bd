// What a process has of a layer whose step it takes together with others. Internal.
#pragma once

#include "normball/peers.h"

namespace normball::detail {

// Without the average of some rows their direction comes from the process that has it.
struct Holding {
  enum class Kind { Whole, Nothing, Rows } kind = Kind::Whole;
  Rows rows = {};  // whose average is here

  bool elsewhere() const { return kind == Kind::Nothing; }
  bool divided() const { return kind == Kind::Rows; }
  bool has(Index row) const { return rows.begin <= row && row < rows.end; }
};

}  // namespace normball::detail
