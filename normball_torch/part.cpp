// What all parts share: the gate, and tensors in the form that a step needs.
#include "normball_torch/part.h"

#include <algorithm>

#include "normball/base/error.h"
#include "normball/routed.h"
#include "normball_torch/aten_norms.h"

namespace normball::optim {

using ::torch::Tensor;

std::vector<Layer> layers_of(const std::vector<Member>& members) {
  std::vector<Layer> layers;
  for (const auto& member : members) append_layers(*member.route, layers);
  return layers;
}

std::vector<Tensor> zeros_of(const std::vector<Member>& members) {
  std::vector<Tensor> zeros;
  for (const auto& member : members) {
    const auto type = compute_type(member.tensor.scalar_type());
    const auto options = member.tensor.options().dtype(type).requires_grad(false);
    zeros.push_back(::torch::zeros(member.tensor.sizes(), options));
  }
  return zeros;
}

namespace {

// Whether two entries are one. Where every stride steps over all smaller ones they are not; other
// strides are tried out.
bool overlaps_itself(const Tensor& tensor) {
  std::vector<std::pair<int64_t, int64_t>> dimensions;  // stride, size
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) == 0) return false;
    if (tensor.size(i) > 1) dimensions.emplace_back(tensor.stride(i), tensor.size(i));
  }
  std::ranges::sort(dimensions);
  int64_t extent = 1;
  bool apart = true;
  for (const auto& [stride, size] : dimensions) {
    apart = apart && stride >= extent;
    extent += stride * (size - 1);
  }
  if (apart) return false;
  const auto places = ::torch::arange(extent).as_strided(tensor.sizes(), tensor.strides());
  return std::get<0>(::torch::_unique2(places)).numel() < tensor.numel();
}

}  // namespace

void require_supported(const std::string& name, const Tensor& tensor) {
  constexpr auto here = "NormBall";
  if (!tensor.defined()) {
    normball::throw_invalid(here, "'", name, "' is an undefined tensor");
  }
  if (tensor.layout() != ::torch::kStrided) {
    normball::throw_invalid(here, "'", name, "' is not a dense tensor");
  }
  if (!at::isFloatingType(tensor.scalar_type())) {
    normball::throw_invalid(here, "'", name, "' has the type ", tensor.scalar_type(),
                            "; parameters must be real floating-point numbers");
  }
  if (tensor.is_meta()) {
    normball::throw_invalid(here, "'", name, "' is on the meta device and has no data: create it ",
                            "on the CPU and initialize it");
  }
  if (tensor.is_inference()) {
    normball::throw_invalid(here, "'", name, "' was created in inference mode, where nothing is ",
                            "trained: create it outside, or use clone()");
  }
  if (overlaps_itself(tensor)) {
    normball::throw_invalid(here, "'", name, "' (", tensor.sizes(),
                            ") is an expanded or strided view whose entries share memory; use ",
                            "contiguous() or the tensor that it is a view of");
  }
}

namespace {

void require_fitting_state(const Member& member, const char* what, const Tensor& state) {
  if (state.layout() == ::torch::kStrided && !state.is_meta() &&
      at::isFloatingType(state.scalar_type()) && state.sizes() == member.tensor.sizes()) {
    return;
  }
  normball::throw_invalid(
      "NormBall::step", "the ", what, " of '", member.route->name, "' has the shape ",
      state.sizes(), ", the type ", state.scalar_type(), " and the layout ", state.layout(), " on ",
      state.device(), ", the parameter ", member.tensor.sizes(), " and ",
      member.tensor.scalar_type(),
      "; if its data was replaced, clear its state as well: optimizer.state().clear()");
}

// The buffer where it serves as it is, else a copy; undefined if there is none.
Tensor converted(const Tensor& buffer, const Member& member, ::torch::ScalarType type) {
  if (!buffer.defined() || (is_plain(buffer) && buffer.scalar_type() == type &&
                            buffer.device() == member.tensor.device())) {
    return buffer;
  }
  return plain(buffer.detach().to(member.tensor.device(), type));
}

}  // namespace

