// The same models as in tests/python/routing_models.py: from LibTorch and from PyTorch explain()
// must give the tables in tests/normball_torch/routing_fixture, to the letter.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "normball_torch/clipped_scion.h"

namespace {

namespace nn = torch::nn;
using normball::RoutingRule;
using torch::Tensor;

using Model = std::shared_ptr<nn::Module>;

// A module with children or parameters in the order given.
struct Net : nn::Module {
  template <class Holder>
  Net& child(const std::string& name, Holder holder) {
    register_module(name, holder);
    return *this;
  }
  Net& own(const std::string& name, std::vector<int64_t> sizes) {
    register_parameter(name, torch::zeros(sizes));
    return *this;
  }
};

std::shared_ptr<Net> net() { return std::make_shared<Net>(); }

// An output layer on the weight of an embedding.
struct TiedLinear : nn::LinearImpl {
  explicit TiedLinear(const Tensor& tied)
      : nn::LinearImpl(nn::LinearOptions(tied.size(1), tied.size(0)).bias(false)) {
    weight = parameters_["weight"] = tied;
  }
};

nn::Linear linear(int64_t in, int64_t out, bool bias = true) {
  return nn::Linear(nn::LinearOptions(in, out).bias(bias));
}

Model mlp() {
  return nn::Sequential(linear(784, 64), nn::ReLU(), linear(64, 64), nn::ReLU(), linear(64, 10))
      .ptr();
}

Model cnn() {
  const auto model = net();
  model->child("rgb", nn::Conv2d(3, 8, 3))
      .child("depth", nn::Conv2d(1, 8, 3))
      .child("norm", nn::BatchNorm2d(16))
      .child("mix", nn::Conv2d(16, 32, 3))
      .child("fc", linear(32, 10));
  return model;
}

Model convolutions() {
  const auto model = net();
  model->child("stem", nn::Conv2d(nn::Conv2dOptions(3, 16, 3).bias(false)))
      .child("dw", nn::Conv2d(nn::Conv2dOptions(16, 16, 3).groups(16)))
      .child("point", nn::Conv2d(nn::Conv2dOptions(16, 32, 1).bias(false)))
      .child("grouped", nn::Conv1d(nn::Conv1dOptions(32, 32, 3).groups(4)))
      .child("up", nn::ConvTranspose2d(nn::ConvTranspose2dOptions(32, 8, 2)))
      .child("up_dw", nn::ConvTranspose2d(nn::ConvTranspose2dOptions(8, 8, 2).groups(8)))
      .child("head", linear(8, 5));
  return model;
}

Model gpt(const std::string& embedding, bool tied, bool head = true) {
  const auto block = [] {
    const auto own = net();
    own->child("ln_1", nn::LayerNorm(nn::LayerNormOptions({16})))
        .child("qkv", linear(16, 48))
        .child("proj", linear(16, 16))
        .child("ln_2", nn::LayerNorm(nn::LayerNormOptions({16})))
        .child("up", linear(16, 64))
        .child("down", linear(64, 16));
    return own;
  };
  nn::Embedding tokens(50, 16);
  const auto model = net();
  model->child(embedding, tokens).child("wpe", nn::Embedding(8, 16));
  nn::ModuleList blocks;
  for (int i = 0; i < 2; ++i) blocks->push_back(block());
  model->child("h", blocks).child("ln_f", nn::LayerNorm(nn::LayerNormOptions({16})));
  if (!head) return model;
  if (tied) {
    model->child("lm_head", std::make_shared<TiedLinear>(tokens->weight));
  } else {
    model->child("lm_head", linear(16, 50, false));
  }
  return model;
}

// The layer before a tied head has a name that heads have, too.
Model tied_after_fc() {
  nn::Embedding tokens(20, 8);
  const auto model = net();
  model->child("wte", tokens)
      .child("fc", linear(8, 8))
      .child("lm_head", std::make_shared<TiedLinear>(tokens->weight));
  return model;
}

Model lstm() {
  const auto model = net();
  model->child("encoder", nn::Embedding(50, 8))
      .child("rnn", nn::LSTM(nn::LSTMOptions(8, 12).num_layers(2)))
      .child("decoder", linear(12, 50));
  return model;
}

Model experts() {
  const auto moe = net();
  moe->own("up", {4, 32, 8}).own("down", {4, 8, 32});
  const auto model = net();
  model->child("gate", linear(8, 4)).child("experts", moe).child("head", linear(8, 3));
  return model;
}

// Weight normalization as it is kept: a gain and a direction.
Model weight_normed() {
  const auto conv = net(), dense = net();
  conv->own("weight_g", {8, 1, 1, 1}).own("weight_v", {8, 3, 3, 3}).own("bias", {8});
  dense->own("weight_g", {16, 1}).own("weight_v", {16, 8});
  const auto model = net();
  model->child("conv", conv).child("dense", dense).child("classifier", linear(16, 4));
  return model;
}

Model two_heads() {
  const auto model = net();
  model->child("body", linear(10, 64))
      .child("more", linear(64, 64))
      .child("policy", linear(64, 4))
      .child("value", linear(64, 1));
  return model;
}

Model head_first() {
  const auto model = net();
  model->child("a", linear(64, 10)).child("b", linear(30, 64)).child("c", linear(64, 64));
  return model;
}

Model attention() {
  return nn::MultiheadAttention(nn::MultiheadAttentionOptions(8, 2).add_bias_kv(true)).ptr();
}

Model encoder() {
  return nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16))
      .ptr();
}

