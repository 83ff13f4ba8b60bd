// Random misuse of the C++ and the C interface. Whatever comes: no crash, an exception with a text
// that names its function, and weights and state as before it. Meant for the sanitizers.
#include <cstring>
#include <utility>

#include "model.h"

namespace normball::testing {
namespace {

constexpr int rounds = sanitized ? 400 : 2000;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

template <class T>
T any(Random& random, const std::vector<T>& values) {
  return values[random.below(values.size())];
}

bool rarely(Random& random) { return random.below(8) == 0; }

// Mostly good, so that the bad ones get far.
double any_number(Random& random, double good) {
  static const std::vector<double> bad = {0,       -1,     nan,   HUGE_VAL, -HUGE_VAL, 1e300,
                                          -1e-300, 5e-324, 1e-30, 2,        0.999};
  return rarely(random) ? any(random, bad) : good;
}

int any_threads(Random& random) {
  return rarely(random) ? any<int>(random, {-1, 4097, 100000, INT32_MAX, INT32_MIN})
                        : any<int>(random, {0, 1, 2, 3});
}

// Valid ones are small; what is large must be refused before memory is asked for.
Shape any_shape(Random& random) {
  if (rarely(random)) {
    constexpr Index huge = Index{1} << 40;
    return {.rows = any<Index>(random, {-4, 0, 5, huge, INT64_MAX, INT64_MIN}),
            .cols = any<Index>(random, {-1, 0, 7, huge, INT64_MAX, INT64_MIN}),
            .kernel = any<Index>(random, {0, -3, 3, INT64_MIN, INT64_MAX}),
            .rank = any<int>(random, {-1, 0, 2})};
  }
  const auto kernel = any<Index>(random, {1, 1, 1, 2, 9});
  return {.rows = static_cast<Index>(random.below(12)),
          .cols = kernel * static_cast<Index>(random.below(5)),
          .kernel = kernel,
          .rank = static_cast<int>(random.below(5))};
}

std::string any_norm(Random& random) {
  if (rarely(random))
    return any<std::string>(random, {"", "(", "sign(", "nope", "sign(unit)x", "\xff"});
  return any<std::string>(
      random, {"auto", "sign", "row", "col", "rms", "euclidean", "spectral", "sign(unit)", "output",
               "row(transposed)", "spectral(solver=power(rank=2))", "spectral(solver=muon)",
               "spectral(onehot, transposed, solver=svd)", "spectral(solver=damped)"});
}

Method any_method(Random& random) {
  const auto names = method_names();
  Method method = make_method(
      names[random.below(names.size())],
      {.lr = any_number(random, 0.1),
       .alpha = any_number(random, 0.5),
       .rho = any_number(random, 3),
       .beta = any_number(random, 2),
       .l0 = any_number(random, 1),
       .l1 = any_number(random, 1),
       .short_step = any<ShortStepForm>(random, {ShortStepForm::Plain, ShortStepForm::ByNorm})});
  if (rarely(random)) method.combination = Combination::Sum;
  return method;
}

// Runs body; what it throws must be an exception of ours. Returns its text.
template <class Body>
std::optional<std::string> threw(const Body& body) {
  try {
    body();
    return {};
  } catch (const std::bad_alloc&) {
    ADD_FAILURE() << "memory was asked for";
  } catch (const std::exception& error) {
    EXPECT_EQ(error.what()[0], '[') << error.what();
    EXPECT_NE(std::strchr(error.what(), ' '), nullptr) << error.what();
    return error.what();
  }
  return "";
}

// A step that is too long is only known when the averages have taken the gradients in.
bool came_late(const std::string& text) {
  return text.find("gamma eta") != text.npos || text.find("overflow") != text.npos ||
         text.find("because of the pairing") != text.npos || text.find("momentum") != text.npos;
}

template <class T>
struct Misused {
  Random random;
  std::vector<Layer> layers = {};
  std::vector<Matrix<T>> weights = {}, gradients = {}, momenta = {};
  Execution execution = {};

