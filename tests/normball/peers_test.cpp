#include "normball/peers.h"

#include <barrier>
#include <cstring>
#include <functional>
#include <thread>

#include "model.h"

namespace normball::testing {
namespace {

// Threads that stand for processes: what they send lies on one board.
template <class T>
struct Board {
  explicit Board(int size_) : size(size_), arrived(size_), views(static_cast<size_t>(size_)) {}
  int size;
  std::barrier<> arrived;
  std::vector<std::byte> bytes;
  std::vector<std::vector<MatrixView<T>>> views;
};

template <class T>
class ThreadPeers final : public Peers<T> {
 public:
  ThreadPeers(std::shared_ptr<Board<T>> board, int rank, std::vector<int> owners)
      : board_(std::move(board)), rank_(rank), owners_(std::move(owners)) {}

  int rank() const override { return rank_; }
  int size() const override { return board_->size; }
  int owner(size_t layer) const override { return owners_[layer]; }

  void gather(std::span<const std::byte> own, std::span<std::byte> all) override {
    if (rank_ == 0) board_->bytes.resize(all.size());
    board_->arrived.arrive_and_wait();
    std::memcpy(board_->bytes.data() + static_cast<size_t>(rank_) * own.size(), own.data(),
                own.size());
    board_->arrived.arrive_and_wait();
    std::memcpy(all.data(), board_->bytes.data(), all.size());
    board_->arrived.arrive_and_wait();
  }
  void start(std::span<const MatrixView<T>> directions) override {
    board_->views[static_cast<size_t>(rank_)].assign(directions.begin(), directions.end());
    found_.assign(directions.size(), 0);
  }
  void found(size_t layer) override { found_[layer] = 1; }
  void wait() override {
    board_->arrived.arrive_and_wait();
    const auto& own = board_->views[static_cast<size_t>(rank_)];
    for (size_t l = 0; l < own.size(); ++l) {
      if (owners_[l] < 0 || owners_[l] == rank_ || own[l].empty()) continue;
      const auto from = board_->views[static_cast<size_t>(owners_[l])][l];
      for (Index i = 0; i < from.rows; ++i) std::copy_n(from.row(i), from.cols, own[l].row(i));
    }
    board_->arrived.arrive_and_wait();
  }

  std::vector<char> found_ = {};

