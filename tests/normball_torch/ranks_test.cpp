#include "normball_torch/ranks/ranks.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <csignal>
#include <iostream>
#include <numeric>
#include <sstream>
#include <thread>

#include "normball/base/error.h"
#include "normball_torch/clipped_scion.h"
#include "rank_processes.h"

namespace {

using normball::optim::ClippedScion;
using normball::optim::ClippedScionOptions;
using normball::optim::NormBall;
using normball::optim::Scion;
using normball::ranks::Facts;
using normball::ranks::Place;
using normball::ranks::Ranks;
using normball::ranks::RanksError;
using normball::testing::TemporaryDirectory;
using support::Environment;
using support::RankResult;
using support::run_ranks;
using torch::Tensor;

// ---------------------------------------------------------------- what runs in a rank

std::string variable(const std::string& name, const std::string& otherwise = "") {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? otherwise : value;
}

std::filesystem::path in_directory(const std::string& name) {
  return std::filesystem::path(variable("DIRECTORY")) / name;
}

constexpr std::chrono::seconds timeout(5), start_timeout(4);

// Null for a process alone.
std::shared_ptr<Ranks> meet(const Facts& facts = {{"test", "the same"}}) {
  const auto place = normball::ranks::find_place();
  if (!place) return nullptr;
  return normball::ranks::join(*place, {.timeout = timeout, .start_timeout = start_timeout})
      ->agree_on(facts);
}

int rank_of(const std::shared_ptr<Ranks>& ranks) { return ranks ? ranks->rank() : 0; }

// Matrices of several sizes, one cut into three, one of each cheap norm, in float and double. The
// table is divided by rows: at 2048 over two ranks, one of three has none.
struct Network : torch::nn::Module {
  explicit Network(torch::ScalarType type) {
    torch::manual_seed(7);
    const auto add = [&](const std::string& name, at::IntArrayRef sizes) {
      parameters_in_order.push_back(
          register_parameter(name, torch::randn(sizes, torch::kFloat64).to(type) * 0.3));
    };
    add("first", {24, 10});
    add("qkv", {24, 8});
    add("square", {24, 24});
    add("wide", {16, 24});
    add("mixed", {16, 16});
    add("table", {3000, 64});
    add("head", {5, 16});
    add("bias", {5});
  }
  Tensor forward(Tensor x) {
    auto& p = parameters_in_order;
    x = torch::tanh(x.matmul(p[0].t()));
    x = x + 0.1 * x.matmul(p[1]).matmul(p[1].t());
    x = torch::tanh(x.matmul(p[2].t()));
    x = torch::tanh(x.matmul(p[3].t()));
    x = x + 0.1 * x.matmul(p[4].t());
    x = x + 0.01 * x.matmul(p[5].narrow(0, 2045, 5).narrow(1, 0, 16).t()).matmul(p[6]);
    return x.matmul(p[6].t()) + p[7];
  }
  std::vector<Tensor> parameters_in_order;
};

ClippedScionOptions options(const std::shared_ptr<Ranks>& ranks) {
  ClippedScionOptions result(0.05);
  result.alpha(0.3).rho(3).ranks(ranks).threads(1);
  result.radii(normball::RoleRadii{.hidden = 2, .output = 4});
  result.rules(std::vector<normball::RoutingRule>{
      {"qkv", {.split = normball::parse_split("columns(2)")}},
      {"table", {.norm = normball::Sign{}}},
      {"mixed", {.norm = normball::parse_norm("spectral(solver=power(rank=3))")}}});
  if (variable("OVERWRITE") == "yes") result.overwrite_gradients(true);
  if (variable("PARTS") == "yes") result.gradients_in_parts(true);
  return result;
}

// With a stepsize, where the test names one.
std::unique_ptr<NormBall> optimizer_for(Network& network, const std::shared_ptr<Ranks>& ranks) {
  const std::string stepsize = variable("STEPSIZE");
  if (stepsize.empty()) return std::make_unique<ClippedScion>(network, options(ranks));
  return std::make_unique<Scion>(network, options(ranks).rho(std::nullopt).stepsize(stepsize));
}

torch::ScalarType type_of_test() {
  return variable("TYPE") == "double" ? torch::kFloat64 : torch::kFloat32;
}

void set_same_gradients(Network& network, int step) {
  torch::manual_seed(static_cast<uint64_t>(100 + step));
  for (auto& tensor : network.parameters_in_order) {
    tensor.mutable_grad() = torch::randn_like(tensor.detach());
  }
}

// What this rank does not need, nobody may look at.
void keep_own_parts(NormBall& optimizer, Network& network, int rank) {
  for (auto& tensor : network.parameters_in_order) {
    int64_t at = 0;
    const auto parts = optimizer.gradient_parts(tensor);
    for (size_t r = 0; r < parts.size(); at += parts[r++]) {
      if (static_cast<int>(r) == rank) continue;
      tensor.mutable_grad().view(-1).narrow(0, at, parts[r]).fill_(std::nan(""));
    }
  }
}

int64_t momentum_bytes(NormBall& optimizer) {
  int64_t bytes = 0;
  for (const auto& [key, state] : optimizer.state()) {
    const auto& own = static_cast<const normball::optim::NormBallParamState&>(*state);
    for (const auto& tensor : {own.momentum_buffer(), own.momentum_rows()}) {
      if (tensor.defined()) bytes += static_cast<int64_t>(tensor.nbytes());
    }
  }
  return bytes;
}

void write_weights(const Network& network, const std::string& name) {
  std::ofstream out(in_directory(name), std::ios::binary);
  for (const auto& tensor : network.parameters_in_order) {
    out.write(static_cast<const char*>(tensor.data_ptr()),
              static_cast<std::streamsize>(tensor.nbytes()));
  }
}

// Steps FROM to TO on gradients that all ranks have; the state goes through files.
void take_steps() {
  const auto ranks = meet();
  Network network(type_of_test());
  const auto made = optimizer_for(network, ranks);
  NormBall& optimizer = *made;
  const int from = std::stoi(variable("FROM", "0")), to = std::stoi(variable("TO", "4"));
  if (from > 0) {
    torch::serialize::InputArchive archive;
    archive.load_from(in_directory("model"));
    network.load(archive);
    torch::load(optimizer, in_directory("optimizer"));
  }
  for (int step = from; step < to; ++step) {
    set_same_gradients(network, step);
    if (variable("PARTS") == "yes") keep_own_parts(optimizer, network, rank_of(ranks));
    optimizer.step(4.0 / (1 + step));  // a loss that falls, for the stepsizes that need it
  }
  std::cerr << "momenta: " << momentum_bytes(optimizer) << '\n';
  optimizer.consolidate_state();
  if (rank_of(ranks) == 0) {
    torch::serialize::OutputArchive archive;
    network.save(archive);
    archive.save_to(in_directory("model"));
    torch::save(optimizer, in_directory("optimizer"));
  }
  write_weights(network, "weights" + std::to_string(rank_of(ranks)));
}

// Each rank has its part of the batch, as in training.
void train_on_shares() {
  const auto ranks = meet();
  const int rank = rank_of(ranks), size = ranks ? ranks->size() : 1;
  Network network(type_of_test());
  ClippedScion optimizer(network, options(ranks));
  constexpr int64_t batch = 96;  // gradients of full rank: UVᵀ of others is a matter of rounding
  for (int step = 0; step < 5; ++step) {
    torch::manual_seed(static_cast<uint64_t>(step));
    const Tensor x = torch::randn({batch, 10}, torch::kFloat64).to(type_of_test());
    const Tensor y = torch::randn({batch, 5}, torch::kFloat64).to(type_of_test());
    const auto own = [&](const Tensor& all) {
      return all.slice(0, batch * rank / size, batch * (rank + 1) / size);
    };
    optimizer.zero_grad();
    ((network.forward(own(x)) - own(y)).pow(2).sum() / batch).backward();
    for (auto& tensor : network.parameters_in_order) {
      if (!ranks) continue;
      const auto parts = optimizer.gradient_parts(tensor);
      const bool divide = variable("PARTS") == "yes" && !parts.empty();
      const Tensor flat = tensor.mutable_grad().view(-1);
      (divide ? ranks->reduce_parts(flat, parts) : ranks->all_reduce(flat))->wait();
    }
    optimizer.step();
  }
  write_weights(network, "weights" + std::to_string(rank));
}

// The third step is bad in rank 1: all refuse it, and go on as if it had not been.
void meet_a_bad_gradient() {
  const auto ranks = meet();
  Network network(torch::kFloat64);
  ClippedScion optimizer(network, options(ranks));
  for (int step = 0; step < 4; ++step) {
    set_same_gradients(network, step);
    if (step != 2) {
      optimizer.step();
      continue;
    }
    if (ranks == nullptr) continue;
    if (ranks->rank() == 1) {
      network.parameters_in_order[std::stoul(variable("BAD"))].mutable_grad().view(-1)[0] =
          std::nan("");
    }
    try {
      optimizer.step();
    } catch (const normball::NonFiniteError& error) {
      std::cerr << error.what() << '\n';
    }
  }
  write_weights(network, "weights" + std::to_string(rank_of(ranks)));
}

// Written by this process, to sockets nearly all.
int64_t written_bytes() {
  std::ifstream io("/proc/self/io");
  int64_t bytes = 0;
  for (std::string name; io >> name >> bytes;) {
    if (name == "wchar:") return bytes;
  }
  throw std::runtime_error("no /proc/self/io");
}

// Sums in parts, against numbers that are known: rank r has r + 1 plus the place of the element.
void reduce_to_owners() {
  const auto ranks = meet();
  const auto size = static_cast<size_t>(ranks->size());
  const auto rank = static_cast<size_t>(ranks->rank());
  std::vector<std::vector<int64_t>> cuts(size, std::vector<int64_t>(size));
  for (size_t owner = 0; owner < size; ++owner) cuts[owner][owner] = 200'000;  // one has all of it
  cuts.emplace_back(size, 50'000);                                             // rows, evenly
  for (auto& count : cuts.emplace_back(size)) count = 1000 * (&count - cuts.back().data());
  for (const auto& parts : cuts) {
    const int64_t count = std::accumulate(parts.begin(), parts.end(), int64_t{0});
    const auto places = torch::arange(count, torch::kFloat64);
    const Tensor tensor = places + static_cast<double>(rank + 1);
    const int64_t before = written_bytes();
    const auto sum = ranks->reduce_parts(tensor, parts);
    sum->wait();
    if (!sum->done()) throw std::logic_error("not done after wait()");
    std::vector<std::byte> bytes(size);
    ranks->gather(std::vector<std::byte>(1), bytes);  // when all have sent
    const int64_t sent = written_bytes() - before;
    const int64_t begin = std::accumulate(parts.begin(), parts.begin() + ranks->rank(), int64_t{0});
    const auto n = static_cast<double>(size);
    const auto own = [&](const Tensor& all) { return all.narrow(0, begin, parts[rank]); };
    if (!torch::equal(own(tensor), own(places * n + n * (n + 1) / 2))) {
      throw std::logic_error("a wrong sum");
    }
    std::cerr << "sent " << sent << " of " << (count - parts[rank]) * 8 << '\n';
  }
}

void fail_in_the_second_step() {
  const auto ranks = meet();
  Network network(torch::kFloat32);
  ClippedScion optimizer(network, options(ranks));
  for (int step = 0; step < 4; ++step) {
    ranks->set_activity("step " + std::to_string(step));
    set_same_gradients(network, step);
    if (step == 1 && ranks->rank() == 1) {
      if (variable("END") == "killed") raise(SIGKILL);
      if (variable("END") == "silent") {
        std::this_thread::sleep_for(3 * timeout);
        _exit(4);
      }
      ranks->fail("the disk is full");
      _exit(3);
    }
    if (variable("DOING") == "reducing") {
      const std::vector<int64_t> parts = {300'000, 300'000, 300'000};
      ranks->reduce_parts(torch::ones({900'000}), parts)->wait();
    }
    optimizer.step();
  }
}

void disagree() { meet({{"program", "normball 1"}, {"configuration", variable("CONFIGURATION")}}); }

void forget_something() {
  const auto ranks = meet();
  Network network(torch::kFloat32);
  ClippedScion optimizer(network, options(ranks));
  set_same_gradients(network, variable("FORGET") == "average" ? ranks->rank() : 0);
  if (variable("FORGET") == "weights" && ranks->rank() == 1) {
    const torch::NoGradGuard guard;
    network.parameters_in_order[2].add_(1);
  }
  if (variable("FORGET") == "gradient" && ranks->rank() == 1) {
    network.parameters_in_order[3].mutable_grad() = Tensor();
  }
  if (variable("FORGET") == "zero" && ranks->rank() == 1) optimizer.zero_grad();
  for (auto& tensor : network.parameters_in_order) {
    if (variable("FORGET") == "zero" && ranks->rank() == 1) tensor.mutable_grad() = Tensor();
  }
  if (variable("FORGET") == "shape" && ranks->rank() == 1) {
    network.parameters_in_order[3].mutable_grad() = torch::ones({1}).to_sparse();
  }
  const Tensor before = network.parameters_in_order[0].detach().clone();
  try {
    optimizer.step();
    if (variable("FORGET") == "consolidate") torch::save(optimizer, in_directory("optimizer"));
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    if (variable("FORGET") != "consolidate" &&
        !torch::equal(before, network.parameters_in_order[0]))
      throw std::logic_error("a weight moved");
    return;
  }
  throw std::logic_error("no error");
}

// The second step has another loss in rank 1, the third a memory of its own: all refuse both.
void see_other_numbers() {
  const auto ranks = meet();
  Network network(torch::kFloat32);
  const auto optimizer = optimizer_for(network, ranks);
  const auto refused = [&](double loss) {
    try {
      optimizer->step(loss);
    } catch (const RanksError& error) {
      std::cerr << error.what() << '\n';
      return;
    }
    throw std::logic_error("no error");
  };
  set_same_gradients(network, 0);
  optimizer->step(2);
  const auto memory = optimizer->rule_memory();
  const Tensor before = network.parameters_in_order[0].detach().clone();
  refused(ranks->rank() == 1 ? 1.5 : 2);
  optimizer->set_steps_taken(1, ranks->rank() == 1 ? std::vector<double>{1, 1} : memory);
  refused(2);
  optimizer->set_steps_taken(1, memory);
  if (!torch::equal(before, network.parameters_in_order[0])) throw std::logic_error("moved");
  optimizer->step(2);
}

// The second and the third step begin with another start and another momentum in rank 1, the fourth
// with another count of steps: all refuse them.
void load_other_states() {
  const auto ranks = meet();
  Network network(torch::kFloat32);
  const auto optimizer = optimizer_for(network, ranks);
  for (int step = 0; step < 2; ++step) {
    set_same_gradients(network, step);
    optimizer->step();
  }
  optimizer->consolidate_state();
  const auto memory = optimizer->rule_memory();
  const Tensor before = network.parameters_in_order[0].detach().clone();
  const auto refused = [&] {
    try {
      optimizer->step();
    } catch (const RanksError& error) {
      std::cerr << error.what() << '\n';
      return;
    }
    throw std::logic_error("no error");
  };
  const float more = ranks->rank() == 1 ? 1 : 0;
  Tensor good;
  for (const std::string name :
       {"start.square", "momentum.square", "start.bias", "momentum.bias"}) {
    for (const bool other : {true, false}) {
      for (auto& [each, tensor] : optimizer->layer_state()) {
        if (each != name) continue;
        if (other) good = tensor.clone();
        tensor.copy_(other ? good + more : good);
      }
      optimizer->set_steps_taken(2, memory);
      if (other) refused();
    }
  }
  optimizer->set_steps_taken(ranks->rank() == 1 ? 3 : 2, memory);
  refused();
  optimizer->set_steps_taken(2, memory);
  if (!torch::equal(before, network.parameters_in_order[0])) throw std::logic_error("moved");
  optimizer->step();
}

const std::map<std::string, void (*)()> bodies = {{"take_steps", take_steps},
                                                  {"train_on_shares", train_on_shares},
                                                  {"bad_gradient", meet_a_bad_gradient},
                                                  {"fail", fail_in_the_second_step},
                                                  {"reduce", reduce_to_owners},
                                                  {"disagree", disagree},
                                                  {"forget", forget_something},
                                                  {"other_numbers", see_other_numbers},
                                                  {"other_states", load_other_states}};

int run_body(const std::string& name) {
  try {
    torch::set_num_threads(1);
    bodies.at(name)();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}

// ---------------------------------------------------------------- what is expected of them

void expect_all_well(const std::vector<RankResult>& results) {
  for (const auto& result : results) EXPECT_EQ(result.code, 0) << result.text;
}

void expect_texts(const std::vector<RankResult>& results, const std::vector<std::string>& parts) {
  for (size_t rank = 0; rank < results.size(); ++rank) {
    for (const auto& part : parts) {
      EXPECT_NE(results[rank].text.find(part), std::string::npos)
          << "rank " << rank << ", '" << part << "' not in: " << results[rank].text;
    }
  }
}

std::string weights_of(const TemporaryDirectory& directory, int rank) {
  return support::file_text(directory / ("weights" + std::to_string(rank)));
}

auto with(const Environment& more) {
  return [more](int, Environment& variables) {
    for (const auto& [name, value] : more) variables[name] = value;
  };
}
auto in_rank(int which, const Environment& more) {
  return [which, more](int rank, Environment& variables) {
    if (rank != which) return;
    for (const auto& [name, value] : more) variables[name] = value;
  };
}

TEST(Ranks, StepAsOneProcessToTheBit) {
  for (const auto& [type, overwrite, parts] :
       {std::tuple("float", "no", "no"), {"double", "yes", "no"}, {"float", "yes", "yes"}}) {
    const TemporaryDirectory directory;
    const auto how = with({{"TYPE", type}, {"OVERWRITE", overwrite}, {"PARTS", parts}});
    expect_all_well(run_ranks("take_steps", 1, directory.path(), how));
    const std::string alone = weights_of(directory, 0);
    ASSERT_FALSE(alone.empty());
    for (const int count : {2, 3, 4}) {
      expect_all_well(run_ranks("take_steps", count, directory.path(), how));
      for (int rank = 0; rank < count; ++rank) EXPECT_TRUE(weights_of(directory, rank) == alone);
    }
  }
}

TEST(Ranks, AStateOfFourGoesOnInOneAndInThree) {
  const TemporaryDirectory directory, whole;
  expect_all_well(run_ranks("take_steps", 1, whole.path(), with({{"TO", "6"}})));
  expect_all_well(run_ranks("take_steps", 4, directory.path(), with({{"TO", "2"}})));
  expect_all_well(run_ranks("take_steps", 1, directory.path(), with({{"FROM", "2"}, {"TO", "4"}})));
  expect_all_well(run_ranks("take_steps", 3, directory.path(), with({{"FROM", "4"}, {"TO", "6"}})));
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(weights_of(directory, rank), weights_of(whole, 0));
}

// The head and the bias are small and everywhere, the rest is divided.
TEST(Ranks, KeepTheirPartOfTheMomenta) {
  const TemporaryDirectory directory;
  const auto momenta = [&](int count) {
    std::vector<int64_t> bytes;
    for (const auto& result : run_ranks("take_steps", count, directory.path())) {
      EXPECT_EQ(result.code, 0) << result.text;
      bytes.push_back(std::stoll(result.text.substr(result.text.find("momenta: ") + 9)));
    }
    return bytes;
  };
  const int64_t whole = momenta(1).front();
  constexpr int64_t everywhere = 85 * sizeof(float), table = 3000 * 64 * sizeof(float);
  for (const int count : {2, 3}) {
    const auto bytes = momenta(count);
    const int64_t sum = std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
    EXPECT_EQ(sum, whole + (count - 1) * everywhere);
    EXPECT_NEAR(static_cast<double>(bytes[count == 2 ? 0 : 1]), table * 2048 / 3000, 6000);
  }
}

// As many bytes as there are elements of others, and what the messages take.
void expect_reduced(int count, double most_more) {
  const TemporaryDirectory directory;
  const auto results = run_ranks("reduce", count, directory.path());
  expect_all_well(results);
  double sent = 0, wanted = 0;
  for (const auto& result : results) {
    std::istringstream text(result.text);
    double own = 0, own_wanted = 0;
    for (std::string word, of; text >> word >> own >> of >> own_wanted;) {
      sent += own;
      wanted += own_wanted;
    }
  }
  EXPECT_GE(sent, wanted) << count;
  EXPECT_LE(sent, most_more * wanted) << count;
}

TEST(Ranks, ReduceToOwnersAndSendNoMoreThanThat) {
  for (const int count : {2, 3, 4}) expect_reduced(count, 1.01);
}

TEST(Ranks, ThatAreManyReduceAroundARing) { expect_reduced(13, 1.1); }

TEST(Ranks, StepsizesFindTheSameAsInOneProcessAlsoResumed) {
  for (const std::string stepsize :
       {"adagrad", "distance_aware", "momo(f_star=0.1)", "auto_clipped"}) {
    const TemporaryDirectory directory, whole;
    const auto from_to = [&](const std::string& from, const std::string& to) {
      return with({{"STEPSIZE", stepsize}, {"FROM", from}, {"TO", to}});
    };
    expect_all_well(run_ranks("take_steps", 1, whole.path(), from_to("0", "5")));
    expect_all_well(run_ranks("take_steps", 3, directory.path(), from_to("0", "3")));
    expect_all_well(run_ranks("take_steps", 2, directory.path(), from_to("3", "5")));
    ASSERT_FALSE(weights_of(whole, 0).empty());
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_TRUE(weights_of(directory, rank) == weights_of(whole, 0)) << stepsize;
    }
  }
}

TEST(Ranks, OtherNumbersForTheStepsizeAreRefusedByAll) {
  const TemporaryDirectory directory;
  const auto results =
      run_ranks("other_numbers", 2, directory.path(), with({{"STEPSIZE", "momo"}}));
  expect_all_well(results);
  expect_texts(results, {"the loss in rank 1 is 1.5, in rank 0 2", "batches together",
                         "in rank 1 has seen other steps", "same checkpoint"});
}

TEST(Ranks, OtherStartsMomentaAndCountsOfStepsAreRefusedByAll) {
  const TemporaryDirectory directory;
  const auto results =
      run_ranks("other_states", 2, directory.path(), with({{"STEPSIZE", "distance_aware"}}));
  expect_all_well(results);
  expect_texts(results, {"the start of 'square' in rank 1 is not that of rank 0",
                         "the momentum of 'square' in rank 1", "the start of 'bias' in rank 1",
                         "the momentum of 'bias' in rank 1", "load the same checkpoint",
                         "rank 1 has taken 3 steps, rank 0 2"});
}

template <class T>
double largest_difference(const std::string& a, const std::string& b) {
  EXPECT_EQ(a.size(), b.size());
  const auto count = a.size() / sizeof(T);
  const auto* x = reinterpret_cast<const T*>(a.data());
  const auto* y = reinterpret_cast<const T*>(b.data());
  double most = 0;
  for (size_t i = 0; i < count; ++i) most = std::max(most, std::abs(double{x[i]} - double{y[i]}));
  return most;
}

TEST(Ranks, SharesOfABatchTrainAsTheWholeBatch) {
  for (const std::string type : {"float", "double"}) {
    const TemporaryDirectory directory;
    const auto how = with({{"TYPE", type}, {"PARTS", type == "double" ? "yes" : "no"}});
    expect_all_well(run_ranks("train_on_shares", 1, directory.path(), how));
    const std::string alone = weights_of(directory, 0);
    for (const int count : {2, 3, 4}) {
      expect_all_well(run_ranks("train_on_shares", count, directory.path(), how));
      const std::string shared = weights_of(directory, count - 1);
      if (type == "double") {
        EXPECT_LT(largest_difference<double>(shared, alone), 1e-12) << count;
      } else {
        EXPECT_LT(largest_difference<float>(shared, alone), 2e-5) << count;
      }
      for (int rank = 1; rank < count; ++rank) {
        EXPECT_EQ(weights_of(directory, rank), weights_of(directory, 0));
      }
    }
  }
}

TEST(Ranks, ABadGradientInOneStopsAllAndNamesItsRankAndParameter) {
  const TemporaryDirectory directory;
  expect_all_well(run_ranks("bad_gradient", 1, directory.path()));
  const std::string alone = weights_of(directory, 0);
  // In rank 1, which all find; or which one owner finds, and then it matters only there.
  for (const auto& [bad, name] : {std::pair("5", "'table'"), {"6", "'head'"}, {"7", "'bias'"}}) {
    const auto results = run_ranks("bad_gradient", 3, directory.path(), with({{"BAD", bad}}));
    expect_all_well(results);
    expect_texts(results, {"rank 1", "gradient", name});
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(weights_of(directory, rank), alone);
  }
}

TEST(Ranks, AKilledRankIsNamedByAllWithinTheTimeout) {
  const TemporaryDirectory directory;
  const auto results = run_ranks("fail", 3, directory.path(), with({{"END", "killed"}}));
  EXPECT_EQ(results[1].code, -SIGKILL);
  for (const int rank : {0, 2}) {
    const RankResult& other = results[static_cast<size_t>(rank)];
    EXPECT_EQ(other.code, 1);
    expect_texts({other}, {"rank 1 ended or does not answer", "at step 1"});
    EXPECT_LT(other.seconds, 20);
  }
}

TEST(Ranks, ARankThatIsLostWhileGradientsAreReducedIsNamed) {
  for (const std::string end : {"killed", "silent"}) {
    const TemporaryDirectory directory;
    const auto start = std::chrono::steady_clock::now();
    const auto results = run_ranks("fail", 3, directory.path(), [&](int, Environment& own) {
      own["END"] = end;
      own["DOING"] = "reducing";
    });
    for (const int rank : {0, 2}) {
      const RankResult& other = results[static_cast<size_t>(rank)];
      EXPECT_EQ(other.code, 1);
      expect_texts({other}, {"rank 1 ended or does not answer", "at step 1"});
      EXPECT_LT(other.seconds, 20);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(40));
  }
}

TEST(Ranks, ARankThatFailsTellsAllWhy) {
  const TemporaryDirectory directory;
  const auto results = run_ranks("fail", 3, directory.path(), with({{"END", "reason"}}));
  EXPECT_EQ(results[1].code, 3);
  expect_texts({results[0], results[2]}, {"rank 1: the disk is full"});
}

TEST(Ranks, AnotherConfigurationIsRefusedByAll) {
  const TemporaryDirectory directory;
  const auto results = run_ranks("disagree", 3, directory.path(), [](int rank, Environment& own) {
    own["CONFIGURATION"] = rank == 2 ? "lr = 1\nrho = 3" : "lr = 1\nrho = 2";
  });
  for (const auto& result : results) EXPECT_EQ(result.code, 1);
  expect_texts(results, {"rank 2", "another configuration than rank 0", "rho = 3", "rho = 2"});
}

TEST(Ranks, WhatAProgramForgetsIsSaid) {
  const TemporaryDirectory directory;
  const auto expect = [&](const std::string& what, const std::vector<std::string>& parts) {
    const auto results = run_ranks("forget", 2, directory.path(), with({{"FORGET", what}}));
    expect_all_well(results);
    expect_texts(results, parts);
  };
  expect("average", {"the gradient of 'first' in rank 1", "average the gradients"});
  expect("weights", {"the weight of 'square' in rank 1", "same weights"});
  expect("gradient", {"in rank 1", "gradient of 'wide'"});
  expect("zero", {"rank 1 has no gradient at all"});
  expect("shape", {"the gradient of 'wide'", "sparse"});
  expect("consolidate", {"consolidate_state()"});
}

// A socket that listens and never answers.
struct TakenPort {
  int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  int port = 0;
  TakenPort() {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    EXPECT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(socket, 5), 0);
    socklen_t size = sizeof address;
    getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
  }
  ~TakenPort() { close(socket); }
};

TEST(Ranks, ATakenPortIsNamed) {
  const TemporaryDirectory directory;
  const TakenPort taken;
  const auto results = run_ranks("disagree", 1, directory.path(), [&](int, Environment& own) {
    own = {{"RANK", "0"},
           {"WORLD_SIZE", "2"},
           {"MASTER_ADDR", "127.0.0.1"},
           {"MASTER_PORT", std::to_string(taken.port)}};
  });
  EXPECT_EQ(results[0].code, 1);
  expect_texts(results, {"port " + std::to_string(taken.port), "MASTER_PORT"});
}

TEST(Ranks, MeetAtAPortToo) {
  int port = 0;
  { port = TakenPort().port; }
  const TemporaryDirectory directory;
  expect_all_well(run_ranks("disagree", 3, directory.path(), [&](int, Environment& own) {
    own.erase("NORMBALL_STORE");
    own["MASTER_PORT"] = std::to_string(port);
  }));
}

TEST(Ranks, ThatDoNotComeAreNamed) {
  const TemporaryDirectory directory;
  const auto results = run_ranks("disagree", 2, directory.path(),
                                 [](int, Environment& own) { own["WORLD_SIZE"] = "4"; });
  for (const auto& result : results) EXPECT_EQ(result.code, 1);
  expect_texts(results, {"of 4 ranks these did not join", "2 3"});
}

TEST(Ranks, AMissingInterfaceIsNamed) {
  const TemporaryDirectory directory;
  const auto results =
      run_ranks("disagree", 2, directory.path(), in_rank(1, {{"GLOO_SOCKET_IFNAME", "nope0"}}));
  expect_texts({results[1]}, {"rank 1", "GLOO_SOCKET_IFNAME"});
  EXPECT_EQ(results[1].code, 1);
}

std::optional<Place> place_in(const Environment& variables) {
  return normball::ranks::find_place([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(Place, IsAsEveryLauncherSaysIt) {
  EXPECT_FALSE(place_in({}));
  EXPECT_FALSE(place_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  const auto torchrun = place_in({{"RANK", "3"},
                                  {"WORLD_SIZE", "4"},
                                  {"LOCAL_RANK", "1"},
                                  {"LOCAL_WORLD_SIZE", "2"},
                                  {"MASTER_ADDR", "a"},
                                  {"MASTER_PORT", "1234"},
                                  {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                  {"TORCHELASTIC_RESTART_COUNT", "2"}});
  ASSERT_TRUE(torchrun);
  EXPECT_EQ(torchrun->rank, 3);
  EXPECT_EQ(torchrun->local_rank, 1);
  EXPECT_EQ(torchrun->address, "a");
  EXPECT_EQ(torchrun->port, 1234);
  EXPECT_TRUE(torchrun->port_is_open);
  EXPECT_EQ(torchrun->attempt, "2");

  const auto openmpi = place_in({{"OMPI_COMM_WORLD_RANK", "1"},
                                 {"OMPI_COMM_WORLD_SIZE", "2"},
                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  ASSERT_TRUE(openmpi);
  EXPECT_EQ(openmpi->rank, 1);
  EXPECT_EQ(openmpi->address, "127.0.0.1");
  EXPECT_FALSE(openmpi->port_is_open);

  const auto mpich = place_in({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}, {"MASTER_ADDR", "head"}});
  ASSERT_TRUE(mpich);
  EXPECT_EQ(mpich->size, 3);
  EXPECT_EQ(mpich->address, "head");

  const auto slurm = place_in({{"SLURM_PROCID", "5"},
                               {"SLURM_STEP_NUM_TASKS", "8"},
                               {"SLURM_LOCALID", "1"},
                               {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                               {"SLURM_STEP_NODELIST", "gpu[03-07,12]"}});
  ASSERT_TRUE(slurm);
  EXPECT_EQ(slurm->rank, 5);
  EXPECT_EQ(slurm->local_size, 4);
  EXPECT_EQ(slurm->address, "gpu03");
  // The batch script itself is no task.
  EXPECT_FALSE(place_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}));
}

TEST(Place, ThatIsIncompleteIsRefused) {
  const auto expect = [](const Environment& variables, const std::vector<std::string>& parts) {
    try {
      place_in(variables);
      ADD_FAILURE() << "no exception; expected " << parts.front();
    } catch (const std::invalid_argument& error) {
      for (const auto& part : parts) {
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      }
    }
  };
  expect({{"WORLD_SIZE", "2"}}, {"WORLD_SIZE is 2", "no RANK"});
  expect({{"WORLD_SIZE", "2"}, {"RANK", "2"}}, {"RANK", "from 0 to 1", "'2'"});
  expect({{"WORLD_SIZE", "two"}}, {"WORLD_SIZE", "'two'"});
  expect({{"PMI_SIZE", "4"}, {"PMI_RANK", "1"}}, {"MASTER_ADDR"});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 0 && std::string(argv[0]) == "rank") return run_body(argv[1]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
