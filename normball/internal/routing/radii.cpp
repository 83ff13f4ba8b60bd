#include "normball/internal/routing/radii.h"

#include <algorithm>
#include <cmath>

#include "normball/base/error.h"
#include "normball/base/text.h"
#include "normball/internal/geometry.h"
#include "normball/internal/routing/words.h"
#include "normball/norms.h"

namespace normball::detail {
namespace {

constexpr int matrices_of_a_block = 4;

// What a name has before its first number, and the number; empty where there is none.
std::pair<std::string, std::string> numbered(std::string_view name) {
  std::string before;
  for (const auto& part : name_path(name)) {
    if (is_number(part)) return {before, part};
    before += part + ".";
  }
  return {};
}

bool is_matrix(const ParameterInfo& parameter, const Facts& facts) {
  const bool linear =
      facts.kind == Kind::Linear || facts.kind == Kind::Hidden || facts.kind == Kind::Unknown;
  return linear && parameter.dimensions.size() == 2 && !facts.same_as;
}

}  // namespace

void check_radii(const RoutingOptions& options) {
  if (options.method_radius && (options.radii != RoleRadii{} || options.auto_radii)) {
    throw_invalid("route", "the method '", options.method, "' sets every radius itself; ",
                  options.auto_radii ? "auto radii" : "radii by role", " would have no effect");
  }
  if (options.auto_radii && options.radii != RoleRadii{}) {
    throw_invalid("route", "radii by role and auto radii: give one of them");
  }
  for (const Role role : {Role::Input, Role::OneHot, Role::Hidden, Role::Output, Role::Bias}) {
    const double radius = options.radii.of(role);
    if (!(std::isfinite(radius) && radius > 0)) {
      throw_invalid("route", "the radius of the role '", to_string(role),
                    "' must be positive and finite, got ", radius);
    }
  }
}

AutoRadii::AutoRadii(std::span<const ParameterInfo> parameters, const std::vector<Facts>& facts)
    : blocks_(parameters.size()) {
  std::map<std::string, std::map<std::string, int>> matrices;  // by stack, then by block
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto [stack, number] = numbered(parameters[i].name);
    if (!number.empty() && is_matrix(parameters[i], facts[i])) ++matrices[stack][number];
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto [stack, number] = numbered(parameters[i].name);
    if (number.empty() || !is_matrix(parameters[i], facts[i])) continue;
    const auto& blocks = matrices[stack];
    if (blocks.at(number) < matrices_of_a_block) continue;
    blocks_[i] = std::ranges::count_if(
        blocks, [](const auto& block) { return block.second >= matrices_of_a_block; });
  }
}

ChosenRadius AutoRadii::of(size_t parameter, const Route& route) const {
  ChosenRadius chosen{1, "radius auto: 1"};
  if (route.dimensions.size() >= 2 && !route.blocks.empty()) {
    const Shape& shape = route.blocks.front().shape;
    const ResolvedNorm norm = resolve(route.norm, shape);
    if (norm.geometry == Geometry::MaxAbs && shape.cols > 0) {
      const auto in = static_cast<double>(shape.cols);
      chosen = {1 / (std::sqrt(in) * norm.scale),
                "radius auto: entries of 1/sqrt(" + number_text(in) + ")"};
    } else if (std::holds_alternative<RowNorm>(route.norm) && norm.geometry == Geometry::RowL2) {
      chosen = {1 / norm.scale, "radius auto: rows of length 1"};
    }
  }
  if (const Index blocks = blocks_[parameter]; blocks > 0) {
    chosen.radius /= std::sqrt(2 * static_cast<double>(blocks));
    chosen.why += (chosen.why == "radius auto: 1" ? "/sqrt(2*" : ", by sqrt(2*") +
                  std::to_string(blocks) + " blocks)";
  }
  chosen.radius = parse_number("route", "radius", printed("%.3g", chosen.radius));  // to read
  return chosen;
}

}  // namespace normball::detail
