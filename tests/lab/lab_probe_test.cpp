#include <cmath>

#include "lab/problem.h"
#include "lab/smoothness_probe.h"
#include "testing.h"

namespace normball::lab {
namespace {

using Views = SmoothnessProbe::Views;

// Σ_i c_i (e^z_i − 1 − z_i) over n entries. In the max-norm, with all z_i equal and positive, the
// curvature is Σ c_i e^z = Σ c_i + ‖∇f‖₁: the line (K0, K1) = (Σ c_i, 1) is attained everywhere.
struct Exponential {
  std::vector<double> c;
  double k0() const { return normball::testing::sum_of(c); }
  SmoothnessProbe::GradientAt gradient() const {
    return [this](Views x, Views g) {
      for (Index i = 0; i < x[0].size(); ++i) {
        g[0].data[i] = c[static_cast<size_t>(i)] * std::expm1(x[0].data[i]);
      }
    };
  }
  std::vector<Layer> layers() const {
    return {
        {.name = "x", .shape = {.rows = static_cast<Index>(c.size())}, .norm = Sign{.unit = true}}};
  }
};

void expect_within_a_quarter(const SmoothnessFit& fit, double l0, double l1) {
  EXPECT_NEAR(fit.l0, l0, 0.25 * l0);
  EXPECT_NEAR(fit.l1, l1, 0.25 * l1);
}

TEST(UpperEnvelope, IsTheLowestLineAboveAllPairs) {
  Random random(1);
  std::vector<SmoothnessPair> pairs;
  for (int i = 0; i < 500; ++i) {
    const double a = std::exp(6 * random.uniform() - 3);
    pairs.push_back({a, (2 + 3 * a) * (i % 3 == 0 ? 1 : random.uniform())});
  }
  const SmoothnessFit fit = upper_envelope(pairs);
  expect_within_a_quarter(fit, 2, 3);
  for (const auto& pair : pairs) {
    EXPECT_LE(pair.ratio, (1 + 1e-9) * (fit.l0 + fit.l1 * pair.dual_norm));
  }
}

TEST(UpperEnvelope, IsFlatForConstantCurvatureAndForOnePair) {
  const SmoothnessFit flat = upper_envelope(std::vector<SmoothnessPair>{{1, 5}, {100, 5}, {10, 4}});
  EXPECT_NEAR(flat.l0, 5, 1e-9);
  EXPECT_NEAR(flat.l1, 0, 1e-9);
  EXPECT_EQ(upper_envelope(std::vector<SmoothnessPair>{{7, 3}}).l1, 0);
}

TEST(UpperEnvelope, RefusesWhatHasNoLine) {
  normball::testing::expect_invalid([] { upper_envelope({}); }, {"[upper_envelope]"});
  normball::testing::expect_invalid([] { suggest({}); }, {"[suggest]"});
}

TEST(SmoothnessProbe, RecoversTheConstantsFromGradientsAroundPoints) {
  const Exponential f{{1, 0.5, 2, 0.25}};
  SmoothnessProbe probe(f.layers());
  for (double z = 0.01; z < 5; z *= 1.5) {
    std::vector<double> x(4, z);
    const std::vector<MatrixView<double>> views = {{x.data(), 4, 1}};
    probe.explore(views, f.gradient());
  }
  expect_within_a_quarter(probe.fit(), f.k0(), 1);
  // The theorem's condition with the first-order constants of f: γ <= 1/(L0 + ρ L1).
  const auto known = first_order(f.k0(), 1);
  const Suggestion s = suggest(probe.fit());
  EXPECT_LE(s.gamma, 1 / (known.l0 + s.rho * known.l1));
  EXPECT_NEAR(s.rho, known.l0 / known.l1, 0.25 * known.l0 / known.l1);
  EXPECT_NEAR(s.lr, s.gamma * s.rho, 1e-15);
}

TEST(SmoothnessProbe, RecoversTheConstantsAlongATrajectory) {
  const Exponential f{{1, 0.5, 2, 0.25}};
  const auto gradient = f.gradient();
  SmoothnessProbe probe(f.layers());
  std::vector<double> x(4, 5), g(4);
  const std::vector<MatrixView<double>> at = {{x.data(), 4, 1}}, slope = {{g.data(), 4, 1}};
  for (int k = 0; k < 500; ++k) {  // sign descent with steps of 0.01 keeps the entries equal
    gradient(at, slope);
    probe.observe(at, slope);
    for (double& v : x) v -= 0.01;
    if (x[0] < 0.01) break;
  }
  expect_within_a_quarter(probe.fit(), f.k0(), 1);
  const size_t before = probe.pairs().size();
  probe.forget_last();
  probe.observe(at, slope);
  EXPECT_EQ(probe.pairs().size(), before);
}

TEST(SmoothnessProbe, TakesFloatsAndRefusesOtherShapes) {
  const Exponential f{{1, 2}};
  SmoothnessProbe probe(f.layers());
  std::vector<float> x = {1, 1}, g = {1, 2};
  const std::vector<MatrixView<float>> at = {{x.data(), 2, 1}}, slope = {{g.data(), 2, 1}};
  probe.observe(at, slope);
  x = {1.5, 1.25};
  g = {2, 2};
  probe.observe(at, slope);
  ASSERT_EQ(probe.pairs().size(), 2u);
  EXPECT_NEAR(probe.pairs()[0].dual_norm, 4, 1e-6);
  EXPECT_NEAR(probe.pairs()[0].ratio, 2, 1e-6);  // |1| + |0| over max(0.5, 0.25)
  EXPECT_NEAR(probe.pairs()[1].dual_norm, 3, 1e-6);
  const std::vector<MatrixView<float>> small = {{x.data(), 1, 1}};
  normball::testing::expect_invalid([&] { probe.observe(small, small); },
                                    {"layer 'x'", "expected 2"});
  normball::testing::expect_invalid([&] { probe.observe({}, slope); },
                                    {"got 0 layers", "expected 1"});
}

TEST(SmoothnessProbe, RecoversTheLipschitzConstantOfQuadraticsInEveryNorm) {
  for (const auto norm : {"euclidean", "sign", "spectral", "product"}) {
    const Space space = make_space(norm);
    const auto problem = make_problem("quadratic", space);
    SmoothnessProbe probe(space.layers());
    Random random(2);
    for (int k = 0; k < 20; ++k) {
      Point x = problem->random_point(random);
      const auto views = space.views(x);
      probe.explore(views, [&](Views at, Views out) {
        Point y, g(space.size());
        for (const auto& view : at) y.insert(y.end(), view.data, view.data + view.size());
        problem->gradient(y, g);
        size_t from = 0;
        for (const auto& view : out) {
          std::copy_n(g.data() + from, view.size(), view.data);
          from += static_cast<size_t>(view.size());
        }
      });
    }
    const SmoothnessFit fit = probe.fit();
    const double l = *problem->lipschitz();
    EXPECT_LE(fit.l0, l * (1 + 1e-6)) << norm;
    EXPECT_GE(fit.l0, 0.75 * l) << norm;
    EXPECT_LT(fit.l1 * problem->value(problem->start()), 0.25 * l) << norm;
    const Suggestion s = suggest(fit);
    EXPECT_LE(s.gamma, 1 / l) << norm;
  }
}

}  // namespace
}  // namespace normball::lab
