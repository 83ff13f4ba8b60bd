// The trainer's parameters get what LibTorch and PyTorch would give them: the tables of
// tests/normball_torch/routing_fixture, to the letter.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "trainer/models/cnn.h"
#include "trainer/models/gpt.h"
#include "trainer/models/mlp.h"
#include "trainer/optim/routing.h"
#include "trainer/optim/training_optimizer.h"

namespace normball::trainer::optim {
namespace {

std::string read(const std::string& name) {
  std::ifstream file(NORMBALL_ROUTING_FIXTURE "/" + name);
  EXPECT_TRUE(file) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Case {
  std::string kind;
  std::unique_ptr<models::Model> model;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  all.push_back({"gpt", std::make_unique<models::Gpt>(models::GptConfig{
                            .vocabulary = 50, .layers = 2, .heads = 2, .width = 16})});
  all.push_back({"cnn", std::make_unique<models::Cnn>(models::CnnConfig{.width = 0.25})});
  all.push_back(
      {"mlp", std::make_unique<models::Mlp>(models::MlpConfig{.size = 12, .hidden = {24, 16}})});
  return all;
}

config::Config configured(const std::string& kind) {
  config::Config config;
  config.model.kind = kind;
  config.model.hidden = {24, 16};
  config.optimizer.rho = 10;
  config.norm.input_radius = 2;
  config.norm.embedding_radius = config.norm.output_radius = 3000;
  config.norm.hidden_radius = 50;
  config.norm.vector_radius = 0.5;
  return config;
}

// What the other two read to make the same parameters.
std::string listing(const models::Model& model) {
  std::ostringstream text;
  for (const auto& parameter : model.parameters()) {
    text << parameter.name << ' ' << to_string(parameter.kind) << ' '
         << normball::dimensions_text(parameter.tensor.sizes().vec());
    if (parameter.role == Role::Input) text << " input";
    text << '\n';
  }
  return text.str();
}

TEST(TrainerRouting, IsTheTableThatLibTorchAndPyTorchHave) {
  for (const auto& [kind, model] : cases()) {
    EXPECT_EQ(listing(*model), read("trainer_" + kind + ".parameters"));
    const auto config = configured(kind);
    EXPECT_EQ(make_optimizer(config, *model, 100)->explain(), read("trainer_" + kind + ".txt"));
    EXPECT_EQ(route_parameters(config, model->parameters()).explain(),
              read("trainer_" + kind + ".txt"));
    auto automatic = config;
    automatic.norm.radii = "auto";
    EXPECT_EQ(make_optimizer(automatic, *model, 100)->explain(),
              read("trainer_" + kind + "_auto.txt"));
  }
}

// A narrow convolution is none on an image.
TEST(TrainerRouting, TheModelsWordOnRolesCounts) {
  const models::Cnn narrow(models::CnnConfig{.width = 0.04});
  const auto routing = route_parameters(configured("cnn"), narrow.parameters());
  for (size_t i = 0; i < routing.routes.size(); ++i) {
    EXPECT_EQ(routing.routes[i].role, narrow.parameters()[i].role) << routing.routes[i].name;
  }
}

TEST(TrainerRouting, LaterRoutesWin) {
  auto config = configured("gpt");
  config.norm.route = {{"blocks.*", "row", 7.0}, {"blocks.1.*", {}, 8.0}, {"*.up", "rms", {}}};
  const auto model = std::move(cases()[0].model);
  const Routing routing = route_parameters(config, model->parameters());
  const auto find = [&](std::string_view name) -> const Route& {
    return *std::ranges::find(routing.routes, name, &Route::name);
  };
  EXPECT_EQ(find("blocks.0.query").norm, Norm(RowNorm{}));
  EXPECT_EQ(find("blocks.0.query").radius, 7);
  EXPECT_EQ(find("blocks.1.query").norm, Norm(RowNorm{}));
  EXPECT_EQ(find("blocks.1.query").radius, 8);
  EXPECT_EQ(find("blocks.1.up").norm, Norm(Rms{}));
  EXPECT_EQ(find("blocks.1.up").radius, 8);
  EXPECT_EQ(find("blocks.1.up").why, "rule '*.up'; radius by rule 'blocks.1.*'");
}

TEST(TrainerRouting, KnowsWhereTheFirstRouteWouldDecideOtherwise) {
  const auto model = std::move(cases()[2].model);
  const auto otherwise = [&](std::vector<config::Route> routes) {
    auto config = configured("mlp");
    config.norm.route = std::move(routes);
    return routed_otherwise_before(config, model->parameters());
  };
  const std::string first = model->parameters()[0].name, second = model->parameters()[1].name;
  using Names = std::vector<std::string>;
  EXPECT_EQ(otherwise({}), Names{});
  EXPECT_EQ(otherwise({{first, "row", 7.0}, {second, "rms", {}}}), Names{});
  EXPECT_EQ(otherwise({{first, "row", 7.0}, {first, "row", {}}}), Names{});
  EXPECT_EQ(otherwise({{first, "row", 7.0}, {"*", "rms", {}}}), Names{first});
  EXPECT_EQ(otherwise({{"*", {}, 7.0}, {second, "rms", {}}}), Names{second});
}

}  // namespace
}  // namespace normball::trainer::optim
