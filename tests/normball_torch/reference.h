// Algorithms 3 and 4 in plain PyTorch operations, written from the paper and not from the library:
// the polar factor by SVD, everything in float64. And a small network to run them on.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace reference {

using torch::Tensor;

// An output layer that uses another module's weight.
struct TiedHeadImpl : torch::nn::Module {
  explicit TiedHeadImpl(const Tensor& tied) { weight = register_parameter("weight", tied); }
  Tensor weight;
};
TORCH_MODULE(TiedHead);

// A convolution on an image, linear layers with biases, a token embedding tied to the output.
struct NetImpl : torch::nn::Module {
  static constexpr int64_t vocabulary = 23, width = 10, channels = 6;

  NetImpl() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, channels, 3)));
    mix = register_module("mix", torch::nn::Linear(channels * 4, width));
    up = register_module("up", torch::nn::Linear(width, 3 * width));
    down = register_module(
        "down", torch::nn::Linear(torch::nn::LinearOptions(3 * width, width).bias(false)));
    embed = register_module("embed", torch::nn::Embedding(vocabulary, width));
    head = register_module("head", TiedHead(embed->weight));
  }

  Tensor forward(const Tensor& image, const Tensor& tokens) {
    const Tensor features = torch::relu(conv->forward(image)).flatten(1);
    Tensor hidden = mix->forward(features) + embed->forward(tokens);
    hidden = hidden + down->forward(torch::tanh(up->forward(hidden)));
    return torch::matmul(hidden, head->weight.t());
  }

  torch::nn::Conv2d conv{nullptr};
  torch::nn::Linear mix{nullptr}, up{nullptr}, down{nullptr};
  torch::nn::Embedding embed{nullptr};
  TiedHead head{nullptr};
};
TORCH_MODULE(Net);

// Data that asks for all of the network, and the loss of a part of it.
struct Batch {
  Tensor image, tokens, targets;

  Batch(int64_t size, uint64_t seed) {
    torch::manual_seed(seed);
    image = torch::randn({size, 3, 4, 4}, torch::kFloat64);
    tokens = torch::randint(Net::Impl::vocabulary, {size}, torch::kLong);
    targets = (3 * tokens + 1) % Net::Impl::vocabulary;
  }
  Tensor loss(const Net& net, int64_t begin, int64_t end) const {
    const auto part = torch::indexing::Slice(begin, end);
    const auto type = net->embed->weight.scalar_type();
    const Tensor logits = net.ptr()->forward(image.index({part}).to(type), tokens.index({part}));
    return torch::nn::functional::cross_entropy(logits, targets.index({part}));
  }
  Tensor loss(const Net& net) const { return loss(net, 0, image.size(0)); }
};

// The same start every time.
inline Net make_net(torch::ScalarType type = torch::kFloat64) {
  torch::manual_seed(5);
  Net net;
  net->to(torch::kFloat64);
  net->to(type);
  return net;
}

// Its parameters, the tied one once.
inline std::vector<Tensor> weights_of(const Net& net) {
  return {net->conv->weight, net->conv->bias, net->mix->weight,  net->mix->bias,
          net->up->weight,   net->up->bias,   net->down->weight, net->embed->weight};
}

// One layer of the product norm: its tensor and the norm by the name the paper has for it.
struct Layer {
  std::string norm;  // spectral, sign, rms, euclidean, plain_sign or plain_spectral
  double radius = 1;
};

inline Tensor as_matrix(const Tensor& x) {
  return x.dim() <= 1 ? x.reshape({-1, 1}) : x.reshape({x.size(0), -1});
}

// √(out/in) with the kernel taken out of the fan-in, over the kernel's size.
inline double spectral_scale(const Tensor& x) {
  if (x.dim() <= 1) return std::sqrt(static_cast<double>(x.numel()));
  const auto kernel = static_cast<double>(x.numel() / (x.size(0) * x.size(1)));
  return std::sqrt(static_cast<double>(x.size(0)) / static_cast<double>(x.size(1))) / kernel;
}

