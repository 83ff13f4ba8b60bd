#include "normball/routing.h"

#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <set>

#include "normball/error.h"
#include "normball/text.h"

namespace normball {
namespace {

// A 3-d weight of unknown kind is a 1-d convolution up to this kernel, else stacked matrices.
constexpr Index longest_kernel = 15;
// A matrix of unknown kind with that many rows and that many times as many rows as columns is
// probably a lookup table.
constexpr Index many_rows = 8192, tall = 16;

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

// Kinds, ties and the assignment of one parameter, before anything is chosen.
struct Facts {
  Kind kind = Kind::Unknown;
  bool kind_by_name = false;
  bool image_input = false;
  bool tied = false;           // an embedding that is also the output head
  bool tied_by_guess = false;  // only because the model has no other head
  std::optional<size_t> same_as = {};
  Assignment given = {};
  std::string norm_source, radius_source;  // "rule '*.bias'", "its group"
};

struct Choice {
  Role role;
  Norm norm;
  std::string why;
};

class Router {
 public:
  Router(std::span<const ParameterInfo> parameters, const RoutingOptions& options)
      : parameters_(parameters), options_(options), facts_(parameters.size()) {}

  Routing run() {
    check_names();
    find_kinds();
    find_ties();
    find_image_input();
    assign();
    for (size_t i = 0; i < parameters_.size(); ++i) route_one(i);
    warn_of_the_model();
    return std::move(result_);
  }

 private:
  void check_names() const {
    std::set<std::string_view> names;
    for (const auto& parameter : parameters_) {
      if (!names.insert(parameter.name).second) {
        detail::invalid("route", "two parameters are named '", parameter.name, "'");
      }
    }
  }

  void find_kinds() {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      Facts& facts = facts_[i];
      facts.kind = parameters_[i].kind;
      if (facts.kind != Kind::Unknown) continue;
      facts.kind = detail::guess_kind(parameters_[i].name, parameters_[i].dimensions);
      facts.kind_by_name = facts.kind != Kind::Unknown;
    }
  }

