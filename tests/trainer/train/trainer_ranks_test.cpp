// Training on several ranks, in real processes: the same as in one, whatever their number.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cmath>
#include <iostream>
#include <sstream>

#include "normball_torch/rank_processes.h"
#include "tests/trainer/run_testing.h"
#include "trainer/files/atomic_file.h"
#include "trainer/run/checkpoint.h"
#include "trainer/run/metrics.h"
#include "trainer/train/trainer.h"

namespace {

namespace fs = std::filesystem;
using namespace normball::trainer;
using normball::testing::ScratchDirectory;
using support::Environment;
using support::RankResult;

// ---------------------------------------------------------------- what runs in a rank

std::string variable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

config::Config config_of_rank() {
  const fs::path directory = variable("DIRECTORY");
  config::Config config;
  config.run = {.name = variable("NAME"),
                .dir = directory.string(),
                .threads = 1,
                .steps = 6,
                .log_every = 1,
                .eval_every = 3,
                .checkpoint_every = 100};
  if (variable("MODEL") == "gpt") {
    config.model.kind = "gpt";
    config.model.layers = 2;
    config.model.width = 16;
    config.model.heads = 2;
    config.model.context = 16;
    config.model.vocab = 256;
    config.data.kind = "text";
    config.data.path = (directory / "text.txt").string();
    config.train.batch = 12;
    config.eval.batches = 3;
    config.eval.batch = 2;
  } else {
    config.model.kind = variable("MODEL");
    config.model.width_factor = 0.0625;
    config.model.hidden = {24};
    config.data.translate = 2;
    config.train.batch = 48;
    config.eval.batches = 5;
    config.eval.batch = 20;
  }
  config.optimizer.alpha = 0.3;
  config.optimizer.rho = 10;
  std::istringstream settings(variable("SETTINGS"));
  for (std::string setting; settings >> setting;) config::apply_setting(config, setting, setting);
  return config;
}

// Of a parameter, in the pass of the given step.
void spoil_gradient(const models::Model& model, const std::string& name, int step) {
  for (const auto& parameter : model.parameters()) {
    if (parameter.name != name) continue;
    const auto pass = std::make_shared<int>(0);
    parameter.tensor.register_hook([step, pass](const torch::Tensor& gradient) {
      if (++*pass != step) return gradient;
      if (!variable("THROWN").empty()) throw std::runtime_error(variable("THROWN"));
      auto bad = gradient.clone();
      bad.view(-1)[0] = std::nan("");
      return bad;
    });
  }
}

// To sockets nearly all, in ranks other than the first.
std::string written_bytes() {
  std::ifstream io("/proc/self/io");
  std::string name, bytes;
  while (io >> name >> bytes && name != "wchar:") continue;
  return bytes;
}

int run_rank() {
  const auto team = train::Team::find();
  try {
    torch::set_num_threads(1);
    std::ostringstream screen;
    runtime::Progress progress(screen, false);
    const std::string stop = variable("STOP_AFTER");
    train::Trainer trainer(config_of_rank(),
                           {.stop_after = stop.empty() ? 0 : std::stoi(stop), .team = team});
    if (!variable("BAD").empty()) spoil_gradient(trainer.model(), variable("BAD"), 3);
    trainer.run(progress);
    std::cerr << screen.str() << "sent: " << written_bytes() << '\n';
    return 0;
  } catch (const normball::ranks::RanksError& error) {
    std::cerr << error.what() << '\n';
  } catch (const std::exception& error) {
    team->fail(error.what());
    std::cerr << error.what() << '\n';
  }
  return 1;
}

// ---------------------------------------------------------------- what is expected of them

class TrainerRanks : public ::testing::Test {
 protected:
  TrainerRanks() {
    std::string text;
    for (int i = 0; i < 600; ++i) text += "Line " + std::to_string(i * 7919 % 1000) + " of all.\n";
    files::write_file_atomically(files::FileSystem::real(), directory_ / "text.txt", text);
  }

  std::vector<RankResult> start(const std::string& name, int ranks, const Environment& variables,
                                int different = -1, const Environment& differences = {}) {
    return support::run_ranks("train", ranks, directory_.path(), [&](int rank, Environment& own) {
      own["NAME"] = name;
      own["NORMBALL_TIMEOUT"] = "20";
      for (const auto& [key, value] : variables) own[key] = value;
      if (rank != different) return;
      for (const auto& [key, value] : differences) own[key] = value;
    });
  }
  void train(const std::string& name, int ranks, const Environment& variables) {
    for (const auto& result : start(name, ranks, variables))
      ASSERT_EQ(result.code, 0) << result.text;
  }