inline double scale(const std::string& norm, const Tensor& x) {
  if (norm == "spectral") return spectral_scale(x);
  if (norm == "sign") return x.dim() <= 1 ? 1 : 1 / static_cast<double>(x.numel() / x.size(0));
  if (norm == "rms") return std::sqrt(static_cast<double>(x.numel()));
  return 1;
}

inline bool is_spectral(const std::string& norm) {
  return norm == "spectral" || norm == "plain_spectral";
}
inline bool is_sign(const std::string& norm) { return norm == "sign" || norm == "plain_sign"; }

// The minimizer of ⟨d, x⟩ over the unit ball.
inline Tensor lmo(const std::string& norm, const Tensor& d) {
  if (d.abs().max().item<double>() == 0) return torch::zeros_like(d);
  Tensor direction;
  if (is_spectral(norm)) {
    const auto [u, sigma, v] = torch::linalg_svd(as_matrix(d), false);
    direction = torch::matmul(u, v).reshape(d.sizes());
  } else if (is_sign(norm)) {
    direction = d.sign();
  } else {
    direction = d / d.norm();
  }
  return -scale(norm, d) * direction;
}

inline double norm_of(const std::string& norm, const Tensor& x) {
  const Tensor size = is_spectral(norm) ? torch::linalg_svdvals(as_matrix(x)).max()
                      : is_sign(norm)   ? x.abs().max()
                                        : x.norm();
  return size.item<double>() / scale(norm, x);
}

// How the methods differ: η from s, ‖v‖ and k.
struct Algorithm {
  bool constrained = false;
  bool whole_vector = false;  // the Euclidean norm of all weights together
  double gamma = 1;
  double alpha = 1;
  std::function<double(double s, double norm, int64_t k)> eta;
  std::string norm = "";  // instead of the layers' own
  double radius = 0;      // likewise
  bool needs_norm = false;
};

class Optimizer {
 public:
  Optimizer(Algorithm algorithm, std::vector<Layer> layers)
      : algorithm_(std::move(algorithm)), layers_(std::move(layers)) {
    for (auto& layer : layers_) {
      if (!algorithm_.norm.empty()) layer.norm = algorithm_.norm;
      if (algorithm_.radius > 0) layer.radius = algorithm_.radius;
    }
  }

  // One step of Algorithm 3 or 4; returns s.
  double step(std::vector<Tensor>& weights, const std::vector<Tensor>& gradients) {
    const torch::NoGradGuard no_grad;
    if (d_.empty()) {
      for (const auto& w : weights) d_.push_back(torch::zeros_like(w));
    }
    for (size_t l = 0; l < weights.size(); ++l) {
      d_[l] = algorithm_.alpha * gradients[l] + (1 - algorithm_.alpha) * d_[l];
    }
    std::vector<Tensor> v;
    double length = 0;
    for (const auto& d : d_) length += d.square().sum().item<double>();
    length = std::sqrt(length);
    for (size_t l = 0; l < weights.size(); ++l) {
      if (algorithm_.whole_vector) {
        v.push_back(length == 0 ? torch::zeros_like(d_[l]) : d_[l] / length);
        continue;
      }
      v.push_back(-layers_[l].radius * lmo(layers_[l].norm, d_[l]));
      if (algorithm_.constrained) v.back() = v.back() + weights[l];
    }
    double s = 0, norm = 0;
    for (size_t l = 0; l < weights.size(); ++l) {
      s += (d_[l] * v[l]).sum().item<double>();
      if (algorithm_.needs_norm) {
        norm = std::max(norm, norm_of(layers_[l].norm, v[l]) / layers_[l].radius);
      }
    }
    const double eta = std::max(0.0, algorithm_.eta(s, norm, static_cast<int64_t>(etas_.size())));
    etas_.push_back(eta);
    for (size_t l = 0; l < weights.size(); ++l) weights[l].sub_(algorithm_.gamma * eta * v[l]);
    return s;
  }
  const std::vector<double>& etas() const { return etas_; }

 private:
  Algorithm algorithm_;
  std::vector<Layer> layers_;
  std::vector<Tensor> d_;
  std::vector<double> etas_;
};

}  // namespace reference
