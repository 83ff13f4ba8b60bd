// Routing for people: a table and the warnings.
#include <algorithm>
#include <array>

#include "normball/base/text.h"
#include "normball/routed.h"
#include "normball/routing.h"

namespace normball {
namespace {

using Row = std::array<std::string, 5>;

std::string shape_text(const Route& route) {
  std::string text = dimensions_text(route.dimensions);
  if (route.blocks.size() < 2) return text;
  const Shape& first = route.blocks[0].shape;
  const bool same =
      std::ranges::all_of(route.blocks, [&](const Block& block) { return block.shape == first; });
  text += " = " + std::to_string(route.blocks.size()) + " of ";
  return text + (same ? std::to_string(first.rows) + "x" + std::to_string(first.cols) : "several");
}

Row row_of(const Route& route) {
  if (route.blocks.empty()) return {route.name, shape_text(route), "-", "-", route.why};
  return {route.name, shape_text(route), to_string(route.norm), number_text(route.radius),
          route.why};
}

}  // namespace

std::string Routing::explain() const {
  std::vector<Row> rows = {{"parameter", "shape", "norm", "radius", "why"}};
  for (const auto& route : routes) {
    if (route.kind != Kind::Alias) rows.push_back(row_of(route));
  }
  std::array<size_t, 5> widths = {};
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t c = 0; c + 1 < row.size(); ++c) {
      text += row[c] + std::string(widths[c] - row[c].size() + 2, ' ');
    }
    text += row.back() + '\n';
  }
  for (const auto& warning : warnings) text += "warning: " + warning + '\n';
  return text;
}

void Routing::rename(size_t route, const std::string& name) {
  const std::string before = routes.at(route).name;
  routes[route].name = name;
  for (auto& block : routes[route].blocks) block.name.replace(0, before.size(), name);
  const auto replace_in = [from = "'" + before + "'", to = "'" + name + "'"](std::string& text) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
      text.replace(at, from.size(), to);
      at += to.size();
    }
  };
  for (auto& warning : warnings) replace_in(warning);
  for (auto& other : routes) replace_in(other.why);
}

void Routing::add_ungrouped(const std::string& name, std::vector<Index> dimensions) {
  routes.push_back(
      {.name = name, .dimensions = std::move(dimensions), .why = "in no group: never updated"});
  warnings.push_back("'" + name + "' is in no parameter group and will never be updated");
}

std::vector<Layer> Routing::layers() const { return layers_of(routes); }

}  // namespace normball