  std::vector<run::MetricsLine> metrics(const std::string& name) const {
    return run::read_metrics(directory_ / name / "metrics.jsonl").lines;
  }
  run::Checkpoint checkpoint(const std::string& name, int step = 6) const {
    return run::open_checkpoint(directory_ / name / "checkpoints" /
                                ("step-" + std::to_string(step)));
  }

  // The largest difference of an entry, relative to the largest entry of its tensor.
  static double difference(const run::SafetensorsFile& a, const run::SafetensorsFile& b) {
    double most = 0;
    EXPECT_EQ(a.tensors().size(), b.tensors().size());
    for (const auto& tensor : a.tensors()) {
      const auto& other = b.at(tensor.name, tensor.dtype, tensor.shape);
      most = std::max(most, tensor.dtype == run::Dtype::F64 ? difference<double>(tensor, other)
                                                            : difference<float>(tensor, other));
    }
    return most;
  }
  template <class T>
  static double difference(const run::TensorView& a, const run::TensorView& b) {
    const auto* x = reinterpret_cast<const T*>(a.data.data());
    const auto* y = reinterpret_cast<const T*>(b.data.data());
    double apart = 0, size = 1e-30;
    for (size_t i = 0; i < a.data.size() / sizeof(T); ++i) {
      apart = std::max(apart, std::abs(double{x[i]} - double{y[i]}));
      size = std::max(size, std::abs(double{x[i]}));
    }
    return apart / size;
  }

  // Measured: 2e-6, 5e-5 and 3e-4. Directions of matrices with small singular values, and averages
  // that nearly cancel, magnify what is rounded.
  void expect_same_up_to_rounding(const std::string& name, const std::string& alone,
                                  double weight_tolerance = 1e-4) const {
    constexpr double curve_tolerance = 5e-6, state_tolerance = 1e-3;
    const auto a = metrics(name), b = metrics(alone);
    ASSERT_EQ(a.size(), b.size());
    double curves = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].step, b[i].step);
      for (const char* what : {"loss", "dual_norm", "eta", "lr", "val_loss", "val_accuracy"}) {
        ASSERT_EQ(a[i].number(what).has_value(), b[i].number(what).has_value()) << what;
        if (!a[i].number(what)) continue;
        const double x = *a[i].number(what), y = *b[i].number(what);
        EXPECT_NEAR(x, y, curve_tolerance * std::abs(y)) << what << " of step " << a[i].step;
        curves = std::max(curves, std::abs(x - y) / std::abs(y));
      }
    }
    const double weights = difference(checkpoint(name).model, checkpoint(alone).model);
    const double state = difference(checkpoint(name).optimizer, checkpoint(alone).optimizer);
    EXPECT_LT(weights, weight_tolerance) << name;
    EXPECT_LT(state, state_tolerance) << name;
    if (std::getenv("SHOW") != nullptr) {
      std::cerr << name << ": curves " << curves << ", weights " << weights << ", state " << state
                << '\n';
    }
  }

  ScratchDirectory directory_;
};

int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&address), size), 0);
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  close(socket);
  return ntohs(address.sin_port);
}

void expect_texts(const RankResult& result, const std::vector<std::string>& parts) {
  for (const auto& part : parts) {
    EXPECT_NE(result.text.find(part), std::string::npos) << part << "; got: " << result.text;
  }
}

const std::string vit =
    "model.patch=7 model.layers=2 model.width=16 model.heads=2 model.drop=0.5 data.translate=0 ";
const std::string unclipped = "optimizer.method=unconstrained_scion ";

