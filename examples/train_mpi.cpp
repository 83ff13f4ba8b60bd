// Several processes over MPI alone, without LibTorch: mpirun -n 2 train_mpi
//
// Each has all weights and a part of the batch. The gradients are summed over all, every matrix's
// direction is found by one of them and sent to the others while the next ones are still sought.
// The weights are those of one process, to the bit: a second optimizer checks it.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <vector>

#include "normball/normball.h"
#include "normball/peers.h"

using normball::MatrixView;

class MpiPeers final : public normball::Peers<float> {
 public:
  MpiPeers(const std::vector<normball::Layer>& layers, int rank, int size)
      : rank_(rank),
        size_(size),
        owners_(normball::share_layers(layers, size)),
        order_(normball::sending_order(layers, owners_)) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int owner(size_t layer) const override { return owners_[layer]; }

  void gather(std::span<const std::byte> own, std::span<std::byte> all) override {
    const int bytes = static_cast<int>(own.size());
    MPI_Allgather(own.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, MPI_COMM_WORLD);
  }
  void start(std::span<const MatrixView<float>> directions) override {
    const std::lock_guard lock(mutex_);
    directions_.assign(directions.begin(), directions.end());
    found_.assign(directions.size(), 0);
    next_ = 0;
    send_on(false);
  }
  void found(size_t layer) override {  // by any thread
    const std::lock_guard lock(mutex_);
    found_[layer] = 1;
    send_on(false);
  }
  void wait() override {
    const std::lock_guard lock(mutex_);
    send_on(true);
    MPI_Waitall(static_cast<int>(sent_.size()), sent_.data(), MPI_STATUSES_IGNORE);
    sent_.clear();
  }

 private:
  // All processes must send in the same order, so what is found early waits for its turn. The
  // matrices of this program are contiguous; parts of larger ones would need an MPI_Type_vector.
  void send_on(bool all) {
    for (; next_ < order_.size(); ++next_) {
      const size_t layer = order_[next_];
      const auto& matrix = directions_[layer];
      if (matrix.empty()) continue;
      if (owners_[layer] == rank_ && found_[layer] == 0 && !all) return;
      MPI_Ibcast(matrix.data, static_cast<int>(matrix.size()), MPI_FLOAT, owners_[layer],
                 MPI_COMM_WORLD, &sent_.emplace_back());
    }
  }

  int rank_, size_;
  std::vector<int> owners_;
  std::vector<size_t> order_;
  std::mutex mutex_;
  std::vector<MatrixView<float>> directions_;
  std::vector<char> found_;
  size_t next_ = 0;
  std::vector<MPI_Request> sent_;
};

// Matrices W_l that learn A_l from examples: ½ mean over x of ‖(W_l − A_l) x‖².
struct Problem {
  std::vector<normball::Layer> layers;
  std::vector<std::vector<float>> targets, weights, gradients;

  Problem() {
    normball::Random random(1);
    for (const auto& [rows, cols] : {std::pair{24, 16}, {16, 16}, {8, 32}, {12, 20}}) {
      layers.push_back({.name = std::to_string(layers.size()),
                        .shape = {rows, cols},
                        .norm = normball::Spectral{},
                        .radius = 2});
      auto& target = targets.emplace_back(static_cast<size_t>(rows * cols));
      for (float& entry : target) entry = static_cast<float>(random.normal());
      weights.emplace_back(target.size());
      gradients.emplace_back(target.size());
    }
  }

  // Adds the gradient of examples [first, end) of a batch, and returns their loss.
  float add_gradients(int step, int first, int end, int batch) {
    float loss = 0;
    for (size_t l = 0; l < layers.size(); ++l) {
      const auto rows = static_cast<size_t>(layers[l].shape.rows);
      const auto cols = static_cast<size_t>(layers[l].shape.cols);
      for (int example = first; example < end; ++example) {
        normball::Random random(static_cast<std::uint64_t>(1000 * step + example));
        std::vector<float> x(cols);
        for (float& entry : x) entry = static_cast<float>(random.normal());
        for (size_t i = 0; i < rows; ++i) {
          float error = 0;
          for (size_t j = 0; j < cols; ++j) {
            error += (weights[l][i * cols + j] - targets[l][i * cols + j]) * x[j];
          }
          error /= static_cast<float>(batch);
          loss += error * error * static_cast<float>(batch) / 2;
          for (size_t j = 0; j < cols; ++j) gradients[l][i * cols + j] += error * x[j];
        }
      }
    }
    return loss;
  }

  std::vector<normball::Parameter<float>> parameters() {
    std::vector<normball::Parameter<float>> result;
    for (size_t l = 0; l < layers.size(); ++l) {
      const auto [rows, cols] = std::pair(layers[l].shape.rows, layers[l].shape.cols);
      result.push_back({{weights[l].data(), rows, cols}, {gradients[l].data(), rows, cols}});
    }
    return result;
  }
};

int main(int argc, char** argv) {
  int threads = 0, rank = 0, size = 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &threads);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);

  Problem shared, alone;  // the same weights in all processes
  const auto method = normball::unconstrained_clipped_scion(/*lr=*/0.1, /*alpha=*/0.5, /*rho=*/4);
  normball::Optimizer<float> together(method, shared.layers, {},
                                      std::make_shared<MpiPeers>(shared.layers, rank, size));
  normball::Optimizer<float> check(method, alone.layers);
  constexpr int batch = 64, steps = 200;
  float first = 0, loss = 0;
  for (int step = 0; step < steps; ++step) {
    for (auto& gradient : shared.gradients) std::ranges::fill(gradient, 0.0f);
    loss = shared.add_gradients(step, batch * rank / size, batch * (rank + 1) / size, batch);
    MPI_Allreduce(MPI_IN_PLACE, &loss, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    // To all, for the check below. Where nobody else needs them, MPI_Reduce_scatter with the counts
    // of normball::gradient_parts() sends half as much.
    for (auto& gradient : shared.gradients) {
      MPI_Allreduce(MPI_IN_PLACE, gradient.data(), static_cast<int>(gradient.size()), MPI_FLOAT,
                    MPI_SUM, MPI_COMM_WORLD);
    }
    if (step == 0) first = loss;
    alone.gradients = shared.gradients;
    const auto& report = together.step(shared.parameters());
    check.step(alone.parameters());
    if (rank == 0 && step % 50 == 0) {
      std::printf("step %3d  loss %.2e  s %.2e on %d processes\n", step, loss, report.pairing,
                  size);
    }
  }
  const bool good = shared.weights == alone.weights && loss < 0.01f * first;
  if (!good) std::fprintf(stderr, "rank %d: loss %g of %g\n", rank, loss, first);
  MPI_Finalize();
  return good ? 0 : 1;
}
