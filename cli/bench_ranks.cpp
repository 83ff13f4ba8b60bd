#include "cli/bench_ranks.h"

#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "benchmarks/line_process.h"
#include "benchmarks/lmo_times.h"
#include "benchmarks/ranks_model.h"
#include "benchmarks/ranks_task.h"
#include "cli/doctor_head.h"
#include "cli/meeting_place.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "normball/base/error.h"
#include "normball/base/processor.h"
#include "normball/base/text.h"
#include "trainer/runtime/tensor_memory.h"
#include "trainer/runtime/threads.h"

namespace normball::cli {
namespace {

using benchmarks::LineProcess;
using benchmarks::Link;
using benchmarks::RankFigures;
using benchmarks::RanksTask;
using benchmarks::RanksWork;
using nlohmann::json;

constexpr double megabyte = 1e6;

// Of all ranks in one step.
struct StepFigures {
  RankFigures slowest;  // in each of its times, and sent and kept on average
  double mean_lmos = 0;
  double most_processor = 0;
};

StepFigures together(const std::vector<RankFigures>& ranks) {
  StepFigures step;
  const auto count = static_cast<double>(ranks.size());
  for (const auto& rank : ranks) {
    for (const auto time : {&RankFigures::seconds, &RankFigures::passes, &RankFigures::gradients,
                            &RankFigures::optimizer, &RankFigures::lmos, &RankFigures::directions,
                            &RankFigures::processor}) {
      step.slowest.*time = std::max(step.slowest.*time, rank.*time);
    }
    step.mean_lmos += rank.lmos / count;
    step.slowest.sent_bytes += rank.sent_bytes / count;
    step.slowest.state_bytes = std::max(step.slowest.state_bytes, rank.state_bytes);
  }
  return step;
}

// The ranks of one program, which take their steps together when they are told to.
class RanksSide {
 public:
  void add(std::vector<std::string> command) {
    processes_.push_back(std::make_unique<LineProcess>(std::move(command)));
  }
  size_t size() const { return processes_.size(); }

  void step() {
    std::vector<RankFigures> figures;
    for (const auto& answer : ask("step")) figures.push_back(benchmarks::parse_figures(answer));
    const StepFigures step = together(figures);
    processor_ = std::min(processor_, step.slowest.processor);
    if (step.slowest.seconds < best_.slowest.seconds) {
      best_ = step;
      lmos_.clear();
      for (const auto& rank : figures) lmos_.push_back(rank.lmos);
    }
  }
  Link link() {
    std::istringstream answer(ask("link").front());
    Link link;
    answer >> link.bytes_per_second >> link.latency;
    return link;
  }
  const RankFigures& best() const { return best_.slowest; }
  const std::vector<double>& lmos() const { return lmos_; }  // of each rank
  double balance() const {
    return best_.slowest.lmos > 0 ? best_.mean_lmos / best_.slowest.lmos : 1;
  }
  double processor() const { return processor_; }  // of the rank with most, in the least step

 private:
  std::vector<std::string> ask(const std::string& line) {
    for (const auto& process : processes_) process->tell(line);
    std::vector<std::string> answers;
    for (const auto& process : processes_) answers.push_back(process->answer());
    return answers;
  }

  std::vector<std::unique_ptr<LineProcess>> processes_;
  StepFigures best_{.slowest = {.seconds = HUGE_VAL}};
  std::vector<double> lmos_;
  double processor_ = HUGE_VAL;
};

std::vector<std::string> with_variables(int rank, int count, int threads,
                                        const std::string& store) {
  const std::string size = std::to_string(count), number = std::to_string(rank);
  return {"env",
          "RANK=" + number,
          "LOCAL_RANK=" + number,
          "WORLD_SIZE=" + size,
          "LOCAL_WORLD_SIZE=" + size,
          "NORMBALL_STORE=" + store,
          "NORMBALL_TIMEOUT=3600",
          "GLOG_minloglevel=3",
          "TORCH_CPP_LOG_LEVEL=FATAL",
          "OMP_NUM_THREADS=" + std::to_string(threads)};
}

class RanksBench {
 public:
  RanksBench(const BenchRanks& options, std::string name)
      : options_(options), name_(std::move(name)) {}

