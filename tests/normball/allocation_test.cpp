// A step after the first allocates nothing.
#include <algorithm>

#include "count_allocations.h"
#include "model.h"

namespace normball::testing {
namespace {

TEST(Allocation, IsCounted) {
  const long before = allocations;
  std::vector<double> memory(100);
  EXPECT_EQ(allocations, before + 1);
  // From inside a library as well, or the tests below could not fail.
  Workspace workspace;
  workspace.take<float>(10);
  EXPECT_GT(allocations, before + 1);
}

std::vector<Layer> layers_with(const char* solver) {
  auto layers = every_norm();
  layers.push_back({.name = "wide", .shape = {.rows = 96, .cols = 200}, .norm = Spectral{}});
  layers.push_back({.name = "tall", .shape = {.rows = 200, .cols = 64}, .norm = Spectral{}});
  layers.push_back({.name = "square", .shape = {.rows = 120, .cols = 120}, .norm = Spectral{}});
  layers.push_back({.name = "embedding", .shape = {.rows = 900, .cols = 300}, .norm = Sign{}});
  for (auto& layer : layers) {
    if (auto* spectral = std::get_if<Spectral>(&layer.norm)) {
      spectral->solver = parse_polar_solver(solver);
    }
  }
  return layers;
}

template <class T>
void expect_no_allocation(const Method& method, const char* solver, Execution execution) {
  // Made once: random numbers would take most of the test's time.
  static const Model<T> start = [] {
    Model<T> made(layers_with("exact"));
    Random random(1);
    made.move_into_ball(random);
    return made;
  }();
  Model<T> net = start;
  net.layers = layers_with(solver);
  Optimizer<T> optimizer(method, net.layers, execution);
  const auto parameters = net.parameters();
  optimizer.step(parameters, 1);
  for (int k = 0; k < 3; ++k) {
    for (auto& gradient : net.gradients)
      std::ranges::rotate(gradient.data, gradient.data.begin() + 1);
    const long before = allocations;
    optimizer.step(parameters, 1);
    ASSERT_EQ(allocations - before, 0)
        << method.name << ", " << solver << ", step " << k << ", threads " << execution.threads
        << ", light " << execution.light << ", overwrite " << execution.overwrite_gradients;
  }
}

TEST(Allocation, NoneAfterTheFirstStepForEveryMethodAndSolver) {
  // Not "svd": LAPACK's gesdd reaches OpenBLAS kernels that allocate.
  for (const auto* solver : {"exact", "damped", "clip", "muon", "polar_express(gram)",
                             "muon(rescale_rows)", "power(rank=4)"}) {
    for (const auto name : method_names()) {
      for (const auto form : {ShortStepForm::Plain, ShortStepForm::ByNorm}) {
        const Method method = make_method(
            name,
            {.lr = 0.1, .alpha = 0.5, .rho = 1, .beta = 2, .l0 = 1, .l1 = 1, .short_step = form});
        if (method.constrained && solver == std::string_view("clip")) continue;  // refused
        expect_no_allocation<float>(method, solver, {.threads = 1});
        expect_no_allocation<double>(method, solver, {.threads = 2});
      }
    }
    for (const StepRule& rule :
         {StepRule(AdaGrad{}), StepRule(DistanceAware{.most = 1}), StepRule(Momo{})}) {
      const bool clips = solver == std::string_view("clip");
      const Method method = make_method(clips ? "unconstrained_scion" : "scion",
                                        {.lr = 0.1, .alpha = 0.5, .stepsize = rule});
      expect_no_allocation<float>(method, solver, {.threads = 2});
    }
    const Method method = unconstrained_clipped_scion(0.1, 0.5, 10);
    expect_no_allocation<float>(method, solver, {.threads = 2, .overwrite_gradients = true});
    expect_no_allocation<float>(method, solver, {.threads = 2, .light = true});
    expect_no_allocation<float>(
        method, solver, {.threads = 2, .report_weight_norms = true, .report_polar_errors = true});
  }
}

TEST(Allocation, NoneByANormThatIsGivenInDoubleOnly) {
  class Frobenius final : public NormOracle {
   public:
    using NormOracle::lmo;
    void lmo(ConstMatrixView<double> d, MatrixView<double> out) const override {
      double length = 0;
      for (Index i = 0; i < d.rows; ++i) {
        for (Index j = 0; j < d.cols; ++j) length += d(i, j) * d(i, j);
      }
      length = std::sqrt(length);
      for (Index i = 0; i < d.rows; ++i) {
        for (Index j = 0; j < d.cols; ++j) out(i, j) = length > 0 ? -d(i, j) / length : 0;
      }
    }
  };
  const Norm norm = Custom{std::make_shared<Frobenius>()};
  Model<float> net({{.name = "a", .shape = {.rows = 30, .cols = 20}, .norm = norm},
                    {.name = "b", .shape = {.rows = 7, .cols = 5}, .norm = norm}});
  Optimizer<float> optimizer(unconstrained_clipped_scion(0.1, 0.5, 10), net.layers, {.threads = 1});
  optimizer.step(net.parameters());
  const auto parameters = net.parameters();
  const long before = allocations;
  optimizer.step(parameters);
  EXPECT_EQ(allocations, before);
}

// The paths of the exact solver that Gaussian matrices do not take.
template <class T>
void expect_no_allocation_in_polar(const Matrix<double>& x) {
  Workspace workspace;
  const auto rounded = convert<T>(x);
  Matrix<T> q(x.rows, x.cols);
  const auto run = [&] { polar<T>(ExactPolar{}, rounded.view(), q.view(), workspace, nullptr, 2); };
  run();
  run();  // with all memory in one block
  const long before = allocations;
  run();
  EXPECT_EQ(allocations, before) << x.rows << "x" << x.cols << ", " << sizeof(T);
}

TEST(Allocation, NoneInTheExactSolverForAnySpectrum) {
  Random random(2);
  for (const auto& [rows, cols] : {std::pair<Index, Index>{40, 40}, {200, 90}, {170, 300}}) {
    const Index n = std::min(rows, cols);
    for (const Index rank : {n / 8, n / 2, n}) {
      const auto left = gaussian<double>(rows, rank, random);
      auto right = gaussian<double>(rank, cols, random);
      for (const double decay : {0.0, 2.0, 8.0}) {
        for (Index k = 0; k < rank; ++k) {
          const double share = static_cast<double>(k) / static_cast<double>(rank);
          for (Index j = 0; j < cols; ++j) right(k, j) *= std::pow(10, -decay * share);
        }
        const auto x = multiply(left, right);
        expect_no_allocation_in_polar<float>(x);
        expect_no_allocation_in_polar<double>(x);
      }
    }
  }
}

// Matrices of one shape that send the exact solver on every way it has.
std::vector<Matrix<float>> of_every_kind(Index rows, Index cols) {
  Random random(3);
  const Index n = std::min(rows, cols);
  const auto flat = gaussian<double>(rows, cols, random);
  std::vector<Matrix<float>> all = {convert<float>(flat)};
  for (const Index rank : {Index{1}, n / 8, n / 2, n * 7 / 8, n}) {
    const auto left = gaussian<double>(rows, rank, random);
    for (const double decay : {0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0}) {
      auto right = gaussian<double>(rank, cols, random);
      for (Index k = 0; k < rank; ++k) {
        const double share = static_cast<double>(k) / static_cast<double>(rank);
        for (Index j = 0; j < cols; ++j) right(k, j) *= std::pow(10, -decay * share);
      }
      all.push_back(convert<float>(multiply(left, right)));
      auto noisy = multiply(left, right);
      for (size_t i = 0; i < noisy.data.size(); ++i) noisy.data[i] += 1e-4 * flat.data[i];
      all.push_back(convert<float>(noisy));
    }
  }
  for (const Index step : {2, 8}) {
    for (const bool of_rows : {true, false}) {
      auto with_zeros = flat, repeated = flat;
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < cols; ++j) {
          const bool hit = (of_rows ? i : j) % step == 0;
          if (hit) with_zeros(i, j) = 0;
          if (hit) repeated(i, j) = of_rows ? flat(0, j) : flat(i, 0);
        }
      }
      all.push_back(convert<float>(with_zeros));
      all.push_back(convert<float>(repeated));
    }
  }
  Matrix<double> clusters(rows, cols);  // which only LAPACK tells apart
  for (Index k = 0; k < n; ++k) clusters(k, k) = std::pow(10, -static_cast<double>(4 * k / n));
  all.push_back(convert<float>(clusters));
  all.push_back(
      convert<float>(multiply(reference_polar(gaussian<double>(rows, rows, random)), clusters)));
  return all;
}