Model bag() {
  const auto model = net();
  model->child("words", nn::EmbeddingBag(50, 8))
      .child("mix", linear(8, 8))
      .child("act", nn::PReLU())
      .child("scores", linear(8, 3));
  return model;
}

Model vgg() {
  const auto model = net();
  model->child("features", nn::Sequential(nn::Conv2d(3, 8, 3), nn::ReLU(), nn::Conv2d(8, 16, 3)))
      .child("classifier", nn::Sequential(linear(16, 32), nn::ReLU(), linear(32, 32), nn::ReLU(),
                                          linear(32, 10)));
  return model;
}

Model vit() {
  const auto patch = net();
  patch->child("proj", nn::Conv2d(nn::Conv2dOptions(3, 16, 4).stride(4)));
  const auto model = net();
  model->own("cls_token", {1, 1, 16})
      .own("pos_embed", {1, 5, 16})
      .child("patch_embed", patch)
      .child("norm", nn::LayerNorm(nn::LayerNormOptions({16})))
      .child("head", linear(16, 10));
  return model;
}

struct Case {
  std::function<Model()> make;
  std::vector<RoutingRule> rules = {};
};

const std::map<std::string, Case>& cases() {
  static const std::vector<RoutingRule> qkv = {
      {"*.qkv.weight", {.split = normball::parse_split("3"), .lr = 0.002}}};
  static const std::map<std::string, Case> all = {
      {"mlp", {mlp}},
      {"cnn", {cnn}},
      {"convolutions", {convolutions}},
      {"gpt_tied", {[] { return gpt("wte", true); }, qkv}},
      {"gpt_untied", {[] { return gpt("tokens", false); }, qkv}},
      {"gpt_without_head", {[] { return gpt("tokens", false, false); }}},
      {"lstm", {lstm}},
      {"experts", {experts}},
      {"weight_normed", {weight_normed}},
      {"two_heads", {two_heads}},
      {"head_first", {head_first}},
      {"attention", {attention}},
      {"encoder", {encoder}},
      {"bag", {bag}},
      {"vgg", {vgg}},
      {"vit", {vit}},
      {"tied_after_fc", {tied_after_fc}}};
  return all;
}

// The trainer's models have no modules; they say of each parameter "name kind sizes", and the role
// where no kind tells it.
struct Listed {
  std::vector<Tensor> tensors = {};
  std::vector<std::string> names = {}, kinds = {};
  std::vector<RoutingRule> rules = {};
};

Listed listed(const std::string& model) {
  std::ifstream file(NORMBALL_ROUTING_FIXTURE "/" + model + ".parameters");
  Listed result;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, kind, sizes, role;
    words >> name >> kind >> sizes >> role;
    std::vector<int64_t> dimensions;
    std::istringstream parts(sizes);
    for (std::string part; std::getline(parts, part, 'x');) dimensions.push_back(std::stoll(part));
    result.tensors.push_back(torch::zeros(dimensions).set_requires_grad(true));
    result.names.push_back(name);
    result.kinds.push_back(kind);
    if (!role.empty()) result.rules.push_back({name, {.role = normball::parse_role(role)}});
  }
  return result;
}

std::string read_table(const std::string& name) {
  std::ifstream file(NORMBALL_ROUTING_FIXTURE "/" + name + ".txt");
  EXPECT_TRUE(file) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

normball::optim::ClippedScionOptions options() {
  return normball::optim::ClippedScionOptions(0.01).alpha(0.1).rho(10).radii(
      normball::RoleRadii{.input = 2, .onehot = 3, .hidden = 50, .output = 3000, .bias = 0.5});
}

std::string explained(const Case& model) {
  const Model made = model.make();
  return normball::optim::ClippedScion(*made, options().rules(model.rules)).explain(*made);
}

class ModuleRouting : public testing::TestWithParam<std::string> {};

TEST_P(ModuleRouting, IsTheTableThatPyTorchHas) {
  EXPECT_EQ(explained(cases().at(GetParam())), read_table(GetParam()));
}

TEST(TrainerRouting, IsTheTableThatTheTrainerHas) {
  for (const std::string model : {"trainer_gpt", "trainer_cnn", "trainer_mlp"}) {
    Listed own = listed(model);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(own.tensors,
                        std::make_unique<normball::optim::NormBallOptions>(
                            normball::optim::NormBallOptions().names(own.names).kinds(own.kinds)));
    normball::optim::ClippedScion optimizer(groups, options().rules(own.rules));
    EXPECT_EQ(optimizer.explain(), read_table(model));
    auto automatic = options().rules(own.rules).auto_radii(true);
    automatic.radii() = std::nullopt;
    normball::optim::ClippedScion by_shape(groups, automatic);
    EXPECT_EQ(by_shape.explain(), read_table(model + "_auto"));
  }
}

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const auto& [name, model] : cases()) result.push_back(name);
  return result;
}

INSTANTIATE_TEST_SUITE_P(Models, ModuleRouting, testing::ValuesIn(names()),
                         [](const auto& model) { return model.param; });

}  // namespace