void require_fitting(const Member& member) {
  constexpr auto here = "NormBall::step";
  const std::string& name = member.route->name;
  const Tensor& gradient = member.tensor.grad();
  if (gradient.defined()) {
    if (gradient.layout() != ::torch::kStrided) {
      normball::throw_invalid(here, "the gradient of '", name,
                              "' is sparse; make it dense, e.g. with sparse(false)");
    }
    if (gradient.sizes() != member.tensor.sizes()) {
      normball::throw_invalid(here, "the gradient of '", name, "' has the shape ", gradient.sizes(),
                              ", the parameter ", member.tensor.sizes(),
                              "; call zero_grad() and compute it again");
    }
    if (!at::isFloatingType(gradient.scalar_type())) {
      normball::throw_invalid(here, "the gradient of '", name, "' has the type ",
                              gradient.scalar_type(), "; it must be real floating-point");
    }
    if (gradient.device() != member.tensor.device()) {
      normball::throw_invalid(here, "the gradient of '", name, "' is on ", gradient.device(),
                              ", the parameter on ", member.tensor.device());
    }
  }
  const Tensor& start = member.state->start();
  if (start.defined()) require_fitting_state(member, "start", start);
  const Tensor& momentum = member.state->momentum_buffer();
  if (!momentum.defined()) return;
  if (!is_elsewhere(momentum)) return require_fitting_state(member, "momentum", momentum);
  const bool divided = member.owner == by_rows && member.state->momentum_rows().defined();
  if (member.elsewhere || divided) return;
  normball::throw_invalid(here, "the momentum of '", name, "' is with another rank: before ",
                          "parameters join or leave, call consolidate_state() in all ranks");
}

bool is_plain(const Tensor& tensor) {
  return tensor.defined() && tensor.layout() == ::torch::kStrided && tensor.is_contiguous() &&
         !tensor.is_neg() && !tensor.is_conj();
}

Tensor plain(const Tensor& tensor) {
  return is_plain(tensor) ? tensor : tensor.resolve_conj().resolve_neg().contiguous();
}

Tensor gradient_of(const Member& member, ::torch::ScalarType type) {
  const Tensor& gradient = member.tensor.grad();
  if (is_plain(gradient) && gradient.scalar_type() == type) return gradient;
  return gradient.defined() ? plain(gradient.detach().to(type)) : gradient;
}

Tensor momentum_elsewhere() { return ::torch::empty({0}, ::torch::kUInt8); }

bool is_elsewhere(const Tensor& momentum) {
  return momentum.defined() && momentum.scalar_type() == ::torch::kUInt8 && momentum.numel() == 0;
}

Tensor momentum_of(const Member& member, ::torch::ScalarType type) {
  const Tensor momentum = converted(member.state->momentum_buffer(), member, type);
  if (momentum.defined()) return momentum;
  return ::torch::zeros(member.tensor.sizes(), member.tensor.options().dtype(type));
}

Tensor& momentum_rows_of(Member& member, ::torch::ScalarType type) {
  Tensor& whole = member.state->momentum_buffer();
  Tensor& rows = member.state->momentum_rows();
  if (is_elsewhere(whole)) return rows;
  const Shape& shape = member.route->blocks.front().shape;
  const auto options = member.tensor.options().dtype(type).requires_grad(false);
  if (whole.defined()) {
    const Tensor matrix = momentum_of(member, type).view({shape.rows, shape.cols});
    rows = matrix.narrow(0, member.rows.begin, member.rows.count()).clone();
  } else {
    rows = ::torch::zeros({member.rows.count(), shape.cols}, options);
  }
  whole = momentum_elsewhere();
  return rows;
}

Tensor start_of(const Member& member, ::torch::ScalarType type) {
  const Tensor start = converted(member.state->start(), member, type);
  return start.defined() ? start : plain(member.tensor.detach()).to(type, false, /*copy=*/true);
}

Index basis_size(const Block& block, const Norm& norm) {
  const auto resolved = resolve(norm, block.shape);
  return resolved.geometry == Geometry::Operator
             ? polar_state_size(resolved.solver, block.shape.rows, block.shape.cols)
             : 0;
}

Index basis_size(const Route& route) {
  Index sum = 0;
  for (const auto& block : route.blocks) sum += basis_size(block, route.norm);
  return sum;
}

Tensor block_view(const Tensor& tensor, const Block& block) {
  return tensor.as_strided({block.shape.rows, block.shape.cols}, {block.stride, 1},
                           tensor.storage_offset() + block.offset);
}

}  // namespace normball::optim