TEST_F(TrainerRanks, AnyNumberOfThemTrainsTheSame) {
  struct Case {
    std::string name, model, settings;
    std::vector<int> ranks = {2, 4};
    double weight_tolerance = 1e-4;
  };
  const std::vector<Case> cases = {
      {"gpt", "gpt", "", {2, 3, 4}},
      {"cut", "gpt", "train.micro_batch=4", {2, 3}},  // a micro-batch belongs to two ranks
      {"whole", "gpt", "train.micro_batch=1", {2}},   // none does
      {"sum", "gpt", "train.loss=sum optimizer.rho=2000", {3}},
      {"adamw", "gpt", "optimizer.method=adamw optimizer.lr=0.001", {2}},
      {"muon", "gpt", "optimizer.method=muon optimizer.lr=0.001", {4}},
      {"constrained", "gpt", "optimizer.method=clipped_scion norm.hidden_radius=5", {2}},
      {"distance", "gpt", unclipped + "optimizer.stepsize=distance_aware(first=0.01)", {3}},
      {"momo", "gpt", unclipped + "optimizer.stepsize=momo train.loss=sum", {2}},
      {"auto", "gpt", "optimizer.rho=auto", {2}},
      {"search", "gpt", "optimizer.line_search=backtracking optimizer.alpha=1", {2}},
      {"mlp", "mlp", "", {4}},
      // 784 x 400 with the sign norm, divided by rows: in three parts.
      {"divided", "mlp", "norm.hidden=sign model.hidden=[400] optimizer.rho=1000", {2, 4}},
      {"drop", "vit", vit + "train.micro_batch=16", {2, 3}},
      // A bias before a batch normalization has a gradient that cancels, and a direction all the
      // same: there one process on oneDNN's AVX2 kernels is 1e-4 from itself on those of AVX-512.
      {"cnn", "cnn", "train.micro_batch=12 data.flip=true", {2, 3, 4}, 4e-4}};
  for (const auto& [name, model, settings, numbers, tolerance] : cases) {
    const Environment variables = {{"MODEL", model}, {"SETTINGS", settings}};
    train(name, 1, variables);
    for (const int ranks : numbers) {
      const std::string shared = name + std::to_string(ranks);
      train(shared, ranks, variables);
      if (HasFatalFailure()) return;
      expect_same_up_to_rounding(shared, name, tolerance);
      for (const auto& line : metrics(shared)) EXPECT_EQ(line.number("ranks"), ranks);
    }
    for (const auto& line : metrics(name)) EXPECT_FALSE(line.number("ranks"));
  }
}

TEST_F(TrainerRanks, OneThatStoppedGoesOnToTheBit) {
  int number = 0;
  for (const std::string& settings :
       {std::string("train.micro_batch=4"), unclipped + "optimizer.stepsize=distance_aware",
        unclipped + "optimizer.stepsize=momo", std::string("optimizer.rho=auto"),
        std::string("optimizer.line_search=smoothness"),
        std::string("norm.hidden=sign model.hidden=[400]"), vit}) {
    const std::string whole = "whole" + std::to_string(number);
    const std::string parts = "parts" + std::to_string(number++);
    const std::string model = settings == vit ? "vit" : number > 5 ? "mlp" : "gpt";
    const Environment variables = {{"MODEL", model}, {"SETTINGS", settings}};
    train(whole, 3, variables);
    Environment first = variables;
    first["STOP_AFTER"] = "2";
    train(parts, 3, first);
    Environment rest = variables;
    rest["SETTINGS"] += " run.resume=auto";
    train(parts, 3, rest);
    EXPECT_EQ(difference(checkpoint(whole).model, checkpoint(parts).model), 0) << settings;
    EXPECT_EQ(difference(checkpoint(whole).optimizer, checkpoint(parts).optimizer), 0) << settings;
  }
}

TEST_F(TrainerRanks, ARunOfFourGoesOnInOneInTwoAndInThree) {
  Environment variables;
  for (const auto& [model, settings] :
       {std::pair("mlp", "norm.hidden=sign model.hidden=[400] optimizer.rho=1000 "), {"gpt", ""}}) {
    fs::remove_all(directory_ / "whole");
    fs::remove_all(directory_ / "parts");
    variables = {{"MODEL", model}, {"SETTINGS", settings + std::string("run.resume=auto")}};
    train("whole", 1, variables);
    const auto then = [&](int ranks, const std::string& steps) {
      Environment more = variables;
      more["STOP_AFTER"] = steps;
      train("parts", ranks, more);
    };
    then(4, "2");
    then(1, "1");
    then(2, "1");
    then(3, "2");
    expect_same_up_to_rounding("parts", "whole");
  }
  const auto results = start("again", 1, variables);  // no note where nothing changed
  EXPECT_EQ(results[0].text.find("ranks"), std::string::npos) << results[0].text;
}

TEST_F(TrainerRanks, ABadGradientInOneMovesNoWeightInAny) {
  const std::string parameter = "blocks.1.up";
  const Environment variables = {{"MODEL", "gpt"}, {"SETTINGS", ""}}, bad = {{"BAD", parameter}};
  for (const auto& result : start("stopped", 3, variables, 1, bad)) {
    EXPECT_EQ(result.code, 1);
    expect_texts(result, {"the gradient of '" + parameter + "' in rank 1", "step 3", "step 2"});
  }
  EXPECT_EQ(metrics("stopped").back().number("stopped"), 1);

  Environment skip = variables;
  skip["SETTINGS"] = "run.nonfinite=skip";
  for (const auto& result : start("skipped", 3, skip, 1, bad)) EXPECT_EQ(result.code, 0);
  for (const auto& result : start("alone", 1, skip, 0, bad)) EXPECT_EQ(result.code, 0);
  expect_same_up_to_rounding("skipped", "alone");
  EXPECT_EQ(checkpoint("skipped").state.cursor.at("optimizer_steps"), 5);
}

