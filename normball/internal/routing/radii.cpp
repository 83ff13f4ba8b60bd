#include "normball/internal/routing/radii.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "normball/base/error.h"
#include "normball/base/text.h"
#include "normball/internal/geometry.h"
#include "normball/internal/routing/words.h"
#include "normball/norms.h"

namespace normball::detail {
namespace {

constexpr int matrices_of_a_block = 4;

// Numbered elements of lists that a name lies in, the outermost first: "stages.1",
// "stages.1.blocks.0".
std::vector<std::string> elements_of(std::string_view name) {
  std::vector<std::string> elements;
  std::string path;
  for (const auto& part : name_path(name)) {
    path += (path.empty() ? "" : ".") + part;
    if (is_number(part)) elements.push_back(path);
  }
  return elements;
}

// Of several stages together.
std::string outermost_list(const std::string& element) {
  std::string list;
  for (const auto& part : name_path(element)) {
    if (is_number(part)) break;
    list += part + ".";
  }
  return list;
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

// The innermost elements with enough matrices are blocks; what is in none of them counts for the
// element around it.
AutoRadii::AutoRadii(std::span<const ParameterInfo> parameters, const std::vector<Facts>& facts)
    : blocks_(parameters.size()) {
  std::vector<std::vector<std::string>> elements(parameters.size());
  size_t depths = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (is_matrix(parameters[i], facts[i])) elements[i] = elements_of(parameters[i].name);
    depths = std::max(depths, elements[i].size());
  }
  std::vector<std::string> block_of(parameters.size());
  std::map<std::string, std::set<std::string>> blocks;  // by outermost list
  for (size_t depth = depths; depth-- > 0;) {
    std::map<std::string, int> matrices;
    const auto each = [&](const auto& visit) {
      for (size_t i = 0; i < parameters.size(); ++i) {
        if (block_of[i].empty() && elements[i].size() > depth) visit(i, elements[i][depth]);
      }
    };
    each([&](size_t, const std::string& element) { ++matrices[element]; });
    each([&](size_t i, const std::string& element) {
      if (matrices.at(element) < matrices_of_a_block) return;
      block_of[i] = element;
      blocks[outermost_list(element)].insert(element);
    });
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (block_of[i].empty()) continue;
    blocks_[i] = static_cast<Index>(blocks.at(outermost_list(block_of[i])).size());
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