  json run(Table& table) {
    const auto one = ours(1);
    std::vector<std::unique_ptr<RanksSide>> sides, peers;
    for (const int count : options_.ranks) {
      sides.push_back(ours(count));
      if (!options_.alone) peers.push_back(theirs(count));
    }
    for (int round = 0; round < options_.rounds; ++round) {
      one->step();
      for (const auto& side : sides) side->step();
      for (const auto& peer : peers) peer->step();
    }
    const RanksTask task(trainer::train::Team(), name_, options_.threads, options_.solver);
    work_ = work_of(task, one->best());
    json results = {{"case", name_}, {"one_rank", figures_of(*one)}};
    add_row(table, *one, *one, nullptr, {});
    for (size_t i = 0; i < sides.size(); ++i) {
      const Link link = sides[i]->link();
      json result = figures_of(*sides[i]);
      const double throughput = one->best().seconds / sides[i]->best().seconds;
      const int count = static_cast<int>(sides[i]->size());
      const auto forecast = forecast_of(link, count);
      result["link_bytes_per_second"] = link.bytes_per_second;
      result["link_latency"] = link.latency;
      result["forecast_seconds"] = forecast.seconds;
      result["table_bytes"] = forecast.sent_bytes;
      result["throughput"] = throughput;
      result["throughput_by_processor_time"] = one->processor() / sides[i]->processor();
      result["state_share"] = sides[i]->best().state_bytes / one->best().state_bytes;
      if (!peers.empty()) result["ddp"] = figures_of(*peers[i]);
      add_row(table, *sides[i], *one, peers.empty() ? nullptr : peers[i].get(), forecast);
      results["ranks"].push_back(std::move(result));
    }
    return results;
  }

 private:
  std::unique_ptr<RanksSide> ours(int count) {
    static const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    auto side = std::make_unique<RanksSide>();
    const auto& place = places_.emplace_back(std::make_unique<MeetingPlace>());
    for (int rank = 0; rank < count; ++rank) {
      auto words = with_variables(rank, count, options_.threads, place->store());
      for (const auto& word :
           {self, std::string("bench"), std::string("ranks"), std::string("--requests"), name_,
            std::string("--threads"), std::to_string(options_.threads), std::string("--solver"),
            options_.solver}) {
        words.push_back(word);
      }
      side->add(std::move(words));
    }
    return side;
  }

  std::unique_ptr<RanksSide> theirs(int count) {
    auto side = std::make_unique<RanksSide>();
    const auto& place = places_.emplace_back(std::make_unique<MeetingPlace>());
    for (int rank = 0; rank < count; ++rank) {
      auto words = with_variables(rank, count, options_.threads, place->store());
      for (const auto& word : {options_.python, options_.peer, name_, std::string("--threads"),
                               std::to_string(options_.threads)}) {
        words.push_back(word);
      }
      side->add(std::move(words));
    }
    return side;
  }

  // What one rank alone took, by layer: in proportion to single LMOs of Gaussian matrices.
  RanksWork work_of(const RanksTask& task, const RankFigures& one) const {
    const auto shapes = benchmarks::shapes_to_measure(task.layers(), 4096);
    const auto times = benchmarks::measure_lmos(shapes, parse_polar_solver(options_.solver),
                                                options_.threads, std::min(options_.rounds, 3));
    RanksWork work{.layers = task.layers(), .lmo_seconds = times.seconds(task.layers())};
    const double sum = std::accumulate(work.lmo_seconds.begin(), work.lmo_seconds.end(), 0.0);
    for (double& seconds : work.lmo_seconds) seconds *= one.lmos / sum;
    work.passes_seconds = one.passes;
    work.copy_bytes = 1;
    const double bytes = benchmarks::forecast(work, {}, 1).memory;  // at a byte a second
    work.copy_bytes = bytes / std::max(one.optimizer - one.lmos, 1e-9);
    return work;
  }

  // Ranks share the passes of one, and more threads than cores take turns.
  benchmarks::RanksForecast forecast_of(const Link& link, int count) const {
    RanksWork work = work_;
    const double turns =
        std::max(1.0, count * options_.threads / static_cast<double>(usable_cpus()));
    work.passes_seconds *= turns / count;
    for (double& seconds : work.lmo_seconds) seconds *= turns;
    work.copy_bytes /= turns;
    return benchmarks::forecast(work, link, count);
  }

  static json figures_of(const RanksSide& side) {
    const RankFigures& best = side.best();
    return {{"ranks", side.size()},
            {"seconds", best.seconds},
            {"passes_seconds", best.passes},
            {"exposed_gradients_seconds", best.gradients},
            {"optimizer_seconds", best.optimizer},
            {"lmo_seconds_by_owner", side.lmos()},
            {"balance", side.balance()},
            {"exposed_directions_seconds", best.directions},
            {"sent_bytes", best.sent_bytes},
            {"state_bytes", best.state_bytes},
            {"processor_seconds", side.processor()}};
  }

