#include "benchmarks/ranks_task.h"

#include <sys/resource.h>

#include <fstream>
#include <sstream>

#include "benchmarks/measure.h"
#include "benchmarks/parameter_sets.h"
#include "benchmarks/training_task.h"
#include "normball/base/error.h"
#include "normball/base/text.h"

namespace normball::benchmarks {
namespace {

using torch::Tensor;

constexpr std::int64_t link_elements = 1 << 23;  // 32 MiB
constexpr int link_rounds = 5;

// Written by this process, to whatever it was.
double written_bytes() {
  std::ifstream io("/proc/self/io");
  double bytes = 0;
  for (std::string name; io >> name >> bytes;) {
    if (name == "wchar:") return bytes;
  }
  return 0;
}

double processor_seconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

MatrixView<float> view_of(const Tensor& tensor, const Shape& shape) {
  if (!tensor.is_contiguous() || tensor.numel() != shape.size()) {
    throw_invalid("bench ranks", "a tensor is not the contiguous ", shape.rows, "x", shape.cols,
                  " matrix of its layer");
  }
  return {tensor.data_ptr<float>(), shape.rows, shape.cols};
}

}  // namespace

std::string to_text(const RankFigures& f) {
  std::ostringstream out;
  out.precision(12);
  for (const double figure : {f.seconds, f.processor, f.passes, f.gradients, f.optimizer, f.lmos,
                              f.directions, f.sent_bytes, f.state_bytes}) {
    out << figure << ' ';
  }
  return out.str();
}

RankFigures parse_figures(const std::string& text) {
  RankFigures f;
  std::istringstream in(text);
  for (double* figure : {&f.seconds, &f.processor, &f.passes, &f.gradients, &f.optimizer, &f.lmos,
                         &f.directions, &f.sent_bytes, &f.state_bytes}) {
    if (!(in >> *figure)) throw_invalid("bench ranks", "a rank answered '", text, "'");
  }
  return f;
}

const std::vector<std::string_view>& RanksTask::cases() {
  static const std::vector<std::string_view> names = {"gpt-bytes", "gpt2-124m"};
  return names;
}

RanksTask::RanksTask(const trainer::train::Team& team, std::string_view name, int threads,
                     const std::string& solver)
    : team_(team) {
  const auto polar = parse_polar_solver(solver);
  const std::int64_t rank = team.rank(), size = team.size();
  torch::manual_seed(static_cast<std::uint64_t>(rank));
  if (name == "gpt-bytes") {
    sequences_ = (rank + 1) * gpt_bytes_batch / size - rank * gpt_bytes_batch / size;
    if (gpt_bytes_batch < size) {
      throw_invalid("bench ranks", "gpt-bytes has a batch of ", gpt_bytes_batch,
                    ": so many ranks at most, got ", size);
    }
    model_ = gpt_bytes_model();
    Random random(0);
    model_->initialize(random);
    parameters_ = model_->parameters();
    for (const auto& parameter : parameters_) {
      const bool hidden = parameter.role == Role::Hidden;
      layers_.push_back({.name = parameter.name,
                         .shape = {parameter.tensor.size(0), parameter.tensor.size(1)},
                         .norm = hidden ? Norm(Spectral{.solver = polar}) : Norm(Sign{}),
                         .radius = hidden ? 10.0 : 1000.0});
    }
  } else {
    layers_ = parameter_set(name).layers;
    for (auto& layer : layers_) {
      if (auto* spectral = std::get_if<Spectral>(&layer.norm)) spectral->solver = polar;
      const auto [rows, cols] = std::pair(layer.shape.rows, layer.shape.cols);
      parameters_.push_back({.name = layer.name, .tensor = torch::zeros({rows, cols})});
      parameters_.back().tensor.set_requires_grad(true);
      given_.push_back(torch::randn({rows, cols}) / static_cast<double>(size));
    }
  }
  peers_ = std::make_shared<TimedPeers>(team.ranks(), layers_);
  if (!team.alone()) {
    sum_ = std::make_unique<trainer::train::GradientSum>(team, parameters_);
    std::vector<std::vector<std::int64_t>> parts;
    for (size_t l = 0; l < layers_.size(); ++l) {
      parts.push_back(gradient_parts(layers_[l].shape, peers_->owner(l), team.size()));
    }
    sum_->divide(std::move(parts));
  }
  optimizer_ = std::make_unique<Optimizer<float>>(
      unconstrained_clipped_scion(1e-4, 0.1, 100), layers_,
      Execution{.threads = threads, .overwrite_gradients = true}, peers_);
}

// From a batch of this rank's own to the gradient of its part of the mean.
void RanksTask::pass() {
  const auto batch = gpt_bytes_batch_of(sequences_);
  const auto outcome = model_->forward(batch);
  if (!std::isfinite(outcome.loss.item<double>())) {
    throw_invalid("bench ranks", "the loss is not finite");
  }
  if (sum_) sum_->expect_last_pass();
  (outcome.loss * (static_cast<double>(sequences_) / gpt_bytes_batch)).backward();
}

RankFigures RanksTask::run() {
  for (size_t i = 0; i < given_.size(); ++i) {
    auto& gradient = parameters_[i].tensor.mutable_grad();
    gradient.defined() ? static_cast<void>(gradient.copy_(given_[i]))
                       : static_cast<void>(gradient = given_[i].clone());
  }
  if (model_) model_->zero_grad();
  RankFigures figures;
  team_.gather(char{0});  // all start together
  const double written = written_bytes(), processor = processor_seconds();
  figures.seconds = time_once([&] {
    if (model_) figures.passes = time_once([&] { pass(); });
    if (sum_) {
      figures.gradients = time_once([&] { sum_->finish(); });
      team_.gather(figures);  // as the trainer tells all of losses and of what was not finite
    }
    std::vector<Parameter<float>> parameters;
    for (size_t l = 0; l < layers_.size(); ++l) {
      const Tensor& tensor = parameters_[l].tensor;
      parameters.push_back(
          {view_of(tensor, layers_[l].shape), view_of(tensor.grad(), layers_[l].shape)});
    }
    figures.optimizer = time_once([&] { optimizer_->step(parameters); });
  });
  figures.processor = processor_seconds() - processor;
  figures.sent_bytes = written_bytes() - written;
  figures.lmos = peers_->lmos();
  figures.directions = peers_->waited();
  for (const auto& buffer : optimizer_->state()) {
    figures.state_bytes += static_cast<double>(buffer.view.size()) * sizeof(float);
  }
  return figures;
}

RanksTask::Speed RanksTask::measure_link() const {
  if (team_.alone()) return {};
  const auto best = [&](std::int64_t elements) {
    const auto tensor = torch::zeros({elements});
    double seconds = HUGE_VAL;
    for (int i = 0; i < link_rounds; ++i) {
      team_.gather(char{0});
      seconds = std::min(seconds, time_once([&] { team_.sum(tensor); }));
    }
    return seconds;
  };
  // A sum takes 2(N-1) messages, of 1/N of the bytes each.
  const double messages = 2.0 * (team_.size() - 1), small = best(team_.size());
  const double bytes = messages / team_.size() * link_elements * sizeof(float);
  return {bytes / (best(link_elements) - small), small / messages};
}

}  // namespace normball::benchmarks
