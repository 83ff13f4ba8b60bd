// The matrices of which a parameter consists. Internal.
#pragma once

#include "normball/routing.h"

namespace normball::detail {

// `batch` leading dimensions count the matrices, `split` cuts each.
std::vector<Block> cut_blocks(const std::string& name, std::span<const Index> dimensions, int batch,
                              const Split& split);

}  // namespace normball::detail