  void add_row(Table& table, const RanksSide& side, const RanksSide& one, const RanksSide* peer,
               const benchmarks::RanksForecast& forecast) const {
    const RankFigures& best = side.best();
    const auto ms = [](double seconds) { return printed("%.0f ms", seconds * 1e3); };
    const bool several = side.size() > 1;
    const bool told = best.sent_bytes > 0;
    std::vector<std::string> row = {
        name_,
        std::to_string(side.size()),
        ms(best.seconds),
        several ? printed("%.2f", one.best().seconds / best.seconds) : "",
        several ? printed("%.2f", one.processor() / side.processor()) : "",
        ms(best.passes),
        several ? ms(best.gradients) : "",
        ms(best.lmos),
        several ? printed("%.2f", side.balance()) : "",
        several ? ms(best.directions) : "",
        several && told ? printed("%.1f MB", best.sent_bytes / megabyte) : "",
        several && told ? printed("%.3f", best.sent_bytes / forecast.sent_bytes) : "",
        several ? printed("%.3f", best.state_bytes / one.best().state_bytes) : "",
        several ? ms(forecast.seconds) : ""};
    if (!options_.alone) {
      row.push_back(peer != nullptr ? ms(peer->best().seconds) : "");
      row.push_back(peer != nullptr ? printed("%.2f", peer->best().seconds / best.seconds) : "");
      row.push_back(peer != nullptr ? printed("%.2f", peer->processor() / side.processor()) : "");
    }
    table.add(std::move(row));
  }

  const BenchRanks& options_;
  std::string name_;
  std::vector<std::unique_ptr<MeetingPlace>> places_;
  RanksWork work_;
};

}  // namespace

void serve_rank(const BenchRanks& options) {
  trainer::runtime::use_threads(options.threads);
  trainer::runtime::keep_tensor_memory();
  const auto team = trainer::train::Team::find();
  try {
    team->agree_on({{"benchmark", options.requests + ' ' + options.solver}});
    RanksTask task(*team, options.requests, options.threads, options.solver);
    constexpr int warm_up = 2;  // until an average is one of several gradients
    for (int i = 0; i < warm_up; ++i) task.run();
    for (std::string line; std::getline(std::cin, line);) {
      if (line == "link") {
        const auto [rate, latency] = task.measure_link();
        std::cout << rate << ' ' << latency << std::endl;
      } else {
        std::cout << benchmarks::to_text(task.run()) << std::endl;
      }
    }
  } catch (const std::exception& error) {
    team->fail(error.what());
    throw;
  }
}

void measure_ranks(const BenchRanks& options) {
  if (!options.alone && !std::filesystem::exists(options.peer)) {
    throw_invalid("bench ranks", "no '", options.peer,
                  "' here; run from the source directory, name it with --peer, or leave "
                  "PyTorch out with --alone");
  }
  OutputFile file("bench ranks", options.json_file);
  std::cout << machine_head() << '\n'
            << "Steps on several local ranks with " << options.threads
            << (options.threads == 1 ? " thread" : " threads") << " each, float32, best of "
            << options.rounds << ", in turn with one rank" << (options.alone ? "" : " and with DDP")
            << "; polar factors: " << options.solver
            << ".\nTimes are those of the slowest rank; those of a best step are of the same "
               "step.\n\n"
            << std::flush;
  std::vector<std::string> header = {"case",
                                     "ranks",
                                     "step",
                                     "throughput",
                                     "by CPU",
                                     "passes",
                                     "waits: gradients",
                                     "LMOs",
                                     "balance",
                                     "waits: directions",
                                     "sent",
                                     "of table",
                                     "state",
                                     "forecast"};
  if (!options.alone) header.insert(header.end(), {"DDP", "times faster", "by CPU"});
  Table table(header);
  json results = {
      {"threads", options.threads}, {"rounds", options.rounds}, {"solver", options.solver}};
  for (const auto& name : options.cases) {
    std::cerr << "measuring " << name << '\n';
    results["cases"].push_back(RanksBench(options, name).run(table));
  }
  table.print(std::cout);
  std::cout << "\n\"By CPU\" compares the processor time of the rank with most of it, which other "
               "programs disturb least;\n\"forecast\" is what --simulate makes of the row of one "
               "rank and of the link.\n";
  const int wanted = options.threads * *std::ranges::max_element(options.ranks);
  if (wanted > usable_cpus()) {
    std::cout << wanted << " threads take turns on " << usable_cpus() << " cores here.\n";
  }
  file.write(results.dump(2) + '\n');
  if (!options.json_file.empty()) std::cout << "\nwritten to " << options.json_file << '\n';
}

}  // namespace normball::cli
