// The norm of a layer by what it does.
#include <algorithm>
#include <array>

#include "normball/base/error.h"
#include "normball/base/text.h"
#include "normball/internal/role_names.h"
#include "normball/norms.h"

namespace normball {
namespace {

using Named = std::pair<std::string_view, Role>;

}  // namespace

Norm norm_for(Role role) {
  switch (role) {
    case Role::Input:
      return Spectral{.scale = SpectralScale::Input};
    case Role::OneHot:
      return ColNorm{.transposed = true};
    case Role::Hidden:
      return Spectral{};
    case Role::Output:
      return Sign{};
    case Role::Bias:
      return Rms{};
  }
  return Auto{};
}

Role parse_role(std::string_view text) {
  const auto found = std::ranges::find(detail::role_names, text, &Named::first);
  if (found != detail::role_names.end()) return found->second;
  std::array<std::string_view, detail::role_names.size()> names;
  std::ranges::transform(detail::role_names, names.begin(), &Named::first);
  throw_invalid("parse_role", unknown_name("role", text, names));
}

std::string to_string(Role role) {
  return std::string(std::ranges::find(detail::role_names, role, &Named::second)->first);
}

}  // namespace normball
