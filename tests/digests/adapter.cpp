// Weights, momenta and reports of short runs of the LibTorch adapter, one file for each: what
// scripts/digests makes its lines of. Every method; every norm and solver; groups with lrs of their
// own, tied and frozen weights; by the core, by tensor operations, and by both at once.
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "normball/method.h"
#include "normball_torch/clipped_scion.h"

namespace {

using normball::optim::NormBall;
using normball::optim::NormBallOptions;
using torch::Tensor;

enum class Way { Core, Aten, Mixed };

const char* to_string(Way way) {
  return way == Way::Core ? "core" : way == Way::Aten ? "aten" : "mixed";
}

// A few numbers that any machine makes alike.
Tensor numbers(torch::IntArrayRef sizes, int seed, torch::ScalarType type) {
  Tensor values = torch::empty(sizes, torch::kFloat64);
  double* const data = values.data_ptr<double>();
  uint64_t state = static_cast<uint64_t>(seed) * 2654435761U + 12345U;
  for (int64_t i = 0; i < values.numel(); ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    data[i] = static_cast<double>(state >> 40U) / static_cast<double>(1U << 24U) - 0.5;
  }
  return values.to(type);
}

std::vector<Tensor> parameters(Way way, torch::ScalarType type) {
  const std::vector<std::vector<int64_t>> shapes = {{6, 2, 3, 3}, {6},     {24, 8}, {8},
                                                    {12, 8},      {9, 20}, {5, 9}};
  std::vector<Tensor> result;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const bool other = way == Way::Mixed && i % 3 == 1;
    Tensor tensor = numbers(shapes[i], static_cast<int>(i), type);
    if (other) tensor = tensor.to(type == torch::kFloat32 ? torch::kFloat64 : torch::kFloat32);
    result.push_back(tensor.mul_(0.1).set_requires_grad(true));
  }
  return result;
}

class Record {
 public:
  Record(const std::filesystem::path& file) : file_(file, std::ios::binary) {}
  void add(const Tensor& tensor) {
    const Tensor plain = tensor.detach().contiguous();
    file_.write(static_cast<const char*>(plain.data_ptr()),
                static_cast<std::streamsize>(plain.nbytes()));
  }
  void add(const normball::StepReport& report) {
    for (const double value :
         {report.pairing, report.eta, report.gamma, report.lr, report.wolfe_gap,
          report.direction_norm, report.clipped ? 1.0 : 0.0, report.stalled ? 1.0 : 0.0}) {
      write(value);
    }
    for (const auto& layer : report.layers) {
      write(layer.pairing);
      write(layer.dual_norm);
    }
  }

 private:
  void write(double value) { file_.write(reinterpret_cast<const char*>(&value), sizeof value); }
  std::ofstream file_;
};

void run(const std::filesystem::path& file, std::string_view method, NormBallOptions options,
         Way way, torch::ScalarType type, bool grouped = false) {
  auto weights = parameters(way, type);
  options.force_aten(way == Way::Aten);
  options.threads(1);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  if (grouped) {
    weights[3].set_requires_grad(false);
    NormBallOptions first, second;
    first.names({"conv", "a.bias", "qkv", "b.bias"});
    second.names({"wte", "body", "lm_head", "again"});
    second.lr(*options.lr() / 4);
    groups.emplace_back(std::vector<Tensor>(weights.begin(), weights.begin() + 4),
                        std::make_unique<NormBallOptions>(first));
    groups.emplace_back(std::vector<Tensor>{weights[4], weights[5], weights[6], weights[4]},
                        std::make_unique<NormBallOptions>(second));
    options.rules(std::vector<normball::RoutingRule>{
        {"qkv", {.split = normball::parse_split("3"), .lr = *options.lr() / 2}}});
    options.radii(normball::RoleRadii{.hidden = 3, .output = 7});
  } else {
    groups.emplace_back(weights);
  }
  NormBall optimizer(groups, method, options);
  optimizer.scale_into_balls();
  Record record(file);
  for (int step = 0; step < 4; ++step) {
    for (size_t i = 0; i < weights.size(); ++i) {
      const bool left_out = step == 2 && i == 5;
      weights[i].mutable_grad() =
          left_out || !weights[i].requires_grad()
              ? Tensor()
              : numbers(weights[i].sizes(), 100 * (step + 1) + static_cast<int>(i),
                        weights[i].scalar_type());
    }
    optimizer.step();
    record.add(optimizer.report());
  }
  for (const auto& weight : weights) record.add(weight);
  std::ostringstream saved;
  for (const auto& weight : weights) {
    for (const auto& [key, state] : optimizer.state()) {
      const auto& own = static_cast<const normball::optim::NormBallParamState&>(*state);
      std::ostringstream address;
      address << weight.unsafeGetTensorImpl();
      std::ostringstream text;
      text << key;
      if (text.str() == address.str() && own.momentum_buffer().defined()) {
        record.add(own.momentum_buffer());
      }
    }
  }
}

NormBallOptions of(std::string_view method) {
  NormBallOptions options(method == "cg" || method == "adaptive_sd" ? 1.0 : 0.05);
  const normball::MethodOptions all{
      .lr = 0.05, .alpha = 0.3, .rho = 2.0, .beta = 1.5, .l0 = 2.0, .l1 = 0.5};
  const auto needs = [&](auto member) {
    normball::MethodOptions others = all;
    (others.*member).reset();
    try {
      normball::make_method(method, others);
      return false;
    } catch (const std::invalid_argument&) {
      return true;
    }
  };
  if (normball::make_method(method, all).alpha == *all.alpha) options.alpha(0.3);
  if (needs(&normball::MethodOptions::rho)) options.rho(all.rho);
  if (needs(&normball::MethodOptions::beta)) options.beta(all.beta);
  if (needs(&normball::MethodOptions::l0)) options.l0(all.l0);
  if (needs(&normball::MethodOptions::l1)) options.l1(all.l1);
  return options;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: adapter_digests DIRECTORY\n";
    return 2;
  }
  const std::filesystem::path directory = arguments[1];
  for (const Way way : {Way::Core, Way::Aten, Way::Mixed}) {
    for (const auto type : {torch::kFloat32, torch::kFloat64}) {
      const std::string end =
          std::string("-") + to_string(way) + (type == torch::kFloat32 ? "-float32" : "-float64");
      for (const auto method : normball::method_names()) {
        const std::string name = "libtorch-" + std::string(method);
        run(directory / (name + end), method, of(method), way, type);
      }
      for (const std::string short_step : {"plain", "norm", "diameter"}) {
        run(directory / ("libtorch-clipped_scion-" + short_step + end), "clipped_scion",
            of("clipped_scion").short_step(short_step), way, type, true);
      }
      for (const std::string method : {"unconstrained_clipped_scion", "sd", "scion"}) {
        run(directory / ("libtorch-groups-" + method + end), method, of(method), way, type, true);
      }
      for (const std::string norm :
           {"euclidean", "rms", "sign", "sign(unit)", "row", "col", "spectral", "spectral(input)",
            "spectral(solver=damped)", "spectral(solver=svd)", "spectral(solver=power)",
            "spectral(solver=muon)", "spectral(solver=you)", "spectral(solver=polar_express)",
            "spectral(solver=cans)", "spectral(solver=cubic)"}) {
        if (way != Way::Core && norm.find("damped") != std::string::npos) continue;
        for (const std::string method : {"unconstrained_clipped_scion", "clipped_scion"}) {
          run(directory / ("libtorch-" + method + "-" + norm + end), method, of(method).norm(norm),
              way, type);
        }
      }
    }
  }
}
