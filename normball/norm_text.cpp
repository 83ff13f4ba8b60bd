// Norms from and to text.
#include <algorithm>
#include <array>
#include <ostream>
#include <utility>

#include "normball/error.h"
#include "normball/norms.h"
#include "normball/text.h"

namespace normball {
namespace {

constexpr std::array<std::pair<std::string_view, SpectralScale>, 4> spectral_scales = {{
    {"hidden", SpectralScale::Hidden},
    {"input", SpectralScale::Input},
    {"onehot", SpectralScale::OneHot},
    {"unit", SpectralScale::Unit},
}};

constexpr std::array<std::pair<std::string_view, Role>, 5> roles = {{
    {"input", Role::Input},
    {"onehot", Role::OneHot},
    {"hidden", Role::Hidden},
    {"output", Role::Output},
    {"bias", Role::Bias},
}};

constexpr std::array<std::string_view, 13> known_names = {
    "auto", "euclidean", "frobenius", "rms",    "sign",   "spectral", "col",
    "row",  "input",     "onehot",    "hidden", "output", "bias"};

Norm parse_spectral(TextCall& call) {
  Spectral norm;
  norm.transposed = call.take_flag("transposed");
  std::string_view chosen;
  for (const auto& [name, scale] : spectral_scales) {
    if (!call.take_flag(name)) continue;
    if (!chosen.empty()) {
      detail::invalid("parse_norm", "'", chosen, "' and '", name,
                      "' are two scalings of the spectral norm: choose one");
    }
    chosen = name;
    norm.scale = scale;
  }
  norm.solver = parse_polar_solver(call.take("solver", "exact"));
  return norm;
}

Norm parse_name(TextCall& call) {
  if (call.name == "auto") return Auto{};
  if (call.name == "euclidean" || call.name == "frobenius") return Euclidean{};
  if (call.name == "rms") return Rms{};
  if (call.name == "sign") {
    const bool unit = call.take_flag("unit");
    return Sign{.unit = unit, .transposed = call.take_flag("transposed")};
  }
  if (call.name == "spectral") return parse_spectral(call);
  if (call.name == "col") return ColNorm{.transposed = call.take_flag("transposed")};
  if (call.name == "row") return RowNorm{.transposed = call.take_flag("transposed")};
  for (const auto& [name, role] : roles) {
    if (call.name == name) return norm_for(role);
  }
  detail::invalid("parse_norm", unknown_name("norm", call.name, known_names));
}

std::string with_options(std::string_view name, std::initializer_list<std::string> options) {
  std::string inside;
  for (const auto& option : options) {
    if (option.empty()) continue;
    inside += (inside.empty() ? "" : ", ") + option;
  }
  return std::string(name) + (inside.empty() ? "" : "(" + inside + ")");
}

std::string flag(std::string_view name, bool set) { return set ? std::string(name) : ""; }

std::string scale_text(SpectralScale scale) {
  const auto found = std::ranges::find(spectral_scales, scale,
                                       &std::pair<std::string_view, SpectralScale>::second);
  return scale == SpectralScale::Hidden ? "" : std::string(found->first);
}

}  // namespace

Norm parse_norm(std::string_view text) {
  auto call = TextCall::parse("parse_norm", text);
  Norm norm = parse_name(call);
  call.require_all_taken();
  return norm;
}

Norm parse_norm(std::string_view text, const PolarSolver& solver) {
  Norm norm = parse_norm(text);
  auto* const spectral = std::get_if<Spectral>(&norm);
  const bool named = text.find("solver") != std::string_view::npos;
  if (spectral != nullptr && !named) spectral->solver = solver;
  return norm;
}

Role parse_role(std::string_view text) {
  for (const auto& [name, role] : roles) {
    if (text == name) return role;
  }
  std::array<std::string_view, roles.size()> names;
  std::ranges::transform(roles, names.begin(), &std::pair<std::string_view, Role>::first);
  detail::invalid("parse_role", unknown_name("role", text, names));
}

std::string to_string(Role role) {
  return std::string(
      std::ranges::find(roles, role, &std::pair<std::string_view, Role>::second)->first);
}

std::string to_string(const Norm& norm) {
  struct Printer {
    std::string operator()(const Auto&) const { return "auto"; }
    std::string operator()(const Euclidean&) const { return "euclidean"; }
    std::string operator()(const Rms&) const { return "rms"; }
    std::string operator()(const Sign& n) const {
      return with_options("sign", {flag("unit", n.unit), flag("transposed", n.transposed)});
    }
    std::string operator()(const Spectral& n) const {
      const bool exact = std::holds_alternative<ExactPolar>(n.solver);
      return with_options("spectral", {scale_text(n.scale), flag("transposed", n.transposed),
                                       exact ? "" : "solver=" + to_string(n.solver)});
    }
    std::string operator()(const ColNorm& n) const {
      return with_options("col", {flag("transposed", n.transposed)});
    }
    std::string operator()(const RowNorm& n) const {
      return with_options("row", {flag("transposed", n.transposed)});
    }
    std::string operator()(const Custom& n) const { return n.oracle ? n.oracle->name() : "custom"; }
  };
  return std::visit(Printer{}, norm);
}

std::ostream& operator<<(std::ostream& out, const Norm& norm) { return out << to_string(norm); }

}  // namespace normball
