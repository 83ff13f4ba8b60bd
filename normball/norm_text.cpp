// Norms from and to text: the names of each come from its file.
#include <algorithm>
#include <ostream>
#include <vector>

#include "normball/base/error.h"
#include "normball/base/text.h"
#include "normball/internal/role_names.h"
#include "normball/norms.h"

namespace normball {
namespace {

// Calls visit.template operator()<N>() for every kind of norm, until one returns true.
template <class Visit, class... N>
bool any_norm(const std::variant<N...>*, const Visit& visit) {
  return (visit.template operator()<N>() || ...);
}
constexpr const Norm* all_norms = nullptr;  // for its type

Norm parse_name(TextCall& call) {
  Norm norm;
  const bool found = any_norm(all_norms, [&]<class N>() {
    if (std::ranges::find(N::names, call.name) == N::names.end()) return false;
    norm = N::parse(call);
    return true;
  });
  if (found) return norm;
  for (const auto& [name, role] : detail::role_names) {
    if (call.name == name) return norm_for(role);
  }
  std::vector<std::string_view> known;
  any_norm(all_norms, [&]<class N>() {
    known.insert(known.end(), N::names.begin(), N::names.end());
    return false;
  });
  for (const auto& [name, role] : detail::role_names) known.push_back(name);
  throw_invalid("parse_norm", unknown_name("norm", call.name, known));
}

}  // namespace

Norm parse_norm(std::string_view text) { return parse_norm(text, ExactPolar{}); }

Norm parse_norm(std::string_view text, const PolarSolver& solver) {
  auto call = TextCall::parse("parse_norm", text);
  const bool names_solver =
      std::ranges::count(call.arguments, "solver", &TextCall::Argument::key) > 0;
  Norm norm = parse_name(call);
  call.require_all_taken();
  if (auto* const spectral = std::get_if<Spectral>(&norm); spectral && !names_solver) {
    spectral->solver = solver;
  }
  return norm;
}

std::string to_string(const Norm& norm) {
  return std::visit([](const auto& own) { return own.text(); }, norm);
}

std::ostream& operator<<(std::ostream& out, const Norm& norm) { return out << to_string(norm); }

}  // namespace normball
