#include "normball/routing.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "normball/base/error.h"
#include "normball/base/text.h"
#include "normball/internal/routing/blocks.h"
#include "normball/internal/routing/facts.h"
#include "normball/internal/routing/radii.h"

namespace normball {
namespace {

// A 3-d weight of unknown kind is a 1-d convolution up to this kernel, else stacked matrices.
constexpr Index longest_kernel = 15;
// A matrix of unknown kind with that many rows and that many times as many rows as columns is
// probably a lookup table.
constexpr Index many_rows = 8192, tall = 16;

bool is_auto(const Norm& norm) { return std::holds_alternative<Auto>(norm); }

// What rules and the group say of one parameter.
struct Said {
  Assignment given = {};
  std::string norm_source = {}, radius_source = {}, lr_source = {}, split_source = {},
              batch_source = {};  // "rule '*.bias'", "its group"
};

struct Choice {
  Role role;
  Norm norm;
  std::string why;
};

class Router {
 public:
  Router(std::span<const ParameterInfo> parameters, const RoutingOptions& options)
      : parameters_(parameters), options_(options), said_(parameters.size()) {}

  Routing run() {
    check_names();
    facts_ = detail::find_facts(parameters_);
    assign();
    if (options_.auto_radii) auto_radii_.emplace(parameters_, facts_);
    for (size_t i = 0; i < parameters_.size(); ++i) route_one(i);
    warn_of_the_model();
    return std::move(result_);
  }

 private:
  void check_names() const {
    std::set<std::string_view> names;
    for (const auto& parameter : parameters_) {
      if (!names.insert(parameter.name).second) {
        throw_invalid("route", "two parameters are named '", parameter.name,
                      "'; give each module its own prefix");
      }
    }
  }

  // The group's word, then the rules' in their order. A tied weight listens to all its names.
  void assign() {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (!facts_[i].same_as) add(said_[i], parameters_[i].given, "its group");
    }
    for (const auto& rule : options_.rules) {
      bool used = false;
      for (size_t i = 0; i < parameters_.size(); ++i) {
        if (!rule.matches(parameters_[i].name)) continue;
        used = true;
        add(said_[facts_[i].same_as.value_or(i)], rule.then, "rule '" + rule.pattern + "'");
      }
      if (!used) {
        std::vector<std::string_view> names;
        for (const auto& parameter : parameters_) names.push_back(parameter.name);
        const auto nearest = nearest_name(rule.pattern, names);
        throw_invalid("route", "the pattern '", rule.pattern, "' matches no parameter",
                      nearest.empty() ? "" : "; the nearest is '", nearest,
                      nearest.empty() ? "" : "'");
      }
    }
  }

  void add(Said& said, const Assignment& more, const std::string& source) const {
    const bool chooses = more.norm && !is_auto(*more.norm);
    const auto refuse = [&](std::string_view what) {
      throw_invalid("route", "the method '", options_.method, "' sets every ", what, " itself; ",
                    source, " gives another, which would have no effect");
    };
    if (options_.method_norm && (chooses || more.role)) refuse("norm");
    if (options_.method_radius && more.radius) refuse("radius");
    if (!options_.method_sees_matrices && (more.split || more.batch)) {
      throw_invalid("route", "the method '", options_.method,
                    "' has one norm for all entries; the ", more.split ? "split" : "batch", " of ",
                    source, ", which says where matrices begin, would have no effect");
    }
    Assignment& given = said.given;
    if (more.norm) given.norm = more.norm;
    if (more.role) {
      given.role = more.role;
      if (!more.norm) given.norm.reset();  // the later word wins over an earlier norm
    }
    if (more.norm || more.role) said.norm_source = source;
    if (more.radius) {
      given.radius = more.radius;
      said.radius_source = source;
    }
    if (more.lr) {
      given.lr = more.lr;
      said.lr_source = source;
    }
    if (more.split) {
      given.split = more.split;
      said.split_source = source;
    }
    if (more.batch) {
      given.batch = more.batch;
      said.batch_source = source;
    }
  }