  explicit Misused(std::uint64_t seed) : random(seed) {
    for (size_t l = 0, count = random.below(5); l < count; ++l) {
      Layer layer{.shape = any_shape(random), .radius = any_number(random, 2)};
      if (rarely(random)) layer.name = any<std::string>(random, {"twin", "a.b"});
      threw([&] { layer.norm = parse_norm(any_norm(random)); });
      layers.push_back(layer);
    }
    execution = {.threads = any_threads(random),
                 .overwrite_gradients = random.below(4) == 0,
                 .light = rarely(random),
                 .external_momentum = rarely(random),
                 .nonfinite = any<NonFinite>(random, {NonFinite::Throw, NonFinite::Skip}),
                 .report_weight_norms = rarely(random),
                 .report_polar_errors = rarely(random)};
  }

  void allocate() {
    for (const auto& [name, shape, norm, radius] : layers) {
      const Index padding = random.below(4) == 0 ? 3 : 0;
      weights.push_back(gaussian<T>(shape.rows, shape.cols, random, 0.1, padding));
      gradients.push_back(gaussian<T>(shape.rows, shape.cols, random));
      momenta.emplace_back(shape.rows, shape.cols);
    }
  }

  void spoil(std::vector<Matrix<T>>& matrices) {
    if (matrices.empty()) return;
    auto& data = matrices[random.below(matrices.size())].data;
    if (!data.empty()) {
      data[random.below(data.size())] = static_cast<T>(any_number(random, nan));
    }
  }

  std::vector<Parameter<T>> parameters() {
    std::vector<Parameter<T>> result;
    for (size_t l = 0; l < layers.size(); ++l) {
      result.push_back({.weight = weights[l].view(),
                        .gradient = gradients[l].view(),
                        .has_gradient = !rarely(random),
                        .momentum = momenta[l].view(),
                        .lr_factor = any_number(random, 1)});
    }
    if (!result.empty() && rarely(random)) {
      auto& view = random.below(2) ? result.back().weight : result.back().gradient;
      switch (random.below(5)) {
        case 0:
          view.data = nullptr;
          break;
        case 1:
          view.rows += 1;
          break;
        case 2:
          view.cols = -1;
          break;
        case 3:
          view.stride = view.cols - 1;
          break;
        default:
          result.pop_back();
      }
    }
    return result;
  }

  std::vector<std::vector<T>> snapshot(Optimizer<T>& optimizer) const {
    std::vector<std::vector<T>> result;
    for (const auto& weight : weights) result.push_back(weight.data);
    for (const auto& momentum : momenta) result.push_back(momentum.data);
    for (const auto& [name, view] : optimizer.state()) {
      result.emplace_back(view.data, view.data + view.size());
    }
    return result;
  }
  static bool same(const std::vector<std::vector<T>>& a, const std::vector<std::vector<T>>& b) {
    for (size_t i = 0; i < a.size(); ++i) {  // bytes: NaN is the same as itself
      if (a[i].size() != b[i].size()) return false;
      const size_t bytes = a[i].size() * sizeof(T);
      if (bytes > 0 && std::memcmp(a[i].data(), b[i].data(), bytes) != 0) return false;
    }
    return a.size() == b.size();
  }

