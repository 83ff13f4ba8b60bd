// Stacked matrices (experts) and fused ones (QKV, heads).
#include "normball/internal/routing/blocks.h"

#include <numeric>

#include "normball/base/error.h"
#include "normball/base/text.h"

namespace normball {
namespace {

// The sizes of the parts of `total` rows or columns.
std::vector<Index> part_sizes(const std::string& name, const Split& split, Index total) {
  const auto fail = [&](const auto&... reason) {
    throw_invalid("route", "split ", to_string(split), " does not fit '", name, "': it has ", total,
                  split.columns ? " columns" : " rows", reason...);
  };
  for (const Index part : split.parts) {
    if (part < 1) fail(", and every part must be at least 1");
  }
  if (split.parts.size() == 1) {
    const Index count = split.parts[0];
    if (total % count != 0) fail(", which ", count, " does not divide");
    return std::vector<Index>(static_cast<size_t>(count), total / count);
  }
  const Index sum = std::accumulate(split.parts.begin(), split.parts.end(), Index{0});
  if (sum != total) fail("; the parts add up to ", sum);
  return split.parts;
}

}  // namespace

Split parse_split(std::string_view text) {
  auto call = TextCall::parse("parse_split", text);
  Split split{.columns = call.name == "columns", .parts = {}};
  const bool bare = call.arguments.empty();
  if (bare) call.arguments.push_back({"", call.name});
  if (!bare && call.name != "rows" && call.name != "columns") {
    throw_invalid("parse_split", "a split is a number, rows(...) or columns(...), got '", text,
                  "'");
  }
  for (const auto& [key, value] : call.arguments) {
    if (!key.empty()) throw_invalid("parse_split", "a split does not take '", key, "'");
    const double part = parse_number("parse_split", "a part", value);
    if (!(part >= 1 && part <= 1e9 && part == std::floor(part))) {
      throw_invalid("parse_split", "a part must be a whole number of 1 or more, got '", value, "'");
    }
    split.parts.push_back(static_cast<Index>(part));
  }
  return split;
}

std::string to_string(const Split& split) {
  std::string text = split.columns ? "columns(" : "rows(";
  for (size_t i = 0; i < split.parts.size(); ++i) {
    text.append(i == 0 ? "" : ", ").append(std::to_string(split.parts[i]));
  }
  return text + ")";
}

std::string dimensions_text(std::span<const Index> dimensions) {
  std::string text;
  for (const Index n : dimensions) text.append(text.empty() ? "" : "x").append(std::to_string(n));
  return text.empty() ? "scalar" : text;
}

std::vector<Block> detail::cut_blocks(const std::string& name, std::span<const Index> dimensions,
                                      int batch, const Split& split) {
  if (batch < 0 || (batch > 0 && static_cast<size_t>(batch) + 1 > dimensions.size())) {
    throw_invalid("route", "batch ", batch, " does not fit '", name, "' (",
                  dimensions_text(dimensions),
                  "): it counts leading dimensions and must leave one");
  }
  const auto leading = dimensions.first(static_cast<size_t>(batch));
  const Shape matrix = flatten(dimensions.subspan(static_cast<size_t>(batch)));
  if (split.columns && matrix.kernel > 1) {
    throw_invalid("route", "'", name, "' is a convolution: only its rows can be split");
  }
  const auto sizes = part_sizes(name, split, split.columns ? matrix.cols : matrix.rows);
  Index count = 1;
  for (const Index n : leading) count *= n;
  std::vector<Block> blocks;
  for (Index i = 0; i < count; ++i) {
    Index offset = i * matrix.size();
    for (const Index size : sizes) {
      Block block{.name = name, .offset = offset, .stride = matrix.cols, .shape = matrix};
      (split.columns ? block.shape.cols : block.shape.rows) = size;
      offset += split.columns ? size : size * matrix.cols;
      blocks.push_back(std::move(block));
    }
  }
  for (size_t i = 0; i < blocks.size() && blocks.size() > 1; ++i) {
    blocks[i].name.append("[").append(std::to_string(i)).append("]");
  }
  return blocks;
}

}  // namespace normball