  // The same memory twice is one parameter; an embedding that is also the head, or that must be
  // it since the model has no other, is tied.
  void find_ties() {
    std::map<const void*, size_t> first;
    bool has_head = false;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      has_head |= facts_[i].kind == Kind::Output;
      if (parameters_[i].identity == nullptr) continue;
      const auto [found, is_new] = first.emplace(parameters_[i].identity, i);
      if (is_new) continue;
      const size_t other = found->second;
      if (parameters_[i].dimensions != parameters_[other].dimensions) {
        detail::invalid("route", "'", parameters_[i].name, "' and '", parameters_[other].name,
                        "' share memory but not their shape");
      }
      facts_[i].same_as = other;
      const auto either = [&](Kind kind) {
        return facts_[i].kind == kind || facts_[other].kind == kind;
      };
      if (either(Kind::Embedding) && either(Kind::Output)) {
        facts_[other].kind = Kind::Embedding;
        facts_[other].tied = true;
      }
    }
    if (has_head) return;
    Facts* largest = nullptr;
    Index rows = 0;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (facts_[i].kind != Kind::Embedding || facts_[i].same_as) continue;
      const Index own = parameters_[i].dimensions.empty() ? 0 : parameters_[i].dimensions[0];
      if (largest == nullptr || own > rows) {
        largest = &facts_[i];
        rows = own;
      }
    }
    if (largest != nullptr) largest->tied = largest->tied_by_guess = true;
  }

  // The convolutions on 2 or 3 channels see the image. Where there are none, the first on one
  // channel does; other convolutions on one channel are depthwise.
  void find_image_input() {
    const auto is_conv_on = [&](size_t i, Index least, Index most) {
      const auto& dimensions = parameters_[i].dimensions;
      return facts_[i].kind == Kind::Conv && dimensions.size() >= 3 && dimensions[1] >= least &&
             dimensions[1] <= most;
    };
    bool found = false;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      facts_[i].image_input = is_conv_on(i, 2, 3);
      found |= facts_[i].image_input;
    }
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (!is_conv_on(i, 1, 1)) continue;
      if (!found) {
        facts_[i].image_input = found = true;
      } else if (parameters_[i].dimensions[0] > 1) {
        facts_[i].kind = Kind::Depthwise;
      }
    }
  }

  // The group's word, then the rules' in their order. A tied weight listens to all its names.
  void assign() {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (!facts_[i].same_as) add(facts_[i], parameters_[i].given, "its group");
    }
    for (const auto& rule : options_.rules) {
      bool used = false;
      for (size_t i = 0; i < parameters_.size(); ++i) {
        if (!matches(rule.pattern, parameters_[i].name)) continue;
        used = true;
        add(facts_[facts_[i].same_as.value_or(i)], rule.then, "rule '" + rule.pattern + "'");
      }
      if (!used) {
        std::vector<std::string_view> names;
        for (const auto& parameter : parameters_) names.push_back(parameter.name);
        const auto nearest = nearest_name(rule.pattern, names);
        detail::invalid("route", "the pattern '", rule.pattern, "' matches no parameter",
                        nearest.empty() ? "" : "; the nearest is '", nearest,
                        nearest.empty() ? "" : "'");
      }
    }
  }

  static void add(Facts& facts, const Assignment& more, const std::string& source) {
    Assignment& given = facts.given;
    if (more.norm) given.norm = more.norm;
    if (more.role) {
      given.role = more.role;
      if (!more.norm) given.norm.reset();  // the later word wins over an earlier norm
    }
    if (more.norm || more.role) facts.norm_source = source;
    if (more.radius) {
      given.radius = more.radius;
      facts.radius_source = source;
    }
    if (more.split) given.split = more.split;
    if (more.batch) given.batch = more.batch;
  }

  void route_one(size_t i) {
    const ParameterInfo& parameter = parameters_[i];
    const Facts& facts = facts_[i];
    Route route{.name = parameter.name, .dimensions = parameter.dimensions};
    if (facts.same_as) {
      const auto& other = parameters_[*facts.same_as].name;
      route.tied_to = facts.same_as;
      route.why = "tied: the same memory as '" + other + "'";
      warn("'", parameter.name, "' and '", other,
           "' are one tied weight listed twice; it is updated once, as '", other, "'");
    } else if (!parameter.in_group) {
      route.why = "in no group: never updated";
      warn("'", parameter.name, "' is in no parameter group and will never be updated");
    } else {
      const Choice choice = choose(i);
      route.role = choice.role;
      route.norm = choice.norm;
      route.why = choice.why;
      route.radius = facts.given.radius.value_or(options_.radii.of(choice.role));
      if (!(std::isfinite(route.radius) && route.radius > 0)) {
        detail::invalid("route", "the radius of '", parameter.name,
                        "' must be positive and finite, got ", route.radius);
      }
      if (!facts.radius_source.empty() && facts.radius_source != facts.norm_source) {
        route.why += "; radius by " + facts.radius_source;
      }
      if (!parameter.requires_grad) route.why += "; frozen";
      route.blocks = blocks_of(i);
      warn_of(i, route);
    }
    result_.routes.push_back(std::move(route));
  }

  Choice choose(size_t i) {
    const Facts& facts = facts_[i];
    Choice choice = choose_by_kind(i);
    if (facts.given.role) {
      choice.role = *facts.given.role;
      choice.norm = norm_for(choice.role);
      if (facts.kind == Kind::ConvTranspose) {
        if (auto* spectral = std::get_if<Spectral>(&choice.norm)) spectral->transposed = true;
      }
      choice.why = "role " + to_string(choice.role) + " by " + facts.norm_source;
    }
    if (auto* spectral = std::get_if<Spectral>(&choice.norm)) spectral->solver = options_.solver;
    if (facts.given.norm && !std::holds_alternative<Auto>(*facts.given.norm)) {
      choice.norm = *facts.given.norm;
      choice.why = facts.norm_source;
    }
    return choice;
  }

  Choice choose_by_kind(size_t i) const {
    const Facts& facts = facts_[i];
    const auto& dimensions = parameters_[i].dimensions;
    // What the kind is called, and the name if it came from that.
    const auto why = [&](std::string what) {
      if (facts.kind_by_name && dimensions.size() <= 3) {
        what += " (named '" + detail::own_name(parameters_[i].name) + "')";
      }
      return what;
    };
    switch (facts.kind) {
      case Kind::Gain:
        return {Role::Bias, Rms{}, why("normalization gain")};
      case Kind::Bias:
        return {Role::Bias, Rms{}, "bias"};
      case Kind::Position:
        return {Role::Bias, Rms{}, why("position or class embedding")};
      default:
        break;
    }
    if (dimensions.size() <= 1) return {Role::Bias, Rms{}, "vector"};
    switch (facts.kind) {
      case Kind::Embedding:
        if (facts.tied_by_guess) {
          return {Role::Output, Sign{}, why("embedding, taken as tied: no output head")};
        }
        if (facts.tied) return {Role::Output, Sign{}, why("embedding tied to the output head")};
        return {Role::OneHot, ColNorm{.transposed = true}, why("embedding: one-hot input")};
      case Kind::Output:
        return {Role::Output, Sign{}, why("output head")};
      case Kind::Depthwise:
        return {Role::Hidden, RowNorm{}, "depthwise convolution"};
      case Kind::ConvTranspose:
        return {Role::Hidden, Spectral{.transposed = true}, "transposed convolution"};
      case Kind::Conv:
        if (facts.image_input) {
          return {Role::Input, Spectral{.scale = SpectralScale::Input},
                  "convolution on " + std::to_string(dimensions[1]) +
                      (dimensions[1] == 1 ? " channel" : " channels") + ": image input"};
        }
        return {Role::Hidden, Spectral{}, "convolution"};
      default:
        return {Role::Hidden, Spectral{}, batch_of(i) > 0 ? "stacked matrices" : "matrix"};
    }
  }

  int batch_of(size_t i) const {
    const Facts& facts = facts_[i];
    const auto& dimensions = parameters_[i].dimensions;
    if (facts.given.batch) return *facts.given.batch;
    const int rank = static_cast<int>(dimensions.size());
    if (facts.kind == Kind::Linear && rank > 2) return rank - 2;
    if (facts.kind == Kind::Unknown && rank == 3) return dimensions[2] > longest_kernel ? 1 : 0;
    return 0;
  }

  std::vector<Block> blocks_of(size_t i) const {
    const ParameterInfo& parameter = parameters_[i];
    const Kind kind = facts_[i].kind;
    std::vector<Index> dimensions = parameter.dimensions;
    if (kind == Kind::Position || kind == Kind::Gain || kind == Kind::Bias) {
      while (dimensions.size() > 2) {  // (1, tokens, width): no convolution
        dimensions[1] *= dimensions[0];
        dimensions.erase(dimensions.begin());
      }
    }
    return detail::cut_blocks(parameter.name, dimensions, batch_of(i),
                              facts_[i].given.split.value_or(Split{}));
  }

  void warn_of(size_t i, const Route& route) {
    const Facts& facts = facts_[i];
    const auto& dimensions = parameters_[i].dimensions;
    const bool spectral = std::holds_alternative<Spectral>(route.norm);
    const std::string shape = detail::dimensions_text(dimensions);
    if (facts.kind == Kind::Depthwise) {
      warn("'", route.name, "' (", shape, ") looks like a depthwise convolution: each filter sees ",
           "one channel, and a spectral norm of all of them together would couple them; it has ",
           to_string(route.norm), ", and 'row' treats each filter by itself");
    }
    if (facts.kind == Kind::Embedding && spectral) {
      warn("the embedding '", route.name, "' (", shape, ") is routed to ", to_string(route.norm),
           ": its input is one-hot, so 'col(transposed)', or 'sign' where it is tied, fits and is ",
           "far cheaper");
    }
    if (facts.kind == Kind::Unknown && spectral && dimensions.size() == 2 &&
        dimensions[0] >= many_rows && dimensions[0] >= tall * dimensions[1]) {
      warn("'", route.name, "' (", shape, ") looks like an embedding but is routed to ",
           to_string(route.norm), ": give it the role 'onehot', or 'output' where it is tied");
    }
    if (facts.kind == Kind::Unknown && dimensions.size() == 3 && !facts.given.batch) {
      warn("'", route.name, "' (", shape, ") could be a 1-d convolution or stacked matrices ",
           "(experts); it is taken as ", batch_of(i) > 0 ? "stacked matrices" : "a convolution",
           ": say batch=1 for matrices or batch=0 for a convolution");
    }
  }

  void warn_of_the_model() {
    const Route* last = nullptr;
    bool has_head = false;
    for (size_t i = 0; i < result_.routes.size(); ++i) {
      const Route& route = result_.routes[i];
      if (route.blocks.empty()) continue;
      has_head |= route.role == Role::Output || std::holds_alternative<Sign>(route.norm);
      if (facts_[i].norm_source.empty() && route.dimensions.size() == 2 &&
          route.role == Role::Hidden) {
        last = &route;
      }
    }
    if (!has_head && last != nullptr) {
      warn("no output head was recognized: '", last->name, "', the last matrix, is routed to ",
           to_string(last->norm), " as a hidden layer; if it makes the logits, give it the role ",
           "'output'");
    }
    if (options_.grad_clip > 0) {
      warn("gradients are clipped to norm ", options_.grad_clip, " (clip_grad_norm) before the ",
           "step: s then measures the clipped gradient and rho loses its meaning; leave the ",
           "clipping to rho");
    }
  }

  template <class... Parts>
  void warn(const Parts&... parts) {
    std::ostringstream text;
    (text << ... << parts);
    result_.warnings.push_back(text.str());
  }

  std::span<const ParameterInfo> parameters_;
  const RoutingOptions& options_;
  std::vector<Facts> facts_;
  Routing result_;
};

}  // namespace

double RoleRadii::of(Role role) const {
  switch (role) {
    case Role::Input:
      return input;
    case Role::OneHot:
      return onehot;
    case Role::Hidden:
      return hidden;
    case Role::Output:
      return output;
    case Role::Bias:
      return bias;
  }
  return 1;
}

Routing route(std::span<const ParameterInfo> parameters, const RoutingOptions& options) {
  validate(options.solver);
  return Router(parameters, options).run();
}

}  // namespace normball
