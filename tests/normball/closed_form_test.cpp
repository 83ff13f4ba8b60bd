// The paper's methods against their formulas written out.
#include "model.h"

namespace normball::testing {
namespace {

using Net = Model<double>;

double nuclear(const Matrix<double>& x) { return sum_of(jacobi_svd(x).sigma); }

double frobenius(const Matrix<double>& x) { return std::sqrt(inner(x, x)); }

double sum_abs(const Matrix<double>& x) {
  double sum = 0;
  for (const double entry : x.data) sum += std::abs(entry);
  return sum;
}

Matrix<double> signs(const Matrix<double>& x) {
  Matrix<double> result = x;
  for (double& entry : result.data) entry = (entry > 0) - (entry < 0);
  return result;
}

// Each formula on both sides of the threshold.
constexpr double thresholds[] = {0.1, 1, 5, 1000};

TEST(ClosedForm, EuclideanGgncIsClippedGd) {
  for (const double rho : thresholds) {
    const double gamma = 0.3;
    Net net(one_layer(6, 5, Euclidean{}));
    const auto before = net.weights[0], g = net.gradients[0];
    Optimizer<double>(ggnc(gamma * rho, rho), net.layers).step(net.parameters());
    const double tau = std::min(1.0, rho / frobenius(g));
    EXPECT_LE(max_difference(net.weights[0], minus(before, gamma * tau, g)), 1e-14);
  }
}

TEST(ClosedForm, SignGgncIsClippedSign) {
  for (const double rho : thresholds) {
    const double gamma = 0.01;
    Net net(one_layer(6, 5, Spectral{}, 3));  // the method replaces norm and radius
    const auto before = net.weights[0], g = net.gradients[0];
    Optimizer<double>(clipped_sign(gamma * rho, rho), net.layers).step(net.parameters());
    const auto expected = minus(before, gamma * std::min(rho, sum_abs(g)), signs(g));
    EXPECT_LE(max_difference(net.weights[0], expected), 1e-14);
  }
}

TEST(ClosedForm, SpectralGgncIsTheSvdFormula) {
  for (const double rho : thresholds) {
    for (const auto& [rows, cols] : {std::pair{6, 9}, {9, 6}, {7, 7}}) {
      const double gamma = 0.01;
      Net net(one_layer(rows, cols, Auto{}));
      const auto before = net.weights[0], g = net.gradients[0];
      Optimizer<double>(clipped_spectral(gamma * rho, rho), net.layers).step(net.parameters());
      const auto expected = minus(before, gamma * std::min(rho, nuclear(g)), reference_polar(g));
      EXPECT_LE(max_difference(net.weights[0], expected), 1e-12);
    }
  }
}

TEST(ClosedForm, ClippedLarsSharesOneThreshold) {
  const double gamma = 0.1, rho = 4;
  Net net({{.name = "a", .shape = {.rows = 3, .cols = 4}}, {.name = "b", .shape = {.rows = 5}}});
  const auto before = net.weights, g = net.gradients;
  Optimizer<double>(clipped_lars(gamma * rho, rho), net.layers).step(net.parameters());
  const double eta = std::min(rho, frobenius(g[0]) + frobenius(g[1]));
  for (size_t l = 0; l < 2; ++l) {
    const auto expected = minus(before[l], gamma * eta / frobenius(g[l]), g[l]);
    EXPECT_LE(max_difference(net.weights[l], expected), 1e-14);
  }
}

TEST(ClosedForm, GdIsTheGradientStepWhateverTheLayers) {
  Net net(every_norm());
  const auto before = net.weights, g = net.gradients;
  Optimizer<double>(gd(0.2), net.layers).step(net.parameters());
  for (size_t l = 0; l < before.size(); ++l) {
    EXPECT_LE(max_difference(net.weights[l], minus(before[l], 0.2, g[l])), 1e-14);
  }
}

TEST(ClosedForm, NormalizedGdStepsByExactlyLr) {
  Net net(every_norm());
  const auto before = net.weights;
  Optimizer<double>(normalized_gd(0.2), net.layers).step(net.parameters());
  double square = 0;
  for (size_t l = 0; l < before.size(); ++l) {
    const auto moved = minus(net.weights[l], 1, before[l]);
    square += inner(moved, moved);
  }
  EXPECT_NEAR(std::sqrt(square), 0.2, 1e-14);
}

TEST(ClosedForm, LmoFormAndSharpFormOfGgncAgree) {
  for (const auto& layer : every_norm()) {
    for (const double rho : thresholds) {
      const double gamma = 0.01;
      Net net({layer});
      net.layers[0].radius = 1;
      const auto before = net.weights[0], g = net.gradients[0];
      Optimizer<double>(ggnc(gamma * rho, rho), net.layers).step(net.parameters());
      Matrix<double> sharp_g(g.rows, g.cols);
      const double dual = sharp(layer.norm, g.view(), sharp_g.view(), &layer.shape);
      const auto expected = minus(before, gamma * std::min(1.0, rho / dual), sharp_g);
      EXPECT_LE(max_difference(net.weights[0], expected), 1e-12) << layer.name;
    }
  }
}

// The paper's identity: S³CG with v = -β lmo(d) is GGNC. Its display loses a β on ρ:
// β min{ρ, ‖d‖*/β} = min{βρ, ‖d‖*}, so GGNC's threshold is βρ (the same for β = 1).
TEST(ClosedForm, ShortStepWithoutTheWeightIsGgnc) {
  for (const double beta : {1.0, 2.5}) {
    for (const double rho : thresholds) {
      const double gamma = 0.01;
      Net a(one_layer(6, 9, Spectral{})), b(one_layer(6, 9, Spectral{}));
      Method short_step = s3cg(gamma * rho, rho, beta, ShortStep::Variant::ByNorm);
      short_step.constrained = false;
      Optimizer<double>(short_step, a.layers).step(a.parameters());
      Optimizer<double>(ggnc(gamma * rho * beta, rho * beta), b.layers).step(b.parameters());
      EXPECT_LE(max_difference(a.weights[0], b.weights[0]), 1e-12);
    }
  }
}

TEST(ClosedForm, FrankWolfeIsScionAndWeightDecay) {
  Random random(3);
  Net fw(every_norm()), decay(every_norm());
  Optimizer<double> scion_optimizer(scion(0.1, 1), fw.layers);
  Optimizer<double> unconstrained(unconstrained_scion(0.1, 1), decay.layers);
  for (int k = 0; k < 5; ++k) {
    fw.new_gradients(random);
    decay.gradients = fw.gradients;
    // x ← (1-γ) x + γ β lmo(d), written out: weight decay by γ, then the unconstrained step.
    for (auto& weight : decay.weights) {
      for (double& entry : weight.data) entry *= 0.9;
    }
    scion_optimizer.step(fw.parameters());
    unconstrained.step(decay.parameters());
    for (size_t l = 0; l < fw.weights.size(); ++l) {
      EXPECT_LE(max_difference(fw.weights[l], decay.weights[l]), 1e-13);
    }
  }
}

TEST(ClosedForm, CgStartsAtAVertexAndFollowsTheOpenLoop) {
  Net net(one_layer(4, 5, Sign{.unit = true}, 2));
  Optimizer<double> optimizer(cg(), net.layers);
  const auto g = net.gradients[0];
  optimizer.step(net.parameters());  // 2/(0+2) = 1: the vertex itself
  EXPECT_LE(max_difference(net.weights[0], minus(Matrix<double>(4, 5), 2, signs(g))), 1e-15);
  EXPECT_NEAR(optimizer.step(net.parameters()).eta, 2.0 / 3, 1e-15);
}

TEST(ClosedForm, ClippedScionShortStepsAsPrinted) {
  for (const auto form : {ShortStepForm::Plain, ShortStepForm::ByNorm, ShortStepForm::ByDiameter}) {
    for (const double rho : {0.01, 0.5, 100.0}) {
      Net net(every_norm());
      Random random(2);
      net.move_into_ball(random);
      auto v = net.weights;
      double s = 0, size = 0;
      for (size_t l = 0; l < v.size(); ++l) {
        const auto& layer = net.layers[l];
        Matrix<double> u(v[l].rows, v[l].cols);
        lmo(layer.norm, net.gradients[l].view(), u.view(), &layer.shape);
        v[l] = minus(v[l], layer.radius, u);
        s += inner(net.gradients[l], v[l]);
        size = std::max(size, norm(layer.norm, v[l].view(), &layer.shape) / layer.radius);
      }
      const double divisor = form == ShortStepForm::Plain    ? 1
                             : form == ShortStepForm::ByNorm ? size * size
                                                             : 4;
      const double eta = std::min(rho, s / divisor), lr = 0.5;
      const auto before = net.weights;
      Optimizer<double> optimizer(clipped_scion(lr, 1, rho, form), net.layers);
      const auto& report = optimizer.step(net.parameters());
      EXPECT_NEAR(report.pairing, s, 1e-11 * s);
      EXPECT_NEAR(report.eta, eta, 1e-11 * eta);
      EXPECT_EQ(report.clipped, eta == rho);
      EXPECT_NEAR(report.wolfe_gap, s, 1e-11 * s);
      for (size_t l = 0; l < v.size(); ++l) {
        EXPECT_LE(max_difference(net.weights[l], minus(before[l], lr / rho * eta, v[l])), 1e-11);
      }
    }
  }
}

TEST(ClosedForm, AdaptiveSteepestDescent) {
  Net net(one_layer(6, 5, Spectral{.scale = SpectralScale::Unit}));
  const auto before = net.weights[0], g = net.gradients[0];
  Optimizer<double>(adaptive_sd(2, 3), net.layers).step(net.parameters());
  const double dual = nuclear(g);
  const auto expected = minus(before, dual / (2 + 3 * dual), reference_polar(g));
  EXPECT_LE(max_difference(net.weights[0], expected), 1e-12);
}

}  // namespace
}  // namespace normball::testing
