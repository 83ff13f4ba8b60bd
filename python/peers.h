// The core's peers on a transport written in Python: torch.distributed there, so that this module
// needs no link to torch.
#pragma once

#include <pybind11/numpy.h>

#include <utility>
#include <vector>

#include "normball/peers.h"

namespace normball::python {

// `transport` has rank, size, owners (one for each layer), gather(own, all) on memory,
// start(arrays), found(layer) and wait(). The core calls them with the GIL released, and found()
// from any thread.
template <class T>
class PythonPeers final : public Peers<T> {
 public:
  explicit PythonPeers(pybind11::object transport)
      : transport_(std::move(transport)),
        rank_(transport_.attr("rank").template cast<int>()),
        size_(transport_.attr("size").template cast<int>()),
        owners_(transport_.attr("owners").template cast<std::vector<int>>()) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int owner(size_t layer) const override { return owners_.at(layer); }

  void gather(std::span<const std::byte> own, std::span<std::byte> all) override {
    const pybind11::gil_scoped_acquire gil;
    const auto length = [](auto span) { return static_cast<pybind11::ssize_t>(span.size()); };
    transport_.attr("gather")(
        pybind11::memoryview::from_memory(static_cast<const void*>(own.data()), length(own)),
        pybind11::memoryview::from_memory(static_cast<void*>(all.data()), length(all)));
  }

  void start(std::span<const MatrixView<T>> directions) override {
    const pybind11::gil_scoped_acquire gil;
    pybind11::list arrays;
    for (const auto& view : directions) {
      if (view.empty()) {
        arrays.append(pybind11::none());
        continue;
      }
      constexpr auto size = static_cast<pybind11::ssize_t>(sizeof(T));
      // A base, whatever it is, makes an array a view and not a copy.
      arrays.append(pybind11::array_t<T>({view.rows, view.cols}, {view.stride * size, size},
                                         view.data, transport_));
    }
    transport_.attr("start")(arrays);
  }

  // The transport keeps its errors for wait(), where there is somebody to throw to.
  void found(size_t layer) override {
    const pybind11::gil_scoped_acquire gil;
    try {
      transport_.attr("found")(layer);
    } catch (pybind11::error_already_set& error) {
      error.discard_as_unraisable("normball's found()");
    }
  }

  void wait() override {
    const pybind11::gil_scoped_acquire gil;
    transport_.attr("wait")();
  }

 private:
  pybind11::object transport_;
  int rank_, size_;
  std::vector<int> owners_;
};

}  // namespace normball::python
