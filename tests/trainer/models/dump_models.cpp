// Writes weights, a batch, the loss and every gradient of some small models, for
// against_pytorch.py: in DIR, for each case, <case>.json (tensor names, shapes, offsets and the
// configuration) and <case>.bin (the tensors: floating point, or int64), in float32 and once more
// in float64 as <case>_float64.
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "balls.h"
#include "trainer/models/cnn.h"
#include "trainer/models/gpt.h"
#include "trainer/models/initialization.h"
#include "trainer/models/mlp.h"
#include "trainer/models/vit.h"

namespace {

using nlohmann::json;
using namespace normball;
using namespace normball::trainer::models;

class Dump {
 public:
  Dump(std::filesystem::path stem, json config) : stem_(std::move(stem)) {
    json_["config"] = std::move(config);
    data_.exceptions(std::ios::failbit | std::ios::badbit);
    data_.open(stem_.string() + ".bin", std::ios::binary);
  }

  void add(const std::string& name, const torch::Tensor& tensor) {
    const auto dense = tensor.detach().contiguous();
    json_["tensors"][name] = {{"shape", dense.sizes().vec()},
                              {"offset", static_cast<std::int64_t>(data_.tellp())},
                              {"type", type_of(dense)}};
    data_.write(static_cast<const char*>(dense.data_ptr()),
                static_cast<std::streamsize>(dense.nbytes()));
  }

  void finish() {
    data_.close();
    std::ofstream(stem_.string() + ".json") << json_.dump(1) << '\n';
  }

 private:
  static const char* type_of(const torch::Tensor& tensor) {
    if (tensor.scalar_type() == torch::kInt64) return "int64";
    return tensor.scalar_type() == torch::kFloat64 ? "float64" : "float32";
  }

