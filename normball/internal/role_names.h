// The names of roles in text. Internal.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "normball/norms.h"

namespace normball::detail {

inline constexpr std::array<std::pair<std::string_view, Role>, 5> role_names = {{
    {"input", Role::Input},
    {"onehot", Role::OneHot},
    {"hidden", Role::Hidden},
    {"output", Role::Output},
    {"bias", Role::Bias},
}};

}  // namespace normball::detail