// As much as DDP alone: gradients of matrices to their owners, directions back.
TEST_F(TrainerRanks, SendNoMoreThanTheTableSays) {
  const std::string settings = "model.width=64 run.eval_every=0 run.steps=";
  const auto sent = [&](int steps) {
    const std::string name = "sent" + std::to_string(steps);
    const auto results =
        start(name, 2, {{"MODEL", "gpt"}, {"SETTINGS", settings + std::to_string(steps)}});
    EXPECT_EQ(results[1].code, 0) << results[1].text;
    const size_t at = results[1].text.find("sent: ");
    return at == std::string::npos ? 0 : std::stod(results[1].text.substr(at + 6));
  };
  const double of_a_step = (sent(6) - sent(2)) / 4;
  double elements = 0;
  const auto saved = checkpoint("sent6");
  for (const auto& tensor : saved.model.tensors()) {
    elements += static_cast<double>(tensor.data.size()) / sizeof(float);
  }
  EXPECT_GE(of_a_step, sizeof(float) * elements);
  EXPECT_LE(of_a_step, 1.05 * sizeof(float) * elements);
}

// What is measured of whole gradients does not change the run, and is that of one process.
TEST_F(TrainerRanks, MeasureAsOneProcess) {
  const std::string settings = "run.probe_every=2 run.gap_every=3 run.gap_batches=2";
  train("alone", 1, {{"MODEL", "gpt"}, {"SETTINGS", settings}});
  train("plain", 3, {{"MODEL", "gpt"}, {"SETTINGS", ""}});
  train("measured", 3, {{"MODEL", "gpt"}, {"SETTINGS", settings}});
  EXPECT_EQ(difference(checkpoint("plain").model, checkpoint("measured").model), 0);
  const auto a = metrics("measured"), b = metrics("alone");
  ASSERT_EQ(a.size(), b.size());
  int seen = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (const char* what : {"probe_ratio", "probe_dual_norm", "full_dual_norm", "full_loss"}) {
      ASSERT_EQ(a[i].number(what).has_value(), b[i].number(what).has_value()) << what;
      if (!a[i].number(what)) continue;
      EXPECT_NEAR(*a[i].number(what) / *b[i].number(what), 1, 1e-3) << what;
      ++seen;
    }
  }
  EXPECT_EQ(seen, 3 * 2 + 2 * 2);
}

// Also where the place to read it is in the rank that fails.
TEST_F(TrainerRanks, WhatEndsOneIsToldByAll) {
  const std::string port = std::to_string(free_port());
  const Environment variables = {
      {"MODEL", "gpt"}, {"NORMBALL_STORE", ""}, {"MASTER_PORT", port}, {"SETTINGS", ""}};
  const auto results =
      start("thrown", 3, variables, 0, {{"BAD", "blocks.1.up"}, {"THROWN", "the roof is on fire"}});
  for (const auto& result : results) {
    EXPECT_EQ(result.code, 1);
    expect_texts(result, {"the roof is on fire"});
    EXPECT_LT(result.seconds, 15);
  }
  expect_texts(results[1], {"rank 0: "});
}

TEST_F(TrainerRanks, OfAnotherKindAreRefusedByAll) {
  const Environment variables = {{"MODEL", "gpt"}, {"SETTINGS", ""}};
  for (const auto& result : start("other", 3, variables, 2, {{"SETTINGS", "run.seed=3"}})) {
    EXPECT_EQ(result.code, 1);
    expect_texts(result, {"rank 2", "another configuration than rank 0", "seed = 3"});
  }
  const fs::path other = directory_ / "other.txt";
  fs::copy_file(directory_ / "text.txt", other);
  std::ofstream(other, std::ios::app) << "One more line.\n";
  for (const auto& result :
       start("other", 2, variables, 1, {{"SETTINGS", "data.path=" + other.string()}})) {
    EXPECT_EQ(result.code, 1);
    expect_texts(result, {"rank 1", "another training data than rank 0"});
  }
  EXPECT_FALSE(fs::exists(directory_ / "other"));
}

TEST_F(TrainerRanks, ForWhichABatchIsTooSmallAreRefused) {
  for (const auto& result : start("few", 2, {{"MODEL", "gpt"}, {"SETTINGS", "train.batch=1"}})) {
    EXPECT_EQ(result.code, 1);
    expect_texts(result, {"train.batch = 1", "2 ranks"});
  }
  for (const auto& result : start("few", 2, {{"MODEL", "cnn"}})) {
    EXPECT_EQ(result.code, 1);
    expect_texts(result, {"batch statistics need whole micro-batches", "train.micro_batch to 24"});
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 0 && std::string(argv[0]) == "rank") return run_rank();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