  void route_one(size_t i) {
    const ParameterInfo& parameter = parameters_[i];
    const detail::Facts& facts = facts_[i];
    const Said& said = said_[i];
    Route route{.name = parameter.name, .dimensions = parameter.dimensions, .kind = facts.kind};
    if (facts.same_as) {
      const auto& other = parameters_[*facts.same_as].name;
      route.tied_to = facts.same_as;
      route.why = "tied: the same memory as '" + other + "'";
      if (facts.kind != Kind::Alias) {
        warn("'", parameter.name, "' and '", other,
             "' are one tied weight listed twice; it is updated once, as '", other, "'");
      }
    } else {
      const Choice choice = choose(i);
      route.role = choice.role;
      route.norm = choice.norm;
      route.why = choice.why;
      route.radius = options_.method_radius.value_or(
          said.given.radius.value_or(options_.radii.of(choice.role)));
      route.blocks = blocks_of(i);
      if (auto_radii_ && !said.given.radius) {
        const auto chosen = auto_radii_->of(i, route);
        route.radius = chosen.radius;
        route.why += "; " + chosen.why;
      }
      if (!(std::isfinite(route.radius) && route.radius > 0)) {
        throw_invalid("route", "the radius of '", parameter.name,
                      "' must be positive and finite, got ", route.radius);
      }
      if (!said.radius_source.empty() && said.radius_source != said.norm_source) {
        route.why += "; radius by " + said.radius_source;
      }
      set_lr(route, said);
      if (said.given.split) {
        route.why += "; split " + to_string(*said.given.split) + " by " + said.split_source;
      }
      if (said.given.batch) {
        route.why += "; batch " + std::to_string(*said.given.batch) + " by " + said.batch_source;
      }
      if (!parameter.requires_grad) route.why += "; frozen";
      if (!options_.method_norm) warn_of(i, route);
    }
    result_.routes.push_back(std::move(route));
  }

  static void set_lr(Route& route, const Said& said) {
    if (!said.given.lr) return;
    const double lr = *said.given.lr;
    if (!(std::isfinite(lr) && lr >= 0)) {
      throw_invalid("route", "the lr of '", route.name, "' must be finite and not negative, got ",
                    lr, " from ", said.lr_source);
    }
    route.lr = lr;
    route.why += "; lr " + number_text(lr) + " by " + said.lr_source;
  }

  Choice choose(size_t i) {
    const detail::Facts& facts = facts_[i];
    const Said& said = said_[i];
    Choice choice = choose_by_kind(i);
    if (options_.method_norm) {
      return {choice.role, *options_.method_norm, "the method '" + options_.method + "'"};
    }
    if (said.given.role) {
      choice.role = *said.given.role;
      choice.norm = norm_for(choice.role);
      if (facts.kind == Kind::ConvTranspose) {
        if (auto* spectral = std::get_if<Spectral>(&choice.norm)) spectral->transposed = true;
      }
      choice.why = "role " + to_string(choice.role) + " by " + said.norm_source;
    }
    if (auto* spectral = std::get_if<Spectral>(&choice.norm)) spectral->solver = options_.solver;
    if (const auto& by_role = options_.norms.of(choice.role); by_role && !is_auto(*by_role)) {
      if (choice.norm != *by_role) choice.why += "; the norm of role " + to_string(choice.role);
      choice.norm = *by_role;
    }
    if (said.given.norm && !is_auto(*said.given.norm)) {
      choice.norm = *said.given.norm;
      choice.why = said.norm_source;
    }
    return choice;
  }