TEST(Allocation, TheExactSolverExpectsTheMemoryOfItsHungriestWayAtOnce) {
  for (const auto& [rows, cols] : {std::pair<Index, Index>{5, 9},
                                   {24, 24},
                                   {40, 40},
                                   {130, 130},
                                   {200, 90},
                                   {64, 500},
                                   {170, 300},
                                   {256, 256}}) {
    const auto all = of_every_kind(rows, cols);
    const auto high_water = [](const Matrix<float>& x) {
      Workspace workspace;
      Matrix<float> q(x.rows, x.cols);
      polar<float>(ExactPolar{}, x.view(), q.view(), workspace, nullptr, 2);
      return workspace.high_water();
    };
    const auto expected = high_water(all[0]);
    for (size_t i = 1; i < all.size(); ++i) {
      EXPECT_LE(high_water(all[i]), expected) << rows << "x" << cols << ", matrix " << i;
    }
  }
}

// Matrices with orthonormal rows or columns, but for a few that are much shorter.
template <class T>
std::vector<Matrix<T>> with_few_small(Index rows, Index cols) {
  Random random(4);
  const auto easy = reference_polar(gaussian<double>(rows, cols, random));
  std::vector<Matrix<T>> all = {convert<T>(easy)};
  for (const Index count : {Index{1}, std::min(rows, cols) / 16, std::min(rows, cols) / 8}) {
    for (const double size : {1e-2, 1e-4, 1e-6, 1e-9}) {
      auto x = easy;
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < cols; ++j) {
          if ((rows <= cols ? i : j) < count) x(i, j) *= size;
        }
      }
      all.push_back(convert<T>(x));
    }
  }
  return all;
}

