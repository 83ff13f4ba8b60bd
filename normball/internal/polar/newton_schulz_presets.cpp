// Coefficients of Newton-Schulz iterations.
#include "normball/internal/polar/newton_schulz_presets.h"

#include <algorithm>

#include "normball/base/error.h"
#include "normball/base/text.h"
#include "normball/polar.h"

namespace normball {
namespace {

struct Preset {
  std::string_view name;
  std::vector<Quintic> steps;
  int default_steps;
};

// Coefficients: muon, Jordan et al. 2024; you, You 2025; polar_express, Amsel et al. 2025 (the
// steps after the first five tend to the last row); cans, Grishina et al. 2025; cubic, classical.
const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
      {"muon", {{3.4445, -4.7750, 2.0315}}, 5},
      {"you",
       {{4.0848, -6.8946, 2.9270},
        {3.9505, -6.3029, 2.6377},
        {3.7418, -5.5913, 2.3037},
        {2.8769, -3.1427, 1.2046},
        {2.8366, -3.0525, 1.2012}},
       5},
      {"polar_express",
       {{8.28721201814563, -23.595886519098837, 17.300387312530933},
        {4.107059111542203, -2.9478499167379106, 0.5448431082926601},
        {3.9486908534822946, -2.908902115962949, 0.5518191394370137},
        {3.3184196573706015, -2.488488024314874, 0.51004894012372},
        {2.300652019954817, -1.6689039845747493, 0.4188073119525673},
        {1.8913, -1.2680, 0.3768},
        {1.875, -1.25, 0.375}},
       5},
      {"cans",
       {{8.4703, -25.1081, 18.6293},
        {4.1828, -3.1087, 0.5806},
        {3.9619, -2.9541, 0.5630},
        {3.2866, -2.4647, 0.5074},
        {2.2737, -1.6447, 0.4162}},
       5},
      {"cubic", {{1.5, -0.5, 0}}, 15},
  };
  return all;
}

}  // namespace

std::vector<std::string_view> detail::newton_schulz_presets() {
  std::vector<std::string_view> names;
  for (const auto& preset : presets()) names.push_back(preset.name);
  return names;
}

NewtonSchulz newton_schulz(std::string_view preset, int steps) {
  const auto& all = presets();
  const auto found = std::ranges::find(all, preset, &Preset::name);
  if (found == all.end()) {
    throw_invalid("newton_schulz", unknown_name("preset", preset, detail::newton_schulz_presets()));
  }
  if (steps < 0) throw_invalid("newton_schulz", "steps must not be negative, got ", steps);
  if (steps == 0) steps = found->default_steps;
  NewtonSchulz solver{.steps = {}, .preset = std::string(preset)};
  for (int i = 0; i < steps; ++i) {
    solver.steps.push_back(
        found->steps[std::min<size_t>(static_cast<size_t>(i), found->steps.size() - 1)]);
  }
  if (preset == "polar_express") {
    // The authors guard against rounding above 1: every step but the last expects x / 1.01.
    constexpr double s = 1.01;
    solver.safety = s;
    for (size_t i = 0; i + 1 < solver.steps.size(); ++i) {
      auto& [a, b, c] = solver.steps[i];
      a /= s;
      b /= s * s * s;
      c /= s * s * s * s * s;
    }
  }
  return solver;
}

}  // namespace normball
