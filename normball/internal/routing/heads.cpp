// Which layers make the output. Names say it in most models; where they do not, and the modules are
// known, the order and the widths of the layers give a guess.
#include <algorithm>
#include <array>

#include "normball/internal/routing/facts.h"
#include "normball/internal/routing/words.h"

namespace normball::detail {
namespace {

// Anything with a matrix, in the model's order.
struct Matrix {
  size_t parameter;
  Kind kind;
  Index in, out;
  bool linear;  // a head, for all its shape says
  std::vector<std::string> path;
};

// These name a head wherever they stand outside numbered blocks; their last layer is it.
bool names_a_head(const std::string& part) {
  constexpr std::array<std::string_view, 11> names = {
      "head",   "heads",     "lm_head", "out_head",  "output_head", "classifier",
      "logits", "to_logits", "unembed", "embed_out", "score"};
  return std::ranges::find(names, part) != names.end();
}

// These name a head where nothing takes the layer's output: "value" is also a part of attention.
bool may_name_a_head(const std::string& part) {
  constexpr std::array<std::string_view, 14> names = {
      "fc",    "fc_out",  "out",     "output", "output_layer", "proj_out", "policy",
      "value", "decoder", "readout", "final",  "actor",        "critic",   "output_projection"};
  return std::ranges::find(names, part) != names.end() ||
         Words(part).any_of({"head", "heads", "classifier", "logits", "policy", "actor", "critic"});
}

class HeadFinder {
 public:
  HeadFinder(std::span<const ParameterInfo> parameters, std::span<const Kind> kinds) {
    for (size_t i = 0; i < parameters.size(); ++i) add(i, kinds[i], parameters[i]);
  }

  std::vector<Head> run() const {
    std::vector<Head> heads = named();
    if (heads.empty() && !has_head_) heads = guessed();
    return heads;
  }

 private:
  void add(size_t i, Kind kind, const ParameterInfo& parameter) {
    const auto& n = parameter.dimensions;
    has_head_ |= kind == Kind::Output || kind == Kind::Tied;
    if (kind == Kind::Gain && n.size() == 1) takers_.push_back(n[0]);
    if (n.size() < 2) return;
    // A tied embedding takes what its width is, as the head that it also is.
    if (kind == Kind::Embedding || kind == Kind::Position || kind == Kind::Tied) {
      takers_.push_back(n.back());
    }
    const bool matrix = kind == Kind::Linear || kind == Kind::Unknown || kind == Kind::Hidden;
    const bool conv = kind == Kind::Conv || kind == Kind::Depthwise || kind == Kind::ConvTranspose;
    if (!matrix && !conv) return;
    const bool transposed = kind == Kind::ConvTranspose;
    matrices_.push_back({.parameter = i,
                         .kind = kind,
                         .in = matrix ? n.back() : n[transposed ? 0 : 1],
                         .out = matrix ? n[n.size() - 2] : n[transposed ? 1 : 0],
                         .linear = n.size() == 2 && (kind == Kind::Linear || kind == Kind::Unknown),
                         .path = name_path(parameter.name)});
  }

  // Whether another layer has the input width that this one puts out. The first layer takes the
  // model's input, as convolutions on few channels do.
  bool taken(const Matrix& of, bool by_the_first = false) const {
    if (std::ranges::find(takers_, of.out) != takers_.end()) return true;
    return std::ranges::any_of(matrices_, [&](const Matrix& other) {
      const bool conv = other.kind == Kind::Conv && other.in <= 3;
      const bool input = &other == &matrices_.front() && !by_the_first;
      return &other != &of && !input && !conv && other.in == of.out;
    });
  }

  // The part of the path, outside numbered blocks, that names the layer or what it lies in; the
  // path's size if none does.
  size_t naming_part(const Matrix& matrix) const {
    const auto& path = matrix.path;
    for (size_t p = 0; p < path.size() && !is_number(path[p]); ++p) {
      if (names_a_head(path[p])) return p;
      const bool own = p + 1 == path.size();
      if (own && may_name_a_head(path[p]) && !taken(matrix) && !in_attention(matrix)) return p;
    }
    return path.size();
  }

  bool in_attention(const Matrix& matrix) const {
    return matrix.path.back() == "value" && std::ranges::any_of(matrices_, [&](const Matrix& m) {
             return same_parent(m, matrix) && (m.path.back() == "key" || m.path.back() == "query");
           });
  }

  // Q, K and V in one, or a gate and its value: the parts of the output are taken.
  static bool fused(const Matrix& matrix) { return matrix.in > 0 && matrix.out % matrix.in == 0; }

  static bool same_parent(const Matrix& a, const Matrix& b) {
    return std::equal(a.path.begin(), a.path.end() - 1, b.path.begin(), b.path.end() - 1);
  }

  std::vector<Head> named() const {
    std::vector<std::pair<std::vector<std::string>, std::vector<const Matrix*>>> scopes;
    for (const auto& matrix : matrices_) {
      if (!matrix.linear) continue;
      const size_t part = naming_part(matrix);
      if (part == matrix.path.size()) continue;
      const auto end = matrix.path.begin() + static_cast<std::ptrdiff_t>(part) + 1;
      const std::vector<std::string> scope(matrix.path.begin(), end);
      const auto found = std::ranges::find(scopes, scope, [](const auto& s) { return s.first; });
      if (found == scopes.end()) {
        scopes.push_back({scope, {&matrix}});
      } else {
        found->second.push_back(&matrix);
      }
    }
    std::vector<Head> heads;
    for (const auto& [scope, members] : scopes) {
      for (const size_t i : ends_of(members)) heads.push_back({i, scope.back()});
    }
    return heads;
  }

  // The last of some layers, and those right before it that are heads beside it: they see the same
  // input, and nothing takes their output.
  std::vector<size_t> ends_of(const std::vector<const Matrix*>& layers) const {
    const Matrix& last = *layers.back();
    std::vector<size_t> ends = {last.parameter};
    for (size_t i = layers.size() - 1; i-- > 0;) {
      const Matrix& layer = *layers[i];
      if (layer.in != last.in || !same_parent(layer, last) || taken(layer) || fused(layer)) break;
      ends.push_back(layer.parameter);
    }
    return ends;
  }

  std::vector<Head> guessed() const {
    if (matrices_.empty()) return {};
    const Matrix &first = matrices_.front(), &last = matrices_.back();
    const auto is_linear = [](const Matrix& m) { return m.linear && m.kind == Kind::Linear; };
    // A head registered before its body.
    if (is_linear(first) && &first != &last && first.in == last.out && !taken(first, true) &&
        !fused(first)) {
      return {{first.parameter, ""}};
    }
    if (!is_linear(last) || taken(last)) return {};
    std::vector<const Matrix*> layers;
    for (const auto& matrix : matrices_) {
      if (!is_linear(matrix))
        layers.clear();
      else
        layers.push_back(&matrix);
    }
    std::vector<Head> heads;
    for (const size_t i : ends_of(layers)) heads.push_back({i, ""});
    return heads;
  }

  std::vector<Matrix> matrices_;
  std::vector<Index> takers_;  // the widths of normalizations and embeddings, tied or not
  bool has_head_ = false;
};

}  // namespace

std::vector<Head> find_heads(std::span<const ParameterInfo> parameters,
                             std::span<const Kind> kinds) {
  return HeadFinder(parameters, kinds).run();
}

}  // namespace normball::detail