  std::filesystem::path stem_;
  std::ofstream data_;
  json json_;
};

void dump_one(const std::filesystem::path& stem, json config, Model& model, const Batch& batch) {
  Dump out(stem, std::move(config));
  out.add("inputs", batch.inputs);
  out.add("targets", batch.targets);
  for (const auto& parameter : model.parameters()) {
    out.add("weight:" + parameter.name, parameter.tensor);
  }
  for (const auto& buffer : model.buffers()) out.add("buffer:" + buffer.name, buffer.tensor);
  const Outcome outcome = model.forward(batch);
  outcome.loss.backward();
  out.add("loss", outcome.loss);
  for (const auto& parameter : model.parameters()) {
    out.add("gradient:" + parameter.name, parameter.tensor.grad());
  }
  // After the training pass, on the statistics it has left.
  for (const auto& buffer : model.buffers()) out.add("after:" + buffer.name, buffer.tensor);
  out.add("evaluation", model.evaluate(batch).loss);
  out.add("logits", model.predict(batch.inputs));
  out.finish();
}

void dump(const std::filesystem::path& stem, json config, Model& model, const Batch& batch) {
  config["float64"] = false;
  dump_one(stem, config, model, batch);
  for (const auto& parameter : model.parameters()) {
    torch::Tensor(parameter.tensor).mutable_grad() = torch::Tensor();
  }
  model.to(torch::kCPU, torch::kFloat64);
  const bool tokens = batch.inputs.scalar_type() == torch::kInt64;
  config["float64"] = true;
  dump_one(stem.string() + "_float64", config, model,
           {tokens ? batch.inputs : batch.inputs.to(torch::kFloat64), batch.targets});
}

// On spheres so large that no branch is negligible, biases included.
void fill(const Model& model, double hidden, double output, Random& random) {
  const Balls balls = {{Role::Input, {Spectral{.scale = SpectralScale::Input}, hidden}},
                       {Role::Hidden, {Spectral{}, hidden}},
                       {Role::Output, {Sign{}, output}},
                       {Role::Bias, {Rms{}, 1}}};
  initialize_on_spheres(model, layers_of(model, balls), random, /*all=*/true);
  for (const auto& parameter : model.parameters()) {
    if (parameter.kind == Kind::Bias) set_uniform(parameter.tensor, 0.3, random);
  }
}

void dump_gpt(const std::filesystem::path& stem, const GptConfig& config, std::int64_t batch,
              bool customary) {
  Gpt model(config);
  Random random(11);
  customary ? model.initialize(random) : fill(model, 3, 40, random);
  const auto tokens = torch::randint(config.vocabulary, {batch, config.context + 1}, torch::kInt64);
  dump(stem,
       {{"model", "gpt"},
        {"layers", config.layers},
        {"heads", config.heads},
        {"rotary_base", config.rotary_base}},
       model, {tokens.slice(1, 0, config.context), tokens.slice(1, 1)});
}

template <class Config>
Batch images(const Config& config, std::int64_t batch) {
  return {torch::randn({batch, config.channels, config.size, config.size}),
          torch::randint(config.classes, {batch}, torch::kInt64)};
}

void dump_cnn(const std::filesystem::path& stem, const CnnConfig& config, std::int64_t batch) {
  Cnn model(config);
  Random random(12);
  fill(model, 5, 60, random);
  model.prepare(images(config, 50).inputs);
  dump(stem,
       {{"model", "cnn"},
        {"output_scale", config.output_scale},
        {"label_smoothing", config.label_smoothing},
        {"norm_momentum", config.norm_momentum},
        {"norm_epsilon", config.norm_epsilon},
        {"views", config.views}},
       model, images(config, batch));
}

void dump_mlp(const std::filesystem::path& stem, const MlpConfig& config, std::int64_t batch) {
  Mlp model(config);
  Random random(13);
  fill(model, 2, 20, random);
  dump(stem, {{"model", "mlp"}, {"label_smoothing", config.label_smoothing}}, model,
       images(config, batch));
}

void dump_vit(const std::filesystem::path& stem, const VitConfig& config, std::int64_t batch) {
  Vit model(config);
  Random random(14);
  model.initialize(random);
  for (const auto& parameter : model.parameters()) {  // larger, so that no branch is negligible
    const bool one = parameter.kind == Kind::Gain;
    set_uniform(parameter.tensor, parameter.tensor.dim() == 1 ? 0.3 : 0.2, random);
    if (one) parameter.tensor.detach().add_(1);
  }
  dump(stem,
       {{"model", "vit"},
        {"heads", config.heads},
        {"patch", config.patch},
        {"layers", config.layers},
        {"layer_norm", config.layer_norm},
        {"scaled_gelu", config.scaled_gelu},
        {"label_smoothing", config.label_smoothing}},
       model, images(config, batch));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: dump_models DIR\n";
    return 2;
  }
  torch::manual_seed(7);
  const std::filesystem::path folder = arguments[1];
  std::filesystem::create_directories(folder);
  dump_gpt(folder / "gpt", {.vocabulary = 97, .layers = 3, .heads = 2, .width = 48, .context = 40},
           3, false);
  dump_gpt(folder / "gpt_customary",
           {.vocabulary = 256, .layers = 2, .heads = 1, .width = 128, .context = 64}, 2, true);
  dump_cnn(folder / "cnn_cifar", {.width = 0.25}, 16);
  dump_cnn(folder / "cnn_fashion",
           {.channels = 1, .size = 28, .width = 0.125, .label_smoothing = 0, .views = 2}, 12);
  dump_mlp(folder / "mlp", {.hidden = {40, 30}, .label_smoothing = 0.1}, 20);
  dump_vit(folder / "vit",
           {.size = 40,
            .patch = 4,
            .classes = 11,
            .layers = 3,
            .heads = 3,
            .width = 48,
            .drop = 0,
            .label_smoothing = 0.1},
           5);
  dump_vit(folder / "vit_layer_norm",
           {.channels = 1,
            .size = 28,
            .patch = 7,
            .classes = 10,
            .layers = 2,
            .heads = 2,
            .width = 32,
            .drop = 0,
            .layer_norm = true,
            .scaled_gelu = false},
           6);
}