  // One call, good or bad.
  void call(Optimizer<T>& optimizer) {
    const auto given = parameters();
    switch (random.below(12)) {
      case 0:
        optimizer.prepare(given);
        break;
      case 1:
        optimizer.apply(any_number(random, 0.1));
        break;
      case 2:
        optimizer.abandon();
        break;
      case 3:
        optimizer.eta(any_number(random, 1));
        break;
      case 4:
        optimizer.set_lr(any_number(random, 0.1));
        break;
      case 5:
        optimizer.set_alpha(any_number(random, 0.5));
        break;
      case 6:
        optimizer.set_rho(any_number(random, 3));
        break;
      case 7:
        optimizer.scale_into_balls(given);
        break;
      case 8: {
        std::vector<NamedBuffer<const T>> buffers;
        for (const auto& [name, view] : optimizer.state()) buffers.push_back({name, view});
        if (!buffers.empty() && rarely(random)) buffers.back().name = "other";
        optimizer.load_state(buffers, static_cast<std::int64_t>(random.below(5)) - 1);
        break;
      }
      default:
        optimizer.step(given);
    }
  }
};

template <class T>
void misuse(std::uint64_t seed) {
  Misused<T> user(seed);
  std::optional<Optimizer<T>> made;
  if (threw([&] { made.emplace(any_method(user.random), user.layers, user.execution); })) return;
  user.allocate();
  Optimizer<T>& optimizer = *made;
  for (int k = 0; k < 12; ++k) {
    if (rarely(user.random)) user.spoil(user.gradients);
    if (rarely(user.random)) user.spoil(user.weights);
    if (rarely(user.random)) {  // a moved-from one may be asked anything, and be given another
      Optimizer<T> other = std::move(optimizer);
      threw([&] { user.call(optimizer); });
      optimizer = std::move(other);
    }
    const auto weights = user.weights;
    const auto before = user.snapshot(optimizer);
    const auto steps = optimizer.steps_taken();
    const auto error = threw([&] { user.call(optimizer); });
    if (!error) continue;
    for (size_t l = 0; l < weights.size(); ++l) {
      EXPECT_TRUE(user.same({user.weights[l].data}, {weights[l].data})) << *error;
    }
    EXPECT_EQ(optimizer.steps_taken(), steps);
    if (!user.execution.overwrite_gradients && !came_late(*error)) {
      EXPECT_TRUE(user.same(user.snapshot(optimizer), before)) << *error << ", seed " << seed;
    }
  }
}

TEST(Misuse, OfTheOptimizer) {
  for (int seed = 0; seed < rounds; ++seed) {
    misuse<float>(static_cast<std::uint64_t>(seed));
    misuse<double>(static_cast<std::uint64_t>(seed));
    if (HasFailure()) break;
  }
}

TEST(Misuse, OfSingleNorms) {
  Random random(1);
  for (int round = 0; round < rounds; ++round) {
    Norm norm = Auto{};
    threw([&] { norm = parse_norm(any_norm(random)); });
    const Shape shape = any_shape(random);
    auto x = gaussian<float>(static_cast<Index>(random.below(12)),
                             static_cast<Index>(random.below(12)), random);
    if (rarely(random) && !x.data.empty()) {
      x.data[random.below(x.data.size())] = static_cast<float>(any_number(random, nan));
    }
    Matrix<float> out(x.rows, x.cols);
    const Shape* given = random.below(2) ? &shape : nullptr;
    threw([&] { normball::norm(norm, x.view(), given); });
    threw([&] { dual_norm(norm, x.view(), given); });
    threw([&] { lmo(norm, x.view(), out.view(), given); });
    threw([&] { sharp(norm, x.view(), out.view(), given); });
    threw([&] { initialize(norm, shape, any_number(random, 1), out.view(), random); });
    threw([&] { sample_sphere(norm, shape, any_number(random, 1), out.view(), random); });
  }
}

// A status that is an error has a text; no error ends the program.
struct Status {
  normball_status last = NORMBALL_OK;
  void operator=(normball_status status) {
    last = status;
    EXPECT_GE(status, NORMBALL_OK);
    EXPECT_LE(status, NORMBALL_ERROR);
    EXPECT_NE(status, NORMBALL_OUT_OF_MEMORY);
    const char* text = normball_last_error();
    EXPECT_TRUE(status == NORMBALL_OK || text[0] == '[') << text;
  }
};

TEST(Misuse, OfTheCInterface) {
  Random random(2);
  Status status;
  for (int round = 0; round < rounds; ++round) {
    const size_t count = random.below(4);
    std::vector<std::vector<std::int64_t>> dimensions(count);
    std::vector<std::string> norms(count);
    std::vector<normball_layer> layers(count);
    std::vector<std::vector<double>> weights(count), gradients(count);
    std::vector<void*> w(count), g(count);
    for (size_t l = 0; l < count; ++l) {
      size_t size = 1;
      for (size_t i = 0, rank = random.below(5); i < rank; ++i) {
        const auto bad = any<std::int64_t>(random, {-1, INT64_MAX, std::int64_t{1} << 62});
        dimensions[l].push_back(rarely(random) ? bad : static_cast<std::int64_t>(random.below(5)));
        size *=
            std::min<size_t>(5, static_cast<size_t>(std::max<std::int64_t>(0, dimensions[l][i])));
      }
      norms[l] = any_norm(random);
      layers[l] = {.name = rarely(random) ? "same" : nullptr,
                   .dimensions = rarely(random) ? nullptr : dimensions[l].data(),
                   .rank = dimensions[l].size(),
                   .norm = rarely(random) ? nullptr : norms[l].c_str(),
                   .radius = any_number(random, 2)};
      weights[l].assign(size + 1, 0.5);
      gradients[l].assign(size + 1, 1.0);
      if (rarely(random)) gradients[l][random.below(size)] = any_number(random, nan);
      if (rarely(random)) weights[l][random.below(size)] = any_number(random, nan);
      w[l] = rarely(random) ? nullptr : weights[l].data();
      g[l] = rarely(random) ? nullptr : gradients[l].data();
    }
    normball_options options;
    normball_default_options(&options);
    const auto names = method_names();
    const std::string method(rarely(random) ? "none" : names[random.below(names.size())]);
    const auto has = [&](const char* part) { return method.find(part) != std::string::npos; };
    const bool clips = has("clipped") || method == "ggnc" || method == "s3cg";
    const bool averages = (clips && method != "clipped_gd") || has("lars") || has("scion");
    // What the method does not use is refused: now and then.
    const auto given = [&](bool used, double usual) {
      return used != rarely(random) ? any_number(random, usual) : 0;
    };
    options.lr = any_number(random, 0.1);
    options.alpha = given(averages, 0.5);
    options.rho = given(clips, 1);
    options.beta = given(method == "s3cg", 1);
    options.l0 = given(method == "adaptive_sd", 1);
    options.l1 = given(method == "adaptive_sd", 1);
    options.threads = any_threads(random);
    options.light = rarely(random);
    options.overwrite_gradients = rarely(random);
    options.skip_nonfinite = rarely(random);
    options.report_weight_norms = rarely(random);
    if (rarely(random))
      options.short_step = any<const char*>(random, {"norm", "diameter", "bad", ""});
    if (rarely(random)) options.struct_size = any<size_t>(random, {0, 8});
    if (rarely(random)) options.layer_size = any<size_t>(random, {0, 8, SIZE_MAX});
    if (rarely(random)) options.report_size = any<size_t>(random, {0, 8, SIZE_MAX});
    normball_optimizer* optimizer = nullptr;
    status = normball_create(rarely(random) ? nullptr : method.c_str(),
                             rarely(random) ? 9 : NORMBALL_F64, layers.data(), count,
                             rarely(random) ? nullptr : &options, &optimizer);
    EXPECT_EQ(optimizer == nullptr, status.last != NORMBALL_OK);
    for (int k = 0; k < 8; ++k) {  // a null optimizer is one of the misuses
      normball_report report;
      normball_layer_report layer;
      const char* name = nullptr;
      void* data = nullptr;
      size_t elements = 0;
      std::int64_t steps = 0;
      status =
          normball_step(optimizer, rarely(random) ? nullptr : w.data(),
                        rarely(random) ? nullptr : g.data(), rarely(random) ? nullptr : &report);
      status =
          normball_get_layer_report(optimizer, random.below(5), rarely(random) ? nullptr : &layer);
      status = normball_state_buffer(optimizer, random.below(5), &name, &data, &elements);
      status = normball_state_count(optimizer, rarely(random) ? nullptr : &elements);
      status = normball_set_lr(optimizer, any_number(random, 0.1));
      status = normball_set_alpha(optimizer, any_number(random, 0.1));
      status = normball_set_rho(optimizer, any_number(random, 0.1));
      status = normball_set_steps(
          optimizer, any<std::int64_t>(random, {-1, 0, 1, 2, INT64_MAX, std::int64_t{1} << 62}));
      status = normball_get_steps(optimizer, rarely(random) ? nullptr : &steps);
      status = normball_scale_into_balls(optimizer, rarely(random) ? nullptr : w.data(), nullptr);
    }
    normball_destroy(optimizer);
  }
}

}  // namespace
}  // namespace normball::testing
