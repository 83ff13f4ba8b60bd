// The names that newton_schulz() knows. Internal.
#pragma once

#include <string_view>
#include <vector>

namespace normball::detail {

std::vector<std::string_view> newton_schulz_presets();

}  // namespace normball::detail