template <class T>
void expect_none_in_later_steps(const Shape& shape, const std::vector<Matrix<T>>& gradients) {
  const std::vector<Layer> layers = {{.name = "one", .shape = shape, .norm = Spectral{}}};
  for (const int threads : {1, 2}) {
    Model<T> net(layers);
    // Without momentum the spectrum is that of the gradient.
    Optimizer<T> optimizer(unconstrained_clipped_scion(0.1, 1, 10), layers, {.threads = threads});
    const auto parameters = net.parameters();
    for (size_t step = 0; step < gradients.size(); ++step) {
      std::ranges::copy(gradients[step].data, net.gradients[0].data.begin());
      const long before = allocations;
      optimizer.step(parameters);
      if (step > 0) {
        EXPECT_EQ(allocations - before, 0)
            << shape.rows << "x" << shape.cols << ", " << 8 * sizeof(T) << " bits, step " << step
            << ", threads " << threads;
      }
    }
  }
}

// The first step sees the easiest of all matrices, one with orthonormal rows or columns, and there
// is no second layer whose memory could do. In double the promise is made for few small directions.
TEST(Allocation, NoneInLaterStepsWhateverTheirSpectrum) {
  for (const Shape& shape : {Shape{.rows = 24, .cols = 24},
                             {.rows = 96, .cols = 200},
                             {.rows = 200, .cols = 64},
                             {.rows = 140, .cols = 140}}) {
    auto all = with_few_small<float>(shape.rows, shape.cols);
    std::ranges::copy(of_every_kind(shape.rows, shape.cols), std::back_inserter(all));
    expect_none_in_later_steps<float>(shape, all);
    expect_none_in_later_steps<double>(shape, with_few_small<double>(shape.rows, shape.cols));
  }
}

// Out of memory at any place of the first step: weights and state are as before, and with memory
// the step is what it would have been.
void expect_failures_to_leave_everything(const Method& method) {
  const Model<float> start = [] {
    Model<float> made(layers_with("exact"));
    Random random(1);
    made.move_into_ball(random);
    return made;
  }();
  const auto bytes = [](Model<float>& net, Optimizer<float>& optimizer) {
    std::vector<std::vector<float>> result;
    for (const auto& weight : net.weights) result.push_back(weight.data);
    for (const auto& [name, view] : optimizer.state()) {
      result.emplace_back(view.data, view.data + view.size());
    }
    return result;
  };
  for (const Execution& execution : {Execution{.threads = 1}, Execution{.threads = 2},
                                     Execution{.threads = 1, .overwrite_gradients = true},
                                     Execution{.threads = 1, .light = true}}) {
    Model<float> peer = start;
    Optimizer<float> whole(method, peer.layers, execution);
    whole.step(peer.parameters());
    int failures = 0;
    for (bool failed = true; failed; ++failures) {
      Model<float> net = start;
      Optimizer<float> optimizer(method, net.layers, execution);
      const auto before = bytes(net, optimizer);
      const auto parameters = net.parameters();
      aligned_until_failure = failures;
      try {
        optimizer.step(parameters);
        failed = false;
      } catch (const std::bad_alloc&) {
      }
      aligned_until_failure = -1;
      if (failed && execution.overwrite_gradients) {
        EXPECT_EQ(net.weights, start.weights);
        continue;
      }
      if (failed) {
        EXPECT_TRUE(bytes(net, optimizer) == before) << "allocation " << failures;
        EXPECT_EQ(net.gradients, start.gradients);
        optimizer.step(parameters);
      }
      EXPECT_TRUE(bytes(net, optimizer) == bytes(peer, whole)) << "allocation " << failures;
    }
    EXPECT_GT(failures, 10);
  }
}

TEST(Allocation, AFailureLeavesEverythingAsItWas) {
  expect_failures_to_leave_everything(clipped_scion(0.1, 0.5, 1));
  expect_failures_to_leave_everything(clipped_scion(0.1, 0.5, 1, ShortStepForm::ByNorm));
}

TEST(Allocation, NoneInTheCInterface) {
  const int64_t dimensions[] = {60, 90};
  const normball_layer layer{"w", dimensions, 2, "spectral", 1};
  normball_options options;
  normball_default_options(&options);
  options.lr = 0.1;
  options.rho = 5;
  normball_optimizer* optimizer = nullptr;
  ASSERT_EQ(normball_create("clipped_scion", NORMBALL_F32, &layer, 1, &options, &optimizer),
            NORMBALL_OK);
  Random random(1);
  Matrix<float> weight(60, 90), gradient = gaussian<float>(60, 90, random);
  void* weights[] = {weight.data.data()};
  void* gradients[] = {gradient.data.data()};
  normball_report report;
  normball_step(optimizer, weights, gradients, &report);
  const long before = allocations;
  ASSERT_EQ(normball_step(optimizer, weights, gradients, &report), NORMBALL_OK);
  EXPECT_EQ(allocations, before);
  normball_destroy(optimizer);
}

}  // namespace
}  // namespace normball::testing
