#include "normball/routed.h"

#include "testing.h"

namespace normball::testing {
namespace {

// Cut into rows, cut into columns, whole, and tied, which has no block of its own.
Routing fused_and_plain() {
  static const int memory = 0;
  const std::vector<ParameterInfo> infos = {
      {.name = "qkv.weight",
       .dimensions = {6, 4},
       .given = {.radius = 3, .split = Split{.parts = {3}}}},
      {.name = "heads",
       .dimensions = {2, 6},
       .given = {.split = Split{.columns = true, .parts = {2}}}},
      {.name = "bias", .dimensions = {4}, .identity = &memory},
      {.name = "same", .dimensions = {4}, .identity = &memory}};
  return route(infos);
}

TEST(Routed, LayersAreTheBlocksInOrder) {
  const Routing routing = fused_and_plain();
  const auto layers = layers_of(routing.routes);
  ASSERT_EQ(layers.size(), 6u);
  EXPECT_EQ(layers[1].name, "qkv.weight[1]");
  EXPECT_EQ(layers[1].radius, 3);
  EXPECT_EQ(layers[1].shape.rows, 2);
  EXPECT_EQ(layers[4].shape.cols, 3);
  EXPECT_EQ(layers[5].name, "bias");
  const auto same = routing.layers();
  for (size_t l = 0; l < layers.size(); ++l) EXPECT_EQ(same[l].name, layers[l].name);
}

TEST(Routed, ParametersShowEachBlockOfTheTensors) {
  const Routing routing = fused_and_plain();
  std::vector<float> weight(24), gradient(24), momentum(24);
  std::vector<Parameter<float>> parameters;
  append_parameters<float>(routing.routes[0],
                           {.weight = weight.data(),
                            .gradient = gradient.data(),
                            .momentum = momentum.data(),
                            .lr_factor = 0.5},
                           parameters);
  ASSERT_EQ(parameters.size(), 3u);
  EXPECT_EQ(&parameters[2].weight(1, 3), &weight[23]);
  EXPECT_EQ(&parameters[1].gradient(0, 0), &gradient[8]);
  EXPECT_EQ(&parameters[1].momentum(0, 2), &momentum[10]);
  EXPECT_EQ(parameters[0].lr_factor, 0.5);
  parameters.clear();
  append_parameters<float>(routing.routes[1], {.weight = weight.data(), .has_gradient = false},
                           parameters);
  ASSERT_EQ(parameters.size(), 2u);
  EXPECT_EQ(&parameters[1].weight(1, 0), &weight[9]);  // the second row, from the fourth column
  EXPECT_FALSE(parameters[1].has_gradient);
  EXPECT_EQ(parameters[1].gradient.data, nullptr);
}

}  // namespace
}  // namespace normball::testing