  Choice choose_by_kind(size_t i) const {
    const detail::Facts& facts = facts_[i];
    const auto& dimensions = parameters_[i].dimensions;
    // What the kind is called, and the name if it came from that.
    const auto why = [&](std::string what) {
      if (!facts.named.empty() && dimensions.size() <= 3) what += " (named '" + facts.named + "')";
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
      case Kind::Tied:
        return {Role::Output, Sign{},
                why(facts.guessed ? "embedding, taken as tied: no output head"
                                  : "embedding tied to the output head")};
      case Kind::Embedding:
        return {Role::OneHot, ColNorm{.transposed = true}, why("embedding: one-hot input")};
      case Kind::Output:
        return {
            Role::Output, Sign{},
            why(facts.guessed ? "output head (a guess: nothing takes its output)" : "output head")};
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
    const detail::Facts& facts = facts_[i];
    const auto& dimensions = parameters_[i].dimensions;
    if (said_[i].given.batch) return *said_[i].given.batch;
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
                              said_[i].given.split.value_or(Split{}));
  }

  void warn_of(size_t i, const Route& route) {
    const detail::Facts& facts = facts_[i];
    const Said& said = said_[i];
    const auto& dimensions = parameters_[i].dimensions;
    const bool spectral = std::holds_alternative<Spectral>(route.norm);
    const std::string shape = dimensions_text(dimensions);
    if (facts.kind == Kind::Depthwise && parameters_[i].kind != Kind::Depthwise) {
      warn("'", route.name, "' (", shape, ") looks like a depthwise convolution: each filter sees ",
           "one channel, and a spectral norm of all of them together would couple them; it has ",
           to_string(route.norm), ", and 'row' treats each filter by itself");
    }
    if ((facts.kind == Kind::Embedding || facts.kind == Kind::Tied) && spectral) {
      warn("the embedding '", route.name, "' (", shape, ") is routed to ", to_string(route.norm),
           ": its input is one-hot, so 'col(transposed)', or 'sign' where it is tied, fits and is ",
           "far cheaper");
    }
    if (facts.kind == Kind::Unknown && spectral && dimensions.size() == 2 &&
        dimensions[0] >= many_rows && dimensions[0] >= tall * dimensions[1]) {
      warn("'", route.name, "' (", shape, ") looks like an embedding but is routed to ",
           to_string(route.norm), ": give it the role 'onehot', or 'output' where it is tied");
    }
    if (facts.kind == Kind::Output && facts.guessed && said.norm_source.empty()) {
      warn("no layer is named as the output head; '", route.name, "' is taken for it, since no ",
           "other layer takes its output: if that is wrong, give it the role 'hidden'");
    }
    if (facts.kind == Kind::Unknown && dimensions.size() == 3 && !said.given.batch) {
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
      if (said_[i].norm_source.empty() && route.dimensions.size() == 2 &&
          route.role == Role::Hidden) {
        last = &route;
      }
    }
    if (!has_head && last != nullptr && !options_.method_norm) {
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
  std::vector<detail::Facts> facts_;
  std::vector<Said> said_;
  std::optional<detail::AutoRadii> auto_radii_;
  Routing result_;
};

// Of a structure with a member for each role.
template <class Members>
const auto& of_role(const Members& members, Role role) {
  switch (role) {
    case Role::Input:
      return members.input;
    case Role::OneHot:
      return members.onehot;
    case Role::Hidden:
      return members.hidden;
    case Role::Output:
      return members.output;
    case Role::Bias:
      return members.bias;
  }
  return members.hidden;
}

}  // namespace

bool RoutingRule::matches(const std::string& name) const {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

double RoleRadii::of(Role role) const { return of_role(*this, role); }

const std::optional<Norm>& RoleNorms::of(Role role) const { return of_role(*this, role); }

Routing route(std::span<const ParameterInfo> parameters, const RoutingOptions& options) {
  validate(options.solver);
  if (!(std::isfinite(options.grad_clip) && options.grad_clip >= 0)) {
    throw_invalid("route", "grad_clip must be finite and not negative, got ", options.grad_clip);
  }
  if (options.method_norm && options.norms != RoleNorms{}) {
    throw_invalid("route", "the method '", options.method,
                  "' sets every norm itself; norms by role would have no effect");
  }
  detail::check_radii(options);
  return Router(parameters, options).run();
}

}  // namespace normball
