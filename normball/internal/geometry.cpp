#include "normball/internal/geometry.h"

#include <array>
#include <utility>

namespace normball::detail {
namespace {

constexpr std::size_t count = static_cast<std::size_t>(Geometry::Oracle) + 1;

template <std::size_t... i>
constexpr auto all_rules(std::index_sequence<i...>) {
  return std::array{&rules<static_cast<Geometry>(i)>...};
}

}  // namespace

const GeometryRules& rules(Geometry geometry) {
  static constexpr auto table = all_rules(std::make_index_sequence<count>());
  return table[static_cast<std::size_t>(geometry)]();
}

}  // namespace normball::detail
