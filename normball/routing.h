// Which norm and radius each parameter of a model gets, and why.
//
// A model's parameters come with names, dimensions and, where the caller knows it, what they do.
// What a rule or the parameter's group says wins; the rest is chosen by what the parameter is: as
// the type of its module says, else its name, else its shape.
//
//   vector, bias, normalization gain, position or class embedding   Rms
//   matrix, convolution                                             Spectral
//   convolution on 2 or 3 channels, or the first on 1               Spectral, image input
//   depthwise convolution                                           RowNorm
//   embedding                                                       ColNorm, transposed
//   output head; embedding tied to it                               Sign
//
// A parameter may consist of several matrices (fused QKV, heads, experts); each is a separate
// layer.
#pragma once

#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "normball/product_norm.h"

namespace normball {

// What a parameter is, as far as the caller knows; if Unknown, its name may tell.
enum class Kind {
  Unknown,
  Linear,         // (out, in), perhaps the output head; with more dimensions in front: stacked
  Conv,           // (out, in, k...)
  Depthwise,      // (channels, 1, k...)
  ConvTranspose,  // (in, out, k...)
  Embedding,      // (vocabulary, width)
  Position,       // position or class embeddings, added to activations
  Gain,           // of a normalization
  Bias,
  Output,  // the output head, (classes, in)
  Hidden,  // (out, in) inside attention or a recurrent layer: never the output head
  Tied,    // (vocabulary, width), embedding and output head in one
  Alias,   // another name of a weight that comes earlier
};

// "unknown", "linear", "conv", "depthwise", "conv_transpose", "embedding", "position", "norm",
// "bias", "output", "hidden", "tied", "alias".
Kind parse_kind(std::string_view text);
std::string to_string(Kind kind);

// A parameter of a model as its modules show it, in PyTorch's names, which LibTorch shares.
struct ModuleParameter {
  std::string name;  // from the root: "blocks.0.attn.in_proj_weight"
  std::vector<std::string>
      types;  // of the modules around it, its own last: "Linear"; "" if unknown
  std::vector<Index> dimensions;
  Index groups = 1;                // of a convolution
  const void* identity = nullptr;  // of the tensor: tied weights are one tensor
};

// What the parameters of a model are, by the types of their modules; Unknown if these do not tell.
// A tied weight has its kind at its first mention and is an Alias afterwards.
std::vector<Kind> kinds_of(std::span<const ModuleParameter> parameters);
// Whether kinds_of() knows a type of module: "Linear", "Conv2d", "LSTM", ...
bool is_module_type(std::string_view type);

// Cuts a matrix into blocks of rows or of columns.
struct Split {
  bool columns = false;
  std::vector<Index> parts = {1};  // one number: that many equal parts; several: their sizes

  friend bool operator==(const Split&, const Split&) = default;
};

// "3" or "rows(3)" (fused QKV), "rows(768, 256, 256)" (fewer key heads), "columns(12)" (by head).
Split parse_split(std::string_view text);
std::string to_string(const Split& split);

// The choices of a rule or a group; routing makes those that it leaves out.
struct Assignment {
  std::optional<Norm> norm = {};  // Auto leaves the choice to routing
  std::optional<Role> role = {};  // its norm, and which default radius
  std::optional<double> radius = {};
  std::optional<Split> split = {};
  std::optional<int> batch = {};  // number of leading dimensions that index matrices (experts)
  std::optional<double> lr = {};  // instead of the group's; follows the group's schedule

  friend bool operator==(const Assignment&, const Assignment&) = default;
};

struct ParameterInfo {
  std::string name;
  std::vector<Index> dimensions;
  Kind kind = Kind::Unknown;
  const void* identity = nullptr;  // its data: tied weights have the same
  bool requires_grad = true;
  Assignment given = {};  // by its group
};

// Names are matched with *, ? and [...], as file names are; * also matches dots. Later rules win.
struct RoutingRule {
  std::string pattern;
  Assignment then;

  bool matches(const std::string& name) const;
  friend bool operator==(const RoutingRule&, const RoutingRule&) = default;
};

// The radius of a parameter by its role, if neither a rule nor its group gives one.
struct RoleRadii {
  double input = 1, onehot = 1, hidden = 1, output = 1, bias = 1;

  double of(Role role) const;
  friend bool operator==(const RoleRadii&, const RoleRadii&) = default;
};

// The norm of a parameter by its role, likewise; without one it is chosen by what the parameter is.
struct RoleNorms {
  std::optional<Norm> input = {}, onehot = {}, hidden = {}, output = {}, bias = {};

  const std::optional<Norm>& of(Role role) const;
  friend bool operator==(const RoleNorms&, const RoleNorms&) = default;
};

// Who wins: the method's norm and radius, then rules, the later over the earlier, then the
// parameter's group, then norms and radii by role, then what the parameter is.
struct RoutingOptions {
  std::vector<RoutingRule> rules = {};
  RoleNorms norms = {};
  RoleRadii radii = {};
  // Radii that no rule and no group gives come from the architecture (depth and fan-in) instead:
  // explain() says why, docs/stepsizes.md by what rule.
  bool auto_radii = false;
  PolarSolver solver = ExactPolar{};  // of the spectral norms that routing chooses
  double grad_clip = 0;               // the norm to which the caller clips gradients, 0: not at all
  // Some methods determine the norm or radius of all layers. A rule or group that gives another is
  // an error, because it would have no effect.
  std::string method = {};
  std::optional<Norm> method_norm = {};
  std::optional<double> method_radius = {};
  bool method_sees_matrices = true;  // else a split or a batch is an error likewise
};

// A matrix within a contiguous parameter: element (i, j) is data[offset + i * stride + j].
struct Block {
  std::string name;  // the parameter's, with [i] where there are several
  Index offset = 0;
  Index stride = 0;
  Shape shape = {};
};

struct Route {
  std::string name;
  std::vector<Index> dimensions;
  std::vector<Block> blocks = {};  // empty: the parameter takes no part
  Kind kind = Kind::Unknown;
  Role role = Role::Hidden;
  Norm norm = Auto{};  // never Auto where there are blocks
  double radius = 1;
  std::optional<double> lr = {};  // if a rule gives one
  std::string why = {};
  std::optional<size_t> tied_to = {};  // the route that holds the same memory
};

struct Routing {
  std::vector<Route> routes;  // one for each parameter, in order
  std::vector<std::string> warnings;

  // The layers for an Optimizer: every block of every route, in order.
  std::vector<Layer> layers() const;
  // A table (parameter, shape, norm, radius, why), then the warnings.
  std::string explain() const;

  // For explain(): the parameter's name in the model, if the optimizer was given none.
  void rename(size_t route, const std::string& name);
  // For explain(): a parameter of the model that the optimizer does not have.
  void add_ungrouped(const std::string& name, std::vector<Index> dimensions);
};

// Throws std::invalid_argument for a pattern that matches nothing (naming the nearest parameter),
// two parameters of one name, a radius that is not positive, and splits that do not fit.
Routing route(std::span<const ParameterInfo> parameters, const RoutingOptions& options = {});

// "64x3x3x3", or "scalar".
std::string dimensions_text(std::span<const Index> dimensions);

}  // namespace normball
