#include "normball/routing.h"

#include <map>
#include <numeric>
#include <string_view>

#include "testing.h"

namespace normball::testing {
namespace {

using Infos = std::vector<ParameterInfo>;

ParameterInfo info(std::string name, std::vector<Index> dimensions, Kind kind = Kind::Unknown) {
  return {.name = std::move(name), .dimensions = std::move(dimensions), .kind = kind};
}

const Route& find(const Routing& routing, std::string_view name) {
  const auto found = std::ranges::find(routing.routes, name, &Route::name);
  EXPECT_NE(found, routing.routes.end()) << name;
  return *found;
}

bool warns(const Routing& routing, const std::vector<std::string>& parts) {
  return std::ranges::any_of(routing.warnings, [&](const std::string& warning) {
    return std::ranges::all_of(
        parts, [&](const auto& part) { return warning.find(part) != std::string::npos; });
  });
}

// parameter -> norm
using Table = std::map<std::string, std::string>;

void expect_norms(const Routing& routing, const Table& expected) {
  Table got;
  for (const auto& route : routing.routes) got[route.name] = to_string(route.norm);
  EXPECT_EQ(got, expected) << routing.explain();
}

constexpr RoleRadii radii{.input = 2, .onehot = 3, .hidden = 5, .output = 7, .bias = 11};

// The CIFAR-10 CNN of airbench, as its modules name the parameters.
Infos airbench() {
  Infos model = {info("whiten.weight", {24, 3, 2, 2}), info("whiten.bias", {24})};
  Index channels = 24;
  for (int block = 0; block < 3; ++block) {
    const Index width = block == 0 ? 64 : 256;
    const std::string prefix = "layers." + std::to_string(block) + ".";
    model.push_back(info(prefix + "conv1.weight", {width, channels, 3, 3}));
    model.push_back(info(prefix + "norm1.weight", {width}));
    model.push_back(info(prefix + "norm1.bias", {width}));
    model.push_back(info(prefix + "conv2.weight", {width, width, 3, 3}));
    model.push_back(info(prefix + "norm2.weight", {width}));
    model.push_back(info(prefix + "norm2.bias", {width}));
    channels = width;
  }
  model.push_back(info("head.weight", {10, 256}));
  return model;
}

TEST(Routing, AirbenchCnn) {
  const Routing routing = route(airbench(), {.radii = radii});
  Table expected = {
      {"whiten.weight", "spectral(input)"}, {"whiten.bias", "rms"}, {"head.weight", "sign"}};
  for (int block = 0; block < 3; ++block) {
    const std::string prefix = "layers." + std::to_string(block) + ".";
    for (const auto* conv : {"conv1.weight", "conv2.weight"}) expected[prefix + conv] = "spectral";
    for (const auto* norm : {"norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"}) {
      expected[prefix + norm] = "rms";
    }
  }
  expect_norms(routing, expected);
  EXPECT_TRUE(routing.warnings.empty()) << routing.explain();
  EXPECT_EQ(find(routing, "whiten.weight").radius, radii.input);
  EXPECT_EQ(find(routing, "layers.1.conv2.weight").radius, radii.hidden);
  EXPECT_EQ(find(routing, "head.weight").radius, radii.output);
  EXPECT_EQ(find(routing, "layers.1.norm2.weight").radius, radii.bias);
  const Shape& conv = find(routing, "layers.1.conv2.weight").blocks.at(0).shape;
  EXPECT_EQ(conv, (Shape{.rows = 256, .cols = 2304, .kernel = 9, .rank = 4}));
}

Infos gpt(bool list_head, bool tie) {
  static const int embedding = 0, head = 0;
  Infos model = {info("transformer.wte.weight", {50304, 768}),
                 info("transformer.wpe.weight", {1024, 768})};
  model[0].identity = &embedding;
  for (int block = 0; block < 2; ++block) {
    const std::string prefix = "transformer.h." + std::to_string(block) + ".";
    model.push_back(info(prefix + "ln_1.weight", {768}));
    model.push_back(info(prefix + "attn.c_attn.weight", {2304, 768}));
    model.push_back(info(prefix + "attn.c_attn.bias", {2304}));
    model.push_back(info(prefix + "attn.c_proj.weight", {768, 768}));
    model.push_back(info(prefix + "mlp.c_fc.weight", {3072, 768}));
    model.push_back(info(prefix + "mlp.fc_out.weight", {768, 3072}));
  }
  if (list_head) {
    model.push_back(info("lm_head.weight", {50304, 768}));
    model.back().identity = tie ? &embedding : &head;
  }
  return model;
}

Table gpt_norms(const std::string& embedding) {
  Table expected = {{"transformer.wte.weight", embedding}, {"transformer.wpe.weight", "rms"}};
  for (int block = 0; block < 2; ++block) {
    const std::string prefix = "transformer.h." + std::to_string(block) + ".";
    expected[prefix + "ln_1.weight"] = expected[prefix + "attn.c_attn.bias"] = "rms";
    for (const auto* name :
         {"attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.fc_out.weight"}) {
      expected[prefix + name] = "spectral";
    }
  }
  return expected;
}

// A tied weight is one parameter, whether the caller lists it once or twice.
TEST(Routing, GptWithTiedEmbedding) {
  const Routing once = route(gpt(false, true), {.radii = radii});
  expect_norms(once, gpt_norms("sign"));
  EXPECT_TRUE(once.warnings.empty()) << once.explain();
  EXPECT_EQ(find(once, "transformer.wte.weight").radius, radii.output);

  const Routing twice = route(gpt(true, true), {.radii = radii});
  auto expected = gpt_norms("sign");
  expected["lm_head.weight"] = "auto";
  expect_norms(twice, expected);
  const Route& head = find(twice, "lm_head.weight");
  EXPECT_TRUE(head.blocks.empty());
  EXPECT_EQ(head.tied_to, 0U);
  EXPECT_TRUE(warns(twice, {"'lm_head.weight'", "'transformer.wte.weight'", "tied", "twice"}));
  EXPECT_EQ(twice.layers().size(), once.layers().size());
}

TEST(Routing, GptWithAHeadOfItsOwn) {
  const Routing routing = route(gpt(true, false), {.radii = radii});
  auto expected = gpt_norms("col(transposed)");
  expected["lm_head.weight"] = "sign";
  expect_norms(routing, expected);
  EXPECT_TRUE(routing.warnings.empty()) << routing.explain();
  EXPECT_EQ(find(routing, "transformer.wte.weight").radius, radii.onehot);
}

Infos vit() {
  Infos model = {info("cls_token", {1, 1, 768}), info("pos_embed", {1, 197, 768}),
                 info("patch_embed.proj.weight", {768, 3, 16, 16}),
                 info("patch_embed.proj.bias", {768})};
  for (const auto& [name, dimensions] :
       std::vector<std::pair<std::string, std::vector<Index>>>{{"norm1.weight", {768}},
                                                               {"attn.qkv.weight", {2304, 768}},
                                                               {"attn.qkv.bias", {2304}},
                                                               {"attn.proj.weight", {768, 768}},
                                                               {"mlp.fc1.weight", {3072, 768}},
                                                               {"mlp.fc2.weight", {768, 3072}}}) {
    model.push_back(info("blocks.0." + name, dimensions));
  }
  model.push_back(info("norm.weight", {768}));
  model.push_back(info("head.weight", {1000, 768}));
  model.push_back(info("head.bias", {1000}));
  return model;
}

TEST(Routing, Vit) {
  const Routing routing = route(vit(), {.radii = radii});
  expect_norms(routing, {{"cls_token", "rms"},
                         {"pos_embed", "rms"},
                         {"patch_embed.proj.weight", "spectral(input)"},
                         {"patch_embed.proj.bias", "rms"},
                         {"blocks.0.norm1.weight", "rms"},
                         {"blocks.0.attn.qkv.weight", "spectral"},
                         {"blocks.0.attn.qkv.bias", "rms"},
                         {"blocks.0.attn.proj.weight", "spectral"},
                         {"blocks.0.mlp.fc1.weight", "spectral"},
                         {"blocks.0.mlp.fc2.weight", "spectral"},
                         {"norm.weight", "rms"},
                         {"head.weight", "sign"},
                         {"head.bias", "rms"}});
  EXPECT_TRUE(routing.warnings.empty()) << routing.explain();
  EXPECT_EQ(find(routing, "patch_embed.proj.weight").radius, radii.input);
  EXPECT_EQ(find(routing, "pos_embed").blocks.at(0).shape, (Shape{.rows = 197, .cols = 768}));
}

// Every element of a contiguous parameter belongs to exactly one block.
void expect_partition(const Route& route) {
  const Index size = std::accumulate(route.dimensions.begin(), route.dimensions.end(), Index{1},
                                     std::multiplies<>());
  std::vector<int> seen(static_cast<size_t>(size));
  for (const auto& block : route.blocks) {
    for (Index i = 0; i < block.shape.rows; ++i) {
      for (Index j = 0; j < block.shape.cols; ++j) {
        ++seen.at(static_cast<size_t>(block.offset + i * block.stride + j));
      }
    }
  }
  EXPECT_TRUE(std::ranges::all_of(seen, [](int n) { return n == 1; })) << route.name;
}

TEST(Routing, FusedAndStackedMatricesAreLayersOfTheirOwn) {
  const Infos model = {info("qkv.weight", {12, 4}),       info("grouped.weight", {10, 4}),
                       info("out.weight", {5, 6}),        info("experts.up", {3, 8, 4}),
                       info("experts.gated", {2, 8, 20}), info("qkv.bias", {12}),
                       info("two", {2, 3, 4, 5}),         info("head.weight", {7, 4})};
  const auto split = [](std::string text) { return Assignment{.split = parse_split(text)}; };
  const Routing routing = route(model, {.rules = {{"qkv.*", split("3")},
                                                  {"grouped.weight", split("rows(6, 2, 2)")},
                                                  {"out.weight", split("columns(3)")},
                                                  {"*.gated", split("rows(2)")},
                                                  {"two", {.batch = 2}}}});
  for (const auto& route : routing.routes) expect_partition(route);
  const auto blocks = [&](const std::string& name) { return find(routing, name).blocks; };
  ASSERT_EQ(blocks("qkv.weight").size(), 3U);
  EXPECT_EQ(blocks("qkv.weight")[1].name, "qkv.weight[1]");
  EXPECT_EQ(blocks("qkv.weight")[1].offset, 16);
  EXPECT_EQ(blocks("qkv.weight")[1].shape, (Shape{.rows = 4, .cols = 4}));
  EXPECT_EQ(blocks("qkv.bias").size(), 3U);
  EXPECT_EQ(blocks("grouped.weight")[2].shape.rows, 2);
  EXPECT_EQ(blocks("out.weight")[1].offset, 2);
  EXPECT_EQ(blocks("out.weight")[1].stride, 6);
  EXPECT_EQ(blocks("out.weight")[1].shape, (Shape{.rows = 5, .cols = 2}));
  ASSERT_EQ(blocks("experts.up").size(), 3U);  // by the word "experts"
  EXPECT_EQ(blocks("experts.up")[2].offset, 64);
  EXPECT_EQ(blocks("experts.up")[2].shape, (Shape{.rows = 8, .cols = 4}));
  EXPECT_EQ(blocks("experts.gated").size(), 4U);
  EXPECT_EQ(blocks("two").size(), 6U);
  EXPECT_EQ(routing.layers().size(), 3U + 3 + 3 + 3 + 4 + 3 + 6 + 1);
  EXPECT_NE(routing.explain().find("12x4 = 3 of 4x4"), std::string::npos) << routing.explain();
  EXPECT_EQ(find(routing, "qkv.weight").why, "matrix; split rows(3) by rule 'qkv.*'");
  EXPECT_EQ(find(routing, "out.weight").why,
            "output head (named 'out'); split columns(3) by rule 'out.weight'");
  EXPECT_NE(find(routing, "two").why.find("; batch 2 by rule 'two'"), std::string::npos);
  EXPECT_EQ(find(routing, "experts.up").why.find("batch"), std::string::npos);
}

TEST(Routing, RulesOverrideGroupsAndTheLastWins) {
  Infos model = {info("a.weight", {4, 3}), info("b.weight", {4, 3}), info("head.weight", {2, 4})};
  for (auto& parameter : model) parameter.given = {.norm = RowNorm{}, .radius = 4};
  const Routing routing =
      route(model, {.rules = {{"*.weight", {.radius = 9}},
                              {"b.*", {.norm = Spectral{.scale = SpectralScale::Unit}}},
                              {"[h]ead.weight", {.norm = Auto{}, .radius = 6}}}});
  expect_norms(routing,
               {{"a.weight", "row"}, {"b.weight", "spectral(unit)"}, {"head.weight", "sign"}});
  EXPECT_EQ(find(routing, "a.weight").radius, 9);
  EXPECT_EQ(find(routing, "head.weight").radius, 6);
  EXPECT_NE(find(routing, "a.weight").why.find("its group"), std::string::npos);
  EXPECT_NE(find(routing, "a.weight").why.find("radius by rule '*.weight'"), std::string::npos);
  EXPECT_NE(find(routing, "b.weight").why.find("rule 'b.*'"), std::string::npos);
}

TEST(Routing, RolesGiveTheNormAndTheRadius) {
  Infos model = {info("0.weight", {8, 30}), info("2.weight", {4, 8}), info("tokens", {30, 8})};
  model[1].given.role = Role::Output;
  const Routing routing =
      route(model, {.rules = {{"tokens", {.role = Role::OneHot}}}, .radii = radii});
  expect_norms(routing,
               {{"0.weight", "spectral"}, {"2.weight", "sign"}, {"tokens", "col(transposed)"}});
  EXPECT_EQ(find(routing, "2.weight").radius, radii.output);
  EXPECT_EQ(find(routing, "tokens").radius, radii.onehot);
}

TEST(Routing, NormsByRoleYieldToGroupsAndRules) {
  Infos model = {info("0.weight", {8, 30}), info("0.bias", {8}), info("1.weight", {8, 8}),
                 info("2.weight", {8, 8}), info("head.weight", {4, 8})};
  model[2].given.norm = ColNorm{};
  const RoleNorms norms{.hidden = RowNorm{}, .output = Auto{}, .bias = Euclidean{}};
  const Routing routing =
      route(model, {.rules = {{"2.*", {.norm = Sign{}}}}, .norms = norms, .radii = radii});
  expect_norms(routing, {{"0.weight", "row"},
                         {"0.bias", "euclidean"},
                         {"1.weight", "col"},
                         {"2.weight", "sign"},
                         {"head.weight", "sign"}});
  EXPECT_EQ(find(routing, "0.weight").why, "matrix; the norm of role hidden");
  EXPECT_EQ(find(routing, "0.weight").radius, radii.hidden);
  EXPECT_EQ(find(routing, "2.weight").why, "rule '2.*'");
  expect_invalid([&] { route(model, {.norms = norms, .method = "gd", .method_norm = Rms{}}); },
                 {"[route]", "'gd'", "norms by role"});
}

TEST(Routing, ASpectralNormThatNamesNoSolverGetsTheGivenOne) {
  const PolarSolver muon = parse_polar_solver("muon");
  EXPECT_EQ(parse_norm("spectral(input)", muon), parse_norm("spectral(input, solver=muon)"));
  EXPECT_EQ(parse_norm("spectral(solver=svd)", muon), parse_norm("spectral(solver=svd)"));
  EXPECT_EQ(parse_norm("sign", muon), parse_norm("sign"));
}

// A rule on either name of a tied weight reaches it.
TEST(Routing, TiedWeightListensToBothNames) {
  const Routing routing = route(gpt(true, true), {.rules = {{"lm_head.*", {.radius = 3000}}}});
  EXPECT_EQ(find(routing, "transformer.wte.weight").radius, 3000);
}

TEST(Routing, KindsGivenByTheCallerWinOverNames) {
  const Infos model = {
      info("embed", {64, 16}, Kind::Linear), info("a", {64, 16}, Kind::Embedding),
      info("b", {10, 16}, Kind::Output),     info("up", {8, 4, 3, 3}, Kind::ConvTranspose),
      info("c", {8, 4, 3}, Kind::Conv),      info("d", {4, 4, 3}, Kind::Linear)};
  const Routing routing = route(model);
  expect_norms(routing, {{"embed", "spectral"},
                         {"a", "col(transposed)"},
                         {"b", "sign"},
                         {"up", "spectral(transposed)"},
                         {"c", "spectral"},
                         {"d", "spectral"}});
  EXPECT_EQ(find(routing, "c").blocks.size(), 1U);
  EXPECT_EQ(find(routing, "d").blocks.size(), 4U);
  EXPECT_TRUE(routing.warnings.empty()) << routing.explain();
}

TEST(Routing, TheSolverIsThatOfTheSpectralNormsItChooses) {
  const Infos model = {info("a.weight", {4, 3}), info("b.weight", {4, 3}),
                       info("head.weight", {2, 4})};
  const Routing routing = route(
      model, {.rules = {{"b.weight", {.norm = Spectral{}}}}, .solver = newton_schulz("muon")});
  EXPECT_EQ(to_string(find(routing, "a.weight").norm), "spectral(solver=muon)");
  EXPECT_EQ(to_string(find(routing, "b.weight").norm), "spectral");
}

TEST(RoutingWarning, DepthwiseConvolutions) {
  const Infos model = {info("stem.weight", {32, 3, 3, 3}), info("depth.weight", {32, 1, 3, 3}),
                       info("point.weight", {64, 32, 1, 1}), info("fc.weight", {10, 64})};
  const Routing routing = route(model);
  EXPECT_EQ(to_string(find(routing, "depth.weight").norm), "row");
  EXPECT_EQ(routing.warnings.size(), 1U);
  EXPECT_TRUE(warns(routing, {"'depth.weight'", "depthwise"})) << routing.explain();
  const Infos gray = {info("conv1.weight", {32, 1, 3, 3}), info("conv2.weight", {64, 32, 3, 3}),
                      info("fc.weight", {10, 64})};
  EXPECT_EQ(to_string(find(route(gray), "conv1.weight").norm), "spectral(input)");
  EXPECT_TRUE(route(gray).warnings.empty());
}

TEST(RoutingWarning, EmbeddingsRoutedToSpectral) {
  const Infos model = {info("wte.weight", {500, 16}), info("lm_head.weight", {500, 16})};
  const Routing forced = route(model, {.rules = {{"wte.*", {.norm = Spectral{}}}}});
  EXPECT_TRUE(warns(forced, {"embedding 'wte.weight'", "spectral"})) << forced.explain();
  const Infos unnamed = {info("table", {50304, 768}), info("head.weight", {10, 16})};
  EXPECT_TRUE(warns(route(unnamed), {"'table'", "looks like an embedding"}));
}

TEST(RoutingWarning, ThreeDimensionsThatCouldBeEither) {
  const Infos model = {info("w", {64, 32, 3}), info("v", {8, 64, 32}),
                       info("head.weight", {10, 16})};
  const Routing routing = route(model);
  EXPECT_TRUE(warns(routing, {"'w'", "taken as a convolution"})) << routing.explain();
  EXPECT_TRUE(warns(routing, {"'v'", "taken as stacked matrices"})) << routing.explain();
  EXPECT_EQ(find(routing, "v").blocks.size(), 8U);
  const Routing told = route(model, {.rules = {{"?", {.batch = 1}}}});
  EXPECT_TRUE(told.warnings.empty()) << told.explain();
  EXPECT_EQ(find(told, "w").blocks.size(), 64U);
}

TEST(RoutingWarning, ClippingTwice) {
  const Routing routing = route(airbench(), {.grad_clip = 1});
  EXPECT_TRUE(warns(routing, {"clip_grad_norm", "rho"})) << routing.explain();
}

// What a model adds to the table changes no route.
TEST(RoutingWarning, ParametersThatNoGroupHas) {
  Infos model = {info("param0", {16, 8, 3}), info("param1", {4, 16})};
  Routing routing = route(model);
  const auto layers = routing.layers();
  routing.rename(0, "conv.weight");
  routing.rename(1, "fc.weight");
  routing.add_ungrouped("whiten.weight", {24, 3, 2, 2});
  EXPECT_TRUE(warns(routing, {"'whiten.weight'", "no parameter group"})) << routing.explain();
  EXPECT_TRUE(warns(routing, {"'conv.weight'", "1-d convolution"})) << routing.explain();
  EXPECT_TRUE(warns(routing, {"no output head", "'fc.weight'"})) << routing.explain();
  EXPECT_TRUE(routing.routes[2].blocks.empty());
  for (const auto* old : {"param0", "param1"}) {
    EXPECT_EQ(routing.explain().find(old), std::string::npos) << routing.explain();
  }
  ASSERT_EQ(routing.layers().size(), layers.size());
  for (size_t l = 0; l < layers.size(); ++l) {
    EXPECT_EQ(routing.layers()[l].norm, layers[l].norm);
    EXPECT_EQ(routing.layers()[l].radius, layers[l].radius);
  }
}

TEST(RoutingWarning, NoOutputHead) {
  const Infos model = {info("0.weight", {8, 30}), info("2.weight", {4, 8})};
  EXPECT_TRUE(warns(route(model), {"no output head", "'2.weight'"}));
}

TEST(Routing, RulesGiveLrs) {
  const Infos model = {info("a.weight", {4, 3}), info("head.weight", {2, 4})};
  const Routing routing = route(model, {.rules = {{"*", {.lr = 0.5}}, {"a.*", {.lr = 0.125}}}});
  EXPECT_EQ(routing.routes[0].lr, 0.125);
  EXPECT_EQ(routing.routes[1].lr, 0.5);
  EXPECT_EQ(find(routing, "a.weight").why, "matrix; lr 0.125 by rule 'a.*'");
  EXPECT_EQ(route(model).routes[0].lr, std::nullopt);
}

// A method that is a choice of norm shows its norm, and refuses others.
TEST(Routing, TheMethodsNormAndRadius) {
  const auto options = [](std::vector<RoutingRule> rules) {
    return RoutingOptions{.rules = rules,
                          .method = "clipped_sign",
                          .method_norm = Sign{.unit = true},
                          .method_radius = 1,
                          .method_sees_matrices = false};
  };
  const Routing routing = route(airbench(), options({}));
  for (const auto& route : routing.routes) EXPECT_EQ(to_string(route.norm), "sign(unit)");
  EXPECT_TRUE(routing.warnings.empty()) << routing.explain();
  EXPECT_EQ(routing.routes[0].why, "the method 'clipped_sign'");
  const auto refused = [&](const Assignment& then, const std::string& what) {
    expect_invalid(
        [&] {
          route(airbench(), options({{"head.*", then}}));
        },
        {"[route]", "'clipped_sign'", what, "rule 'head.*'", "no effect"});
  };
  refused({.norm = RowNorm{}}, "norm");
  refused({.role = Role::Hidden}, "norm");
  refused({.radius = 2}, "radius");
  refused({.split = parse_split("2")}, "split");
  refused({.batch = 0}, "batch");
  auto radii_too = options({});
  radii_too.radii = radii;
  expect_invalid([&] { route(airbench(), radii_too); }, {"[route]", "radii"});
}

// name -> norm of a model of Linears (or other kinds) given as name, dimensions.
Table norms_of(const Infos& model) {
  Table got;
  for (const auto& route : route(model).routes) got[route.name] = to_string(route.norm);
  return got;
}

TEST(RoutingHeads, AreFoundByNameOrderAndWidth) {
  const auto linear = [](std::string name, Index out, Index in) {
    return info(std::move(name), {out, in}, Kind::Linear);
  };
  // The last, with a warning that says it is a guess.
  const Infos mlp = {linear("0.weight", 64, 784), linear("2.weight", 64, 64),
                     linear("4.weight", 10, 64)};
  EXPECT_EQ(norms_of(mlp),
            (Table{{"0.weight", "spectral"}, {"2.weight", "spectral"}, {"4.weight", "sign"}}));
  EXPECT_TRUE(warns(route(mlp), {"'4.weight'", "output head", "'hidden'"}));
  // Registered before the body, with and without a name.
  for (const std::string name : {"head.weight", "a.weight"}) {
    const Infos first = {linear(name, 10, 64), linear("b.weight", 64, 30),
                         linear("c.weight", 64, 64)};
    EXPECT_EQ(norms_of(first),
              (Table{{name, "sign"}, {"b.weight", "spectral"}, {"c.weight", "spectral"}}));
    EXPECT_EQ(route(first).warnings.empty(), name == "head.weight");
  }
  // Two heads.
  for (const auto& [a, b] :
       {std::pair("policy.weight", "value.weight"), std::pair("p.weight", "v.weight"),
        std::pair("heads.0.weight", "heads.1.weight"),
        std::pair("value_head.weight", "policy_head.weight")}) {
    const Infos two = {info("conv.weight", {8, 1, 3, 3}, Kind::Conv), linear("body.weight", 64, 30),
                       linear(a, 4, 64), linear(b, 1, 64)};
    EXPECT_EQ(norms_of(two), (Table{{"conv.weight", "spectral(input)"},
                                    {"body.weight", "spectral"},
                                    {a, "sign"},
                                    {b, "sign"}}));
  }
  // The value of attention is none, and neither is a layer called fc whose output is used.
  const Infos attention = {
      linear("query.weight", 8, 64),         linear("key.weight", 8, 64),
      linear("value.weight", 12, 64),        linear("fc.weight", 64, 12),
      linear("classifier.0.weight", 64, 64), linear("classifier.2.weight", 5, 64)};
  auto expected = norms_of(attention);
  for (auto& [name, norm] : expected) norm = name == "classifier.2.weight" ? "sign" : "spectral";
  EXPECT_EQ(norms_of(attention), expected);
  // A residual stream without a head: the embedding is taken as tied.
  const Infos stream = {info("wte.weight", {500, 16}, Kind::Embedding),
                        linear("h.0.qkv.weight", 48, 16), linear("h.0.proj.weight", 16, 16),
                        linear("h.0.up.weight", 64, 16), linear("h.0.down.weight", 16, 64)};
  EXPECT_EQ(norms_of(stream).at("wte.weight"), "sign");
  EXPECT_EQ(norms_of(stream).at("h.0.down.weight"), "spectral");
  // A tied head takes the output of the layer before it, whatever that is called.
  for (const std::string name : {"fc.weight", "out.weight", "policy.weight", "value.weight"}) {
    const Infos tied = {info("wte.weight", {20, 8}, Kind::Tied), linear(name, 8, 8)};
    EXPECT_EQ(norms_of(tied), (Table{{"wte.weight", "sign"}, {name, "spectral"}}));
  }
}

ModuleParameter held(std::string name, std::vector<std::string> types,
                     std::vector<Index> dimensions, Index groups = 1) {
  return {.name = std::move(name),
          .types = std::move(types),
          .dimensions = std::move(dimensions),
          .groups = groups};
}

TEST(RoutingModules, TypesComeBeforeNames) {
  const std::vector<std::pair<ModuleParameter, Kind>> cases = {
      {held("embed.weight", {"", "Linear"}, {4, 3}), Kind::Linear},
      {held("tokens.weight", {"", "Embedding"}, {50, 3}), Kind::Embedding},
      {held("bag.weight", {"", "EmbeddingBag"}, {50, 3}), Kind::Embedding},
      {held("pos_embed.weight", {"", "Embedding"}, {50, 3}), Kind::Position},
      {held("conv.weight", {"", "Conv2d"}, {8, 1, 3, 3}), Kind::Conv},
      {held("conv.weight", {"", "Conv2d"}, {8, 1, 3, 3}, 8), Kind::Depthwise},
      {held("conv.weight", {"", "Conv2d"}, {8, 2, 3, 3}, 4), Kind::Conv},
      {held("up.weight", {"", "ConvTranspose1d"}, {8, 4, 3}), Kind::ConvTranspose},
      {held("up.weight", {"", "ConvTranspose1d"}, {8, 1, 3}, 8), Kind::Depthwise},
      {held("conv.weight_g", {"", "Conv2d"}, {8, 1, 1, 1}), Kind::Gain},
      {held("conv.weight_v", {"", "Conv2d"}, {8, 3, 3, 3}), Kind::Conv},
      {held("conv.parametrizations.weight.original0", {"", "Conv2d", "", "ParametrizationList"},
            {8, 1, 1, 1}),
       Kind::Gain},
      {held("conv.parametrizations.weight.original1", {"", "Conv2d", "", "ParametrizationList"},
            {8, 3, 3, 3}),
       Kind::Conv},
      {held("bn.weight", {"", "BatchNorm2d"}, {8}), Kind::Gain},
      {held("bn.bias", {"", "BatchNorm2d"}, {8}), Kind::Bias},
      {held("lstm.weight_hh_l0", {"", "LSTM"}, {12, 3}), Kind::Hidden},
      {held("lstm.bias_hh_l0", {"", "LSTM"}, {12}), Kind::Bias},
      {held("in_proj_weight", {"MultiheadAttention"}, {12, 4}), Kind::Hidden},
      {held("bias_k", {"MultiheadAttention"}, {1, 1, 4}), Kind::Bias},
      {held("out_proj.weight", {"MultiheadAttention", "Linear"}, {4, 4}), Kind::Hidden},
      {held("linear2.weight", {"TransformerEncoderLayer", "Linear"}, {4, 4}), Kind::Hidden},
      {held("own.scale", {"", "Linear"}, {4, 4}), Kind::Unknown},
      {held("own.weight", {"", ""}, {4, 4}), Kind::Unknown}};
  for (const auto& [parameter, kind] : cases) {
    EXPECT_EQ(to_string(kinds_of(std::vector{parameter})[0]), to_string(kind)) << parameter.name;
  }
  EXPECT_TRUE(is_module_type("GRUCell"));
  EXPECT_FALSE(is_module_type("Dropout"));
}

TEST(RoutingModules, ATiedEmbeddingIsListedOnce) {
  const int tensor = 0, other = 0;
  std::vector<ModuleParameter> model = {held("wte.weight", {"", "Embedding"}, {50, 3}),
                                        held("lm_head.weight", {"", "Linear"}, {50, 3}),
                                        held("again.weight", {"", "Embedding"}, {50, 3}),
                                        held("copy.weight", {"", "Embedding"}, {50, 3})};
  model[0].identity = model[1].identity = &tensor;
  model[2].identity = model[3].identity = &other;
  EXPECT_EQ(kinds_of(model), (std::vector{Kind::Tied, Kind::Alias, Kind::Embedding, Kind::Alias}));
}

// bias_k and weight_g by name alone.
TEST(Routing, BiasesAndGainsOfAnyShape) {
  const Infos model = {info("attn.bias_k", {1, 1, 8}), info("conv.weight_g", {8, 1, 1, 1}),
                       info("conv.weight_v", {8, 3, 3, 3}), info("head.weight", {2, 8})};
  EXPECT_EQ(norms_of(model), (Table{{"attn.bias_k", "rms"},
                                    {"conv.weight_g", "rms"},
                                    {"conv.weight_v", "spectral(input)"},
                                    {"head.weight", "sign"}}));
  EXPECT_TRUE(route(model).warnings.empty());
}

// Beside an RGB convolution, one on a single channel is depthwise by shape alone, not where its
// module says that it is not.
TEST(Routing, AConvolutionOnOneChannelBesideRgb) {
  for (const Kind kind : {Kind::Unknown, Kind::Conv}) {
    const Infos model = {info("rgb.weight", {8, 3, 3, 3}, kind),
                         info("depth.weight", {8, 1, 3, 3}, kind), info("head.weight", {2, 8})};
    const bool known = kind == Kind::Conv;
    EXPECT_EQ(norms_of(model).at("depth.weight"), known ? "spectral(input)" : "row");
    EXPECT_EQ(route(model).warnings.empty(), known);
  }
}

TEST(Routing, ExplainIsATable) {
  const std::string text = route(gpt(true, true), {.radii = radii}).explain();
  EXPECT_EQ(text.find("parameter"), 0U);
  for (const auto* part :
       {"transformer.wte.weight", "50304x768", "sign", "embedding tied to the output head",
        "normalization gain (named 'ln_1')", "warning: 'lm_head.weight'"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Routing, BadInputIsRefused) {
  const auto model = airbench();
  const auto refused = [&](const RoutingRule& rule, const std::vector<std::string>& parts) {
    expect_invalid([&] { route(model, {.rules = {rule}}); }, parts);
  };
  refused({"haed.weight", {}}, {"[route]", "'haed.weight'", "'head.weight'"});
  refused({"layers.1.conv3.*", {}}, {"[route]", "matches no parameter", "layers.1.conv"});
  refused({"head.weight", {.radius = -1}}, {"[route]", "'head.weight'", "positive", "-1"});
  refused({"head.weight", {.split = parse_split("3")}}, {"[route]", "rows(3)", "10 rows"});
  refused({"head.weight", {.split = parse_split("rows(3, 6)")}}, {"[route]", "add up to 9"});
  refused({"head.weight", {.batch = 2}}, {"[route]", "batch 2", "10x256"});
  refused({"whiten.weight", {.split = parse_split("columns(2)")}}, {"[route]", "convolution"});
  auto twice = model;
  twice.push_back(model[0]);
  expect_invalid([&] { route(twice); }, {"[route]", "two parameters", "whiten.weight", "prefix"});
  const Infos no_alias = {{.name = "a", .dimensions = {3}, .kind = Kind::Alias}};
  expect_invalid([&] { route(no_alias); }, {"[route]", "'a'", "alias"});
  for (const double bad : {-1.0, 0.0, std::nan(""), HUGE_VAL}) {  // also of roles that nobody has
    const Infos one = {info("a.weight", {4, 3})};
    const std::vector<RoleRadii> all = {
        {.input = bad}, {.onehot = bad}, {.hidden = bad}, {.output = bad}, {.bias = bad}};
    const std::vector<std::string> names = {"input", "onehot", "hidden", "output", "bias"};
    for (size_t i = 0; i < all.size(); ++i) {
      expect_invalid([&] { route(one, {.radii = all[i]}); },
                     {"[route]", "'" + names[i] + "'", "positive and finite"});
    }
  }
  refused({"head.weight", {.lr = -1}}, {"[route]", "'head.weight'", "lr", "-1", "'head.weight'"});
  int memory = 0;
  const Infos overlapping = {{.name = "a", .dimensions = {3}, .identity = &memory},
                             {.name = "b", .dimensions = {3, 1}, .identity = &memory}};
  expect_invalid([&] { route(overlapping); }, {"[route]", "'a'", "'b'", "share memory"});
  expect_invalid([] { parse_kind("convolution"); }, {"[parse_kind]", "'convolution'", "conv"});
  expect_invalid([] { parse_role("hiden"); }, {"[parse_role]", "did you mean 'hidden'"});
  expect_invalid([] { parse_split("heads(3)"); }, {"[parse_split]", "rows"});
  expect_invalid([] { parse_split("rows(0)"); }, {"[parse_split]", "whole number"});
  expect_invalid([] { parse_split("2.5"); }, {"[parse_split]", "whole number"});
}

// By hand: a head of entries 1/√in, and in L blocks of four matrices or more 1/√(2L) of 1.
TEST(Routing, RadiiFromTheArchitecture) {
  Infos model = {info("wte.weight", {50, 100}), info("wpe.weight", {20, 100})};
  for (const std::string block : {"h.0.", "h.1.", "h.2."}) {
    model.push_back(info(block + "attn.qkv.weight", {300, 100}));
    model.push_back(info(block + "attn.out.weight", {100, 100}));
    model.push_back(info(block + "up.weight", {400, 100}));
    model.push_back(info(block + "down.weight", {100, 400}));
    model.push_back(info(block + "down.bias", {100}));
  }
  model.push_back(info("stages.0.weight", {100, 100}));  // in a sequence: nothing adds up
  model.push_back(info("stages.1.weight", {100, 100}));
  model.push_back(info("lm_head.weight", {50, 100}));
  const Routing routing = route(
      model,
      {.rules = {{"h.0.up.*", {.radius = 7}}, {"h.1.up.*", {.norm = Sign{}}}}, .auto_radii = true});
  for (const auto& route : routing.routes) {
    const bool block = route.name.starts_with("h.") && !route.name.ends_with("bias");
    double expected = block ? 0.408 : 1;  // 1/√6
    if (route.name == "lm_head.weight") expected = 10;
    if (route.name == "h.0.up.weight") expected = 7;
    if (route.name == "h.1.up.weight") expected = 4.08;  // √100/√6
    EXPECT_EQ(route.radius, expected) << route.name;
    if (expected == 7) continue;
    const char* const why = block ? "3 blocks" : "radius auto";
    EXPECT_NE(route.why.find(why), std::string::npos) << route.name << ": " << route.why;
  }
  const std::string table = routing.explain();
  EXPECT_NE(table.find("radius auto: entries of 1/sqrt(100)"), std::string::npos) << table;
  EXPECT_NE(table.find("radius auto: 1/sqrt(2*3 blocks)"), std::string::npos) << table;
  const Infos rows = {info("head.weight", {5, 64})};
  const auto by_row = route(rows, {.norms = {.output = RowNorm{}}, .auto_radii = true});
  EXPECT_EQ(by_row.routes[0].radius, 8);
  expect_invalid([&] { route(model, {.radii = {.hidden = 2}, .auto_radii = true}); },
                 {"[route]", "give one of them"});
  expect_invalid([&] { route(model, {.auto_radii = true, .method = "gd", .method_radius = 1}); },
                 {"'gd'", "auto radii"});
}

// Blocks in stages are counted together, and what passes from stage to stage is in none.
TEST(Routing, RadiiOfBlocksInStages) {
  Infos model;
  for (const auto& [stage, blocks] : {std::pair("stages.0.", 2), {"stages.1.", 6}}) {
    for (int i = 0; i < blocks; ++i) {
      const std::string block = stage + ("blocks." + std::to_string(i)) + ".";
      for (const auto* name : {"qkv.weight", "out.weight", "mlp.0.weight", "mlp.2.weight"}) {
        model.push_back(info(block + name, {100, 100}));
      }
    }
    model.push_back(info(std::string(stage) + "downsample.weight", {100, 100}));
  }
  for (const auto& route : route(model, {.auto_radii = true}).routes) {
    const bool block = route.name.find("blocks") != std::string::npos;
    EXPECT_EQ(route.radius, block ? 0.25 : 1) << route.name << ": " << route.why;  // 1/√16
  }
}

TEST(Routing, TextFormsReadBack) {
  for (int kind = 0; kind <= static_cast<int>(Kind::Alias); ++kind) {
    EXPECT_EQ(parse_kind(to_string(static_cast<Kind>(kind))), static_cast<Kind>(kind));
  }
  for (const Role role : {Role::Input, Role::OneHot, Role::Hidden, Role::Output, Role::Bias}) {
    EXPECT_EQ(parse_role(to_string(role)), role);
  }
  for (const auto* text : {"rows(3)", "columns(12)", "rows(768, 256, 256)"}) {
    EXPECT_EQ(to_string(parse_split(text)), text);
  }
}

}  // namespace
}  // namespace normball::testing
