#include "normball_torch/ranks/shared_directions.h"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace normball::ranks {

template <class T>
SharedDirections<T>::SharedDirections(std::shared_ptr<Ranks> ranks, std::span<const Layer> layers,
                                      std::vector<int> owners)
    : ranks_(std::move(ranks)),
      owners_(std::move(owners)),
      order_(sending_order(layers, owners_)) {}

template <class T>
void SharedDirections<T>::start(std::span<const MatrixView<T>> directions) {
  const std::lock_guard lock(mutex_);
  directions_.assign(directions.begin(), directions.end());
  found_.assign(directions.size(), 0);
  next_ = 0;
  sent_.clear();
  copies_.clear();
  failure_ = nullptr;
  send_on(false);
}

template <class T>
void SharedDirections<T>::found(size_t layer) {
  const std::lock_guard lock(mutex_);
  found_[layer] = 1;
  send_on(false);
}

template <class T>
void SharedDirections<T>::wait() {
  const std::lock_guard lock(mutex_);
  send_on(true);
  wait_for(std::exchange(sent_, {}));
  if (failure_) std::rethrow_exception(failure_);
  for (const auto& [tensor, to] : copies_) {
    const T* const from = tensor.template data_ptr<T>();
    for (Index i = 0; i < to.rows; ++i) std::copy_n(from + i * to.cols, to.cols, to.row(i));
  }
}

// Errors wait for wait(): a thread that finds directions has nobody to throw to.
template <class T>
void SharedDirections<T>::send_on(bool all) {
  try {
    for (; next_ < order_.size() && !failure_; ++next_) {
      const size_t layer = order_[next_];
      if (directions_[layer].empty()) continue;
      if (owners_[layer] == rank() && found_[layer] == 0 && !all) return;
      send(layer);
    }
  } catch (...) {
    failure_ = std::current_exception();
  }
}

template <class T>
void SharedDirections<T>::send(size_t layer) {
  constexpr auto type = std::is_same_v<T, float> ? ::torch::kFloat32 : ::torch::kFloat64;
  const MatrixView<T> view = directions_[layer];
  ::torch::Tensor tensor;
  if (view.contiguous()) {
    tensor = ::torch::from_blob(view.data, {view.rows, view.cols}, type);
  } else {
    const bool own = owners_[layer] == rank();
    tensor = ::torch::empty({view.rows, view.cols}, type);
    T* const to = tensor.template data_ptr<T>();
    for (Index i = 0; own && i < view.rows; ++i) {
      std::copy_n(view.row(i), view.cols, to + i * view.cols);
    }
    copies_.push_back({tensor, own ? MatrixView<T>{} : view});
  }
  sent_.push_back(ranks_->broadcast(tensor, owners_[layer]));
}

template class SharedDirections<float>;
template class SharedDirections<double>;

}  // namespace normball::ranks