 private:
  std::shared_ptr<Board<T>> board_;
  int rank_;
  std::vector<int> owners_;
};

// A process: its copy of the model and its optimizer.
template <class T>
struct Process {
  Model<T> model;
  std::shared_ptr<ThreadPeers<T>> peers;
  Optimizer<T> optimizer;
};

// With the norms that the method gives them.
template <class T>
std::vector<Layer> layers_of(const Model<T>& model, const Method& method) {
  auto layers = model.layers;
  for (auto& layer : layers) layer.norm = method.norm.value_or(layer.norm);
  return layers;
}

template <class T>
std::vector<Process<T>> processes(int count, const Model<T>& model, const Method& method,
                                  const Execution& execution, std::vector<int> owners = {}) {
  auto board = std::make_shared<Board<T>>(count);
  if (owners.empty()) owners = share_layers(layers_of(model, method), count);
  std::vector<Process<T>> result;
  for (int rank = 0; rank < count; ++rank) {
    auto peers = std::make_shared<ThreadPeers<T>>(board, rank, owners);
    result.push_back({model, peers, Optimizer<T>(method, model.layers, execution, peers)});
  }
  return result;
}

template <class T>
void on_each(std::vector<Process<T>>& all, const std::function<void(Process<T>&, int)>& body) {
  std::vector<std::thread> threads;
  for (size_t r = 0; r < all.size(); ++r) {
    threads.emplace_back([&, r] { body(all[r], static_cast<int>(r)); });
  }
  for (auto& thread : threads) thread.join();
}

std::vector<Layer> several_matrices() {
  auto layers = every_norm();
  for (const Index cols : {5, 30, 17, 9}) {
    layers.push_back({.name = "matrix" + std::to_string(cols),
                      .shape = {.rows = 11, .cols = cols},
                      .norm = Spectral{},
                      .radius = 2});
  }
  layers.push_back({.name = "low-rank",
                    .shape = {.rows = 12, .cols = 10},
                    .norm = Spectral{.solver = PowerIteration{.rank = 2}},
                    .radius = 2});
  return layers;
}

// And one whose rows are divided, a part for each: uneven over two processes, fewer than four.
std::vector<Layer> with_a_divided_layer() {
  auto layers = several_matrices();
  layers.push_back(
      {.name = "divided", .shape = {.rows = 3, .cols = 70001}, .norm = Sign{}, .radius = 3});
  return layers;
}

// What a process needs of the gradients; the rest is NaN, which nobody may look at.
template <class T>
void keep_own_parts(Process<T>& process, const std::vector<int>& owners, int rank, int count) {
  for (size_t l = 0; l < owners.size(); ++l) {
    const auto& shape = process.model.layers[l].shape;
    const auto parts = gradient_parts(shape, owners[l], count);
    auto& gradient = process.model.gradients[l].data;
    auto next = gradient.begin();
    for (size_t r = 0; r < parts.size(); ++r) {
      const auto end = next + parts[r];
      if (static_cast<int>(r) != rank) std::fill(next, end, std::numeric_limits<T>::quiet_NaN());
      next = end;
    }
  }
}

// To the bit the weights, s and η of one process, and the same report in all.
template <class T>
void expect_as_one_process(int count, const Method& method, const Execution& execution,
                           const std::vector<Layer>& layers = several_matrices()) {
  Model<T> alone(layers, 5);
  Random random(3);
  if (method.constrained) alone.move_into_ball(random);
  auto all = processes(count, alone, method, execution);
  Optimizer<T> one(method, alone.layers, execution);
  for (int k = 0; k < 3; ++k) {
    alone.new_gradients(random, 0.1);
    const auto owners = share_layers(layers_of(alone, method), count);
    for (int rank = 0; rank < count; ++rank) {
      all[static_cast<size_t>(rank)].model.gradients = alone.gradients;
      keep_own_parts(all[static_cast<size_t>(rank)], owners, rank, count);
    }
    const StepReport expected = one.step(alone.parameters(), 2 - 0.1 * k);
    std::vector<StepReport> reports(all.size());
    on_each<T>(all, [&](Process<T>& process, int rank) {
      reports[static_cast<size_t>(rank)] =
          process.optimizer.step(process.model.parameters(), 2 - 0.1 * k);
    });
    for (size_t r = 0; r < all.size(); ++r) {
      EXPECT_EQ(all[r].model.weights, alone.weights) << method.name << ", rank " << r;
      EXPECT_EQ(reports[r].pairing, expected.pairing) << method.name;
      EXPECT_EQ(reports[r].eta, expected.eta) << method.name;
      EXPECT_EQ(reports[r].direction_norm, expected.direction_norm) << method.name;
      for (size_t l = 0; l < alone.layers.size(); ++l) {
        EXPECT_EQ(reports[r].layers[l].dual_norm, expected.layers[l].dual_norm) << l;
        EXPECT_EQ(reports[r].layers[l].pairing, expected.layers[l].pairing) << l;
      }
    }
  }
}

TEST(Peers, StepAsOneProcessToTheBit) {
  for (const auto name : method_names()) {
    const Method method =
        make_method(name, {.lr = 0.01, .alpha = 0.5, .rho = 2, .beta = 2, .l0 = 1, .l1 = 1});
    for (const int count : {1, 2, 3, 4}) expect_as_one_process<float>(count, method, {});
  }
  for (const StepRule& rule : {StepRule(AdaGrad{}), StepRule(DistanceAware{}), StepRule(Momo{})}) {
    const Method method =
        make_method("unconstrained_scion", {.lr = 0.01, .alpha = 0.5, .stepsize = rule});
    for (const int count : {1, 3}) expect_as_one_process<float>(count, method, {});
  }
}

TEST(Peers, GiveOneLoss) {
  const Model<double> model(several_matrices(), 5);
  const Method momo = make_method("unconstrained_scion", {.lr = 0.01, .stepsize = Momo{}});
  auto all = processes(3, model, momo, {});
  const auto expect_told = [&](std::function<std::optional<double>(int)> loss, const char* text) {
    on_each<double>(all, [&](Process<double>& process, int rank) {
      try {
        process.optimizer.step(process.model.parameters(), loss(rank));
        ADD_FAILURE() << text;
      } catch (const std::exception& error) {
        EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
      }
      EXPECT_EQ(process.model.weights, model.weights);
    });
  };
  expect_told([](int rank) { return 1.0 + rank; }, "has the loss 2, rank 0 1");
  expect_told([](int) { return std::nan(""); }, "the loss is not finite");
  on_each<double>(all, [&](Process<double>& process, int rank) {
    const auto own = rank == 1 ? std::optional<double>() : 1.0;
    EXPECT_THROW(process.optimizer.step(process.model.parameters(), own), std::exception);
  });
  on_each<double>(all, [](Process<double>& process, int) {
    EXPECT_FALSE(process.optimizer.step(process.model.parameters(), 1).skipped);
  });
}

TEST(Peers, StepAsOneProcessInEveryExecutionAndCombination) {
  for (const auto combination : {Combination::Max, Combination::Sum, Combination::L2}) {
    Method method = unconstrained_clipped_scion(0.01, 0.5, 2);
    method.combination = combination;
    for (const bool overwrite : {false, true}) {
      for (const bool undoable : {false, true}) {
        expect_as_one_process<double>(
            3, method, {.threads = 2, .overwrite_gradients = overwrite, .undoable = undoable});
      }
    }
  }
  expect_as_one_process<double>(3, clipped_scion(0.01, 0.5, 2, ShortStepForm::ByNorm), {});
}

TEST(Peers, OnlyTheOwnerKeepsAndFindsADirection) {
  const Model<float> model(with_a_divided_layer());
  auto all = processes(3, model, unconstrained_scion(0.1, 0.5), {});
  on_each<float>(all,
                 [](auto& process, int) { process.optimizer.step(process.model.parameters()); });
  const auto owners = share_layers(model.layers, 3);
  for (int rank = 0; rank < 3; ++rank) {
    auto& process = all[static_cast<size_t>(rank)];
    size_t found = 0, kept = 0;
    for (const int owner : owners) {
      found += owner == rank ? 1 : 0;
      kept += owner == rank || owner == every_process || owner == by_rows ? 1 : 0;
    }
    EXPECT_GT(found, 0u);
    EXPECT_EQ(static_cast<size_t>(std::ranges::count(process.peers->found_, 1)), found);
    size_t momenta = 0;
    for (const auto& buffer : process.optimizer.state()) {
      momenta += buffer.name.starts_with("momentum.") ? 1 : 0;
      EXPECT_TRUE(buffer.name != "momentum.divided" || buffer.view.rows == 1);
    }
    EXPECT_EQ(momenta, kept);
  }
}

// A gradient that is bad in one process: nobody moves, and the next step is as if it had not been.
void expect_refused(size_t bad_layer, int bad_rank, const Execution& execution) {
  const Method method = unconstrained_clipped_scion(0.01, 0.5, 2);
  Model<double> alone(with_a_divided_layer(), 5);
  auto all = processes(3, alone, method, execution);
  Optimizer<double> one(method, alone.layers, execution);
  Random random(3);
  for (int k = 0; k < 3; ++k) {
    alone.new_gradients(random);
    for (auto& process : all) process.model.gradients = alone.gradients;
    if (k == 1) {
      all[static_cast<size_t>(bad_rank)].model.gradients[bad_layer].data[2] = std::nan("");
      on_each<double>(all, [&](auto& process, int) {
        const auto step = [&] { process.optimizer.step(process.model.parameters()); };
        if (execution.nonfinite == NonFinite::Throw) {
          expect_error<NonFiniteError>(step, {"rank " + std::to_string(bad_rank), "the gradient",
                                              "'" + alone.layers[bad_layer].name + "'"});
        } else {
          const StepReport& report = process.optimizer.step(process.model.parameters());
          EXPECT_TRUE(report.skipped);
          EXPECT_EQ(report.nonfinite_layer, alone.layers[bad_layer].name);
        }
      });
    } else {
      one.step(alone.parameters(), 2 - 0.1 * k);
      on_each<double>(
          all, [](auto& process, int) { process.optimizer.step(process.model.parameters()); });
    }
    for (auto& process : all) EXPECT_EQ(process.model.weights, alone.weights) << k;
  }
}

TEST(Peers, ABadGradientInOneProcessStopsAllWithoutATrace) {
  const auto owners = share_layers(with_a_divided_layer(), 3);
  for (const bool overwrite : {false, true}) {
    expect_refused(0, owners[0], {.overwrite_gradients = overwrite});
    expect_refused(2, 1, {.overwrite_gradients = overwrite});  // which all find
    expect_refused(2, 2, {.overwrite_gradients = overwrite, .nonfinite = NonFinite::Skip});
    // Its row 0, which process 0 of 3 has.
    expect_refused(owners.size() - 1, 0, {.overwrite_gradients = overwrite});
  }
}

// A user's norm that fails where it is told to.
struct FailingNorm final : NormOracle {
  mutable std::atomic<bool> fails = false;
  void lmo(ConstMatrixView<double> d, MatrixView<double> out) const override {
    if (fails) throw std::runtime_error("the oracle is out");
    normball::lmo(Norm(Euclidean{}), d, out);
  }
};

TEST(Peers, AFailureWhileDirectionsAreFoundStopsAllAtTheSamePlace) {
  const auto oracle = std::make_shared<FailingNorm>();
  auto layers = several_matrices();
  layers.push_back({.name = "own", .shape = {.rows = 4, .cols = 4}, .norm = Custom{oracle}});
  const Method method = unconstrained_clipped_scion(0.01, 0.5, 2);
  for (const bool overwrite : {false, true}) {
    oracle->fails = false;
    Model<double> alone(layers, 5);
    const Execution execution{.overwrite_gradients = overwrite};
    auto all = processes(3, alone, method, execution);
    Optimizer<double> one(method, layers, execution);
    Random random(3);
    const std::string owner = "rank " + std::to_string(share_layers(layers, 3).back());
    for (int k = 0; k < 3; ++k) {
      oracle->fails = k == 1;
      alone.new_gradients(random);
      for (auto& process : all) process.model.gradients = alone.gradients;
      if (k == 1) {
        // Elsewhere directions have overwritten gradients by then: all averages keep theirs.
        if (overwrite) {
          oracle->fails = false;
          one.prepare(alone.parameters());
          one.abandon();
          oracle->fails = true;
        }
        on_each<double>(all, [&](auto& process, int rank) {
          std::vector<std::string> parts = {"'own'", "the oracle is out"};
          if ("rank " + std::to_string(rank) != owner) parts.push_back(owner);
          expect_error<std::runtime_error>(
              [&] { process.optimizer.step(process.model.parameters()); }, parts);
        });
      } else {
        one.step(alone.parameters(), 2 - 0.1 * k);
        on_each<double>(
            all, [](auto& process, int) { process.optimizer.step(process.model.parameters()); });
      }
      for (auto& process : all) EXPECT_EQ(process.model.weights, alone.weights) << k;
    }
  }
}

TEST(Peers, ProcessesThatDoNotTakeTheSameStepAreTold) {
  const Model<double> model(several_matrices());
  const auto expect = [&](const std::vector<std::string>& parts,
                          const std::function<void(Process<double>&)>& change) {
    auto all = processes(2, model, unconstrained_scion(0.1, 0.5), {});
    change(all[1]);
    on_each<double>(all, [&](auto& process, int) {
      const auto before = process.model.weights;
      expect_error<std::runtime_error>([&] { process.optimizer.step(process.model.parameters()); },
                                       parts);
      EXPECT_EQ(process.model.weights, before);
    });
  };
  expect({"rank 1", "lr 0.2", "rank 0 0.1"}, [](auto& other) { other.optimizer.set_lr(0.2); });
  expect({"rank 1", "alpha 0.9"}, [](auto& other) { other.optimizer.set_alpha(0.9); });
  expect({"rank 1", "step 4", "rank 0 0"}, [](auto& other) { other.optimizer.set_steps_taken(4); });

  auto all = processes(2, model, unconstrained_scion(0.1, 0.5), {});
  on_each<double>(all, [&](auto& process, int rank) {
    auto parameters = process.model.parameters();
    if (rank == 1) parameters[3] = Parameter<double>::without_gradient(parameters[3].weight);
    expect_error<std::runtime_error>([&] { process.optimizer.step(parameters); },
                                     {"rank 1", "gradients for other parameters"});
  });
  // What is wrong with one process's arguments alone.
  on_each<double>(all, [&](auto& process, int rank) {
    auto parameters = process.model.parameters();
    if (rank == 0) {
      expect_error<std::runtime_error>([&] { process.optimizer.step(parameters); },
                                       {"rank 1", "got 1 parameters"});
    } else {
      parameters.resize(1);
      expect_invalid([&] { process.optimizer.step(parameters); }, {"got 1 parameters"});
    }
  });
}

TEST(Peers, DividedRowsStepAsInOneProcess) {
  const auto layers = with_a_divided_layer();
  const Method clipped = unconstrained_clipped_scion(0.01, 0.5, 2);
  for (const int count : {1, 2, 3, 4}) {
    expect_as_one_process<float>(count, clipped, {.overwrite_gradients = true}, layers);
  }
  expect_as_one_process<double>(2, clipped, {.threads = 2, .undoable = true}, layers);
  const Method by_norm = clipped_scion(0.01, 0.5, 2, ShortStepForm::ByNorm);
  expect_as_one_process<float>(2, by_norm, {}, layers);
  expect_as_one_process<double>(5, by_norm, {.overwrite_gradients = true}, layers);
  expect_as_one_process<float>(3, clipped_sign(0.01, 2, 0.5), {}, layers);
}

// prepare(), the direction, apply().
TEST(Peers, TheDirectionOfDividedRowsIsThatOfOneProcess) {
  const auto layers = with_a_divided_layer();
  const Method method = clipped_scion(0.01, 0.5, 2);
  const Execution execution{.undoable = true};
  Model<float> alone(layers, 5);
  auto all = processes(3, alone, method, execution);
  Optimizer<float> one(method, layers, execution);
  const auto direction_of = [&](Optimizer<float>& optimizer, Model<float>& model) {
    optimizer.prepare(model.parameters());
    Model<float> v(layers);
    std::vector<MatrixView<float>> views;
    for (auto& matrix : v.gradients) views.push_back(matrix.view());
    optimizer.direction(views);
    optimizer.apply(0.1);
    return v.gradients;
  };
  for (int k = 0; k < 2; ++k) {
    const auto expected = direction_of(one, alone);
    on_each<float>(all, [&](auto& process, int) {
      EXPECT_EQ(direction_of(process.optimizer, process.model), expected);
      EXPECT_EQ(process.model.weights, alone.weights);
    });
  }
}

// A momentum of the caller's has this process's rows alone; the state of one process is put
// together from those of all.
TEST(Peers, RowsOfTheCallersMomentum) {
  const Method method = unconstrained_clipped_scion(0.01, 0.5, 2);
  Model<float> alone({{.name = "divided", .shape = {.rows = 7, .cols = 70001}, .norm = Sign{}}}, 5);
  auto all = processes(3, alone, method, {.external_momentum = true});
  Optimizer<float> one(method, alone.layers);
  std::vector<std::vector<float>> momenta;
  for (int rank = 0; rank < 3; ++rank) {
    momenta.emplace_back(
        static_cast<size_t>(rows_of(alone.layers[0].shape, rank, 3).count() * 70001));
  }
  const auto parameters = [&](Process<float>& process, int rank, Index more_rows) {
    auto result = process.model.parameters();
    const Index rows = rows_of(alone.layers[0].shape, rank, 3).count() + more_rows;
    result[0].momentum = {momenta[static_cast<size_t>(rank)].data(), rows, 70001};
    return result;
  };
  Random random(3);
  for (int k = 0; k < 3; ++k) {
    alone.new_gradients(random);
    for (auto& process : all) process.model.gradients = alone.gradients;
    one.step(alone.parameters());
    on_each<float>(all, [&](auto& process, int rank) {
      process.optimizer.step(parameters(process, rank, 0));
    });
    for (auto& process : all) EXPECT_EQ(process.model.weights, alone.weights) << k;
  }
  std::vector<float> together;
  for (const auto& rows : momenta) together.insert(together.end(), rows.begin(), rows.end());
  const auto whole = one.state()[0].view;
  EXPECT_TRUE(std::equal(together.begin(), together.end(), whole.data, whole.data + whole.size()));
  on_each<float>(all, [&](auto& process, int rank) {
    expect_error<std::exception>(
        [&] { process.optimizer.step(parameters(process, rank, rank == 1 ? 1 : 0)); },
        {"momentum of 'divided'", "its rows here"});
  });
}

TEST(ShareLayers, DividesLargeLayersWithSignNorm) {
  const std::vector<Layer> layers = {{.shape = {300, 768}, .norm = Sign{}},
                                     {.shape = {100, 768}, .norm = Sign{}},  // a part alone
                                     {.shape = {300, 768}, .norm = RowNorm{}},
                                     {.shape = {300, 768}, .norm = Sign{}},
                                     {.shape = {300, 768}, .norm = Sign{}}};
  const std::vector<size_t> tensors = {0, 1, 2, 3, 3};  // the last two are fused
  EXPECT_EQ(share_layers(layers, 2, tensors),
            (std::vector{by_rows, every_process, every_process, every_process, every_process}));
}

TEST(RowsOf, CutsWhereSumsAreCut) {
  const Shape embedding{.rows = 50304, .cols = 768}, few{.rows = 2, .cols = 200'000};
  for (const int count : {1, 2, 3, 4, 7}) {
    Index next = 0;
    for (int process = 0; process < count; ++process) {
      const Rows rows = rows_of(embedding, process, count);
      EXPECT_EQ(rows.begin, next);
      EXPECT_TRUE(rows.begin % 170 == 0) << rows.begin;  // 131072 elements or less
      EXPECT_NEAR(static_cast<double>(rows.count()) * count / 50304, 1, 0.03) << count;
      next = rows.end;
    }
    EXPECT_EQ(next, 50304);
  }
  EXPECT_EQ(rows_of(few, 1, 4).count() + rows_of(few, 3, 4).count(), 2);
  EXPECT_EQ(gradient_parts(few, by_rows, 4), (std::vector<Index>{0, 200'000, 0, 200'000}));
  EXPECT_EQ(gradient_parts(few, 1, 3), (std::vector<Index>{0, 400'000, 0}));
  EXPECT_TRUE(gradient_parts(few, every_process, 3).empty());
  expect_invalid([&] { rows_of(few, 2, 2); }, {"rows_of", "process 2 of 2"});
}

TEST(ShareLayers, BalancesWhatIsDearAndLeavesTheRestToAll) {
  std::vector<Layer> layers = {{.name = "sign", .shape = {5000, 5000}, .norm = Sign{}},
                               {.name = "bias", .shape = {100, 1}, .norm = Rms{}}};
  for (int i = 0; i < 12; ++i) {
    for (const auto& [rows, cols] : {std::pair(768, 768), {768, 3072}, {3072, 768}, {2304, 768}}) {
      layers.push_back({.shape = {rows, cols}, .norm = Spectral{}});
    }
  }
  for (const int count : {1, 2, 3, 4, 7}) {
    const auto owners = share_layers(layers, count);
    EXPECT_EQ(owners[0], by_rows);
    EXPECT_EQ(owners[1], every_process);
    std::vector<double> load(static_cast<size_t>(count));
    for (size_t l = 2; l < layers.size(); ++l) {
      ASSERT_GE(owners[l], 0);
      ASSERT_LT(owners[l], count);
      load[static_cast<size_t>(owners[l])] += static_cast<double>(layers[l].shape.size());
    }
    const auto [least, most] = std::ranges::minmax(load);
    EXPECT_LE(most, 1.2 * least) << count;
  }
}

TEST(ShareLayers, KeepsTheLayersOfATensorTogether) {
  const std::vector<Layer> layers(9, {.shape = {64, 64}, .norm = Spectral{}});
  const std::vector<size_t> tensors = {0, 0, 0, 1, 1, 1, 2, 2, 2};
  const auto owners = share_layers(layers, 3, tensors);
  EXPECT_EQ(owners, (std::vector<int>{0, 0, 0, 1, 1, 1, 2, 2, 2}));
}

TEST(ShareLayers, SendsTheLongestFirstAndTheOwnersInTurn) {
  const std::vector<Layer> layers = {{.shape = {10, 10}, .norm = Spectral{}},
                                     {.shape = {40, 40}, .norm = Spectral{}},
                                     {.shape = {9, 9}, .norm = Sign{}},
                                     {.shape = {30, 30}, .norm = Spectral{}},
                                     {.shape = {20, 20}, .norm = Spectral{}}};
  const std::vector<int> owners = {0, 1, every_process, 0, 1};
  EXPECT_EQ(sending_order(layers, owners), (std::vector<size_t>{3, 1, 0, 4}));
}

TEST(PeersErrors, NameWhatDoesNotFit) {
  const auto layers = several_matrices();
  expect_invalid([&] { share_layers(layers, 0); }, {"share_layers", "got 0"});
  const std::vector<size_t> two = {0, 1};
  expect_invalid([&] { share_layers(layers, 2, two); }, {"share_layers", "got 2 tensors"});
  const auto board = std::make_shared<Board<float>>(2);
  const auto make = [&](std::vector<int> owners, Execution execution) {
    Optimizer<float>(gd(0.1), layers, execution,
                     std::make_shared<ThreadPeers<float>>(board, 0, std::move(owners)));
  };
  expect_invalid([&] { make(share_layers(layers, 2), {.light = true}); }, {"light", "peers"});
  expect_invalid([&] { make(std::vector<int>(layers.size(), 7), {}); }, {"owner 7"});
  expect_invalid([&] { make(std::vector<int>(layers.size(), 1), {}); }, {"not stored"});
  expect_invalid([&] { make(std::vector<int>(layers.size(), by_rows), {}); },
                 {"only layers with the sign norm"});
}

}  // namespace
}  // namespace normball::testing
