// `name hash` lines of the core: what scripts/digests prints of it. Every norm and solver on
// several shapes and gradients, and short runs of every method in every way to keep its buffers.
#include <array>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "normball/normball.h"

namespace {

using namespace normball;

// FNV-1a, 64 bits.
class Hash {
 public:
  template <class T>
  void add(const T* values, size_t count) {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(values);
    for (size_t i = 0; i < count * sizeof(T); ++i) hash_ = (hash_ ^ bytes[i]) * 1099511628211U;
  }
  template <class T>
  void add(const std::vector<T>& values) {
    add(values.data(), values.size());
  }
  void add(double value) { add(&value, 1); }
  void print(const std::string& name) const {
    std::printf("core-%s %016llx\n", name.c_str(), static_cast<unsigned long long>(hash_));
  }

 private:
  uint64_t hash_ = 14695981039346656037U;
};

// A few numbers that any machine makes alike, from -1/2 to 1/2.
template <class T>
std::vector<T> numbers(Index count, int seed) {
  std::vector<T> values(static_cast<size_t>(count));
  uint64_t state = static_cast<uint64_t>(seed) * 2654435761U + 12345U;
  for (T& value : values) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    value =
        static_cast<T>(static_cast<double>(state >> 40U) / static_cast<double>(1U << 24U) - 0.5);
  }
  return values;
}

const std::vector<Shape> shapes = {{.rows = 1, .cols = 7},
                                   {.rows = 3, .cols = 5},
                                   {.rows = 5, .cols = 3},
                                   {.rows = 64, .cols = 64},
                                   {.rows = 33, .cols = 150},
                                   {.rows = 150, .cols = 33},
                                   {.rows = 16, .cols = 27, .kernel = 9, .rank = 4}};

const std::vector<std::string> norms = {
    "euclidean", "rms", "sign", "sign(unit)", "row", "col", "spectral", "spectral(input)", "auto"};
const std::vector<std::string> solvers = {"damped", "svd",           "power", "muon",
                                          "you",    "polar_express", "cans",  "cubic"};

// Regular, of rank one, and with zeros in every third row.
template <class T>
std::vector<T> gradient(const Shape& shape, int sort, int seed) {
  auto d = numbers<T>(shape.rows * shape.cols, seed);
  for (Index i = 0; i < shape.rows; ++i) {
    for (Index j = 0; j < shape.cols; ++j) {
      T& value = d[static_cast<size_t>(i * shape.cols + j)];
      if (sort == 1) value = static_cast<T>((i + 1) * (j - 2)) / 64;
      if (sort == 2 && i % 3 == 0) value = 0;
    }
  }
  return d;
}

template <class T>
void norm_line(const std::string& text, const std::string& end) {
  Hash hash;
  const Norm norm = parse_norm(text);
  for (const Shape& shape : shapes) {
    for (const int sort : {0, 1, 2}) {
      auto d = gradient<T>(shape, sort, 7);
      std::vector<T> out(d.size());
      const MatrixView<T> in{d.data(), shape.rows, shape.cols},
          x{out.data(), shape.rows, shape.cols};
      hash.add(lmo<T>(norm, in, x, &shape));
      hash.add(out);
      hash.add(sharp<T>(norm, in, x, &shape));
      hash.add(out);
      hash.add(normball::norm(norm, in, &shape));
      hash.add(dual_norm(norm, in, &shape));
    }
  }
  hash.print(text + end);
}

struct Way {
  std::string name;
  Execution execution;
};

template <class T>
void method_line(const Method& method, const std::string& name, const Way& way,
                 const std::vector<std::string>& layer_norms) {
  std::vector<Layer> layers;
  std::vector<std::vector<T>> weights, gradients;
  for (size_t i = 0; i < shapes.size(); ++i) {
    layers.push_back({.name = "l" + std::to_string(i),
                      .shape = shapes[i],
                      .norm = parse_norm(layer_norms[i % layer_norms.size()]),
                      .radius = 1 + 0.5 * static_cast<double>(i)});
    weights.push_back(numbers<T>(shapes[i].rows * shapes[i].cols, static_cast<int>(i)));
    gradients.emplace_back(weights.back().size());
  }
  Hash hash;
  try {
    Optimizer<T> optimizer(method, layers, way.execution);
    std::vector<Parameter<T>> parameters;
    for (size_t i = 0; i < shapes.size(); ++i) {
      parameters.push_back({.weight = {weights[i].data(), shapes[i].rows, shapes[i].cols},
                            .gradient = {gradients[i].data(), shapes[i].rows, shapes[i].cols}});
    }
    optimizer.scale_into_balls(parameters);
    for (int step = 0; step < 4; ++step) {
      for (size_t i = 0; i < shapes.size(); ++i) {
        gradients[i] =
            numbers<T>(shapes[i].rows * shapes[i].cols, 100 * (step + 1) + static_cast<int>(i));
        parameters[i].gradient.data = gradients[i].data();
        parameters[i].has_gradient = step != 2 || i != 5;
      }
      const StepReport& report = optimizer.step(parameters);
      for (const double value :
           {report.pairing, report.eta, report.gamma, report.lr, report.wolfe_gap,
            report.direction_norm, report.clipped ? 1.0 : 0.0}) {
        hash.add(value);
      }
      for (const auto& layer : report.layers) {
        hash.add(layer.pairing);
        hash.add(layer.dual_norm);
      }
    }
    for (const auto& buffer : optimizer.state()) {
      hash.add(buffer.name.data(), buffer.name.size());
      hash.add(buffer.view.data, static_cast<size_t>(buffer.view.rows * buffer.view.cols));
    }
  } catch (const std::invalid_argument&) {
    hash.add(-1);  // a way that this method does not have
  }
  for (const auto& weight : weights) hash.add(weight);
  hash.print(name + "-" + way.name);
}

template <class T>
void all(const std::string& end) {
  for (const auto& norm : norms) norm_line<T>(norm, end);
  for (const auto& solver : solvers) norm_line<T>("spectral(solver=" + solver + ")", end);
  const std::vector<Way> ways = {{"plain" + end, {.threads = 1}},
                                 {"threads" + end, {.threads = 3}},
                                 {"overwrite" + end, {.threads = 1, .overwrite_gradients = true}},
                                 {"light" + end, {.threads = 1, .light = true}}};
  const std::vector<std::string> without = {"sign", "rms", "row", "col", "euclidean"};
  const std::vector<std::string> with = {"spectral", "sign", "spectral(solver=svd)"};
  for (const auto name : method_names()) {
    const MethodOptions options{
        .lr = 0.05, .alpha = 0.3, .rho = 2.0, .beta = 1.5, .l0 = 2.0, .l1 = 0.5};
    for (const Way& way : ways) {
      const Method method = make_method(name, options);
      method_line<T>(method, std::string(name), way, without);
      method_line<T>(method, std::string(name) + "-spectral", way, with);
    }
  }
}

}  // namespace

int main() {
  all<float>("-float32");
  all<double>("-float64");
}
