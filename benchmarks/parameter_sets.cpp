#include "benchmarks/parameter_sets.h"

#include <algorithm>

#include "normball/base/error.h"
#include "normball/base/text.h"

namespace normball::benchmarks {
namespace {

class Builder {
 public:
  void add(const std::string& name, const std::vector<Index>& dimensions, const Norm& norm,
           double radius) {
    layers_.push_back({.name = name, .shape = flatten(dimensions), .norm = norm, .radius = radius});
  }
  std::vector<Layer> take() { return std::move(layers_); }

 private:
  std::vector<Layer> layers_;
};

// The paper's NanoGPT: tied embedding, no biases or gains; radii 50 and 3000.
std::vector<Layer> gpt(int blocks, Index width) {
  Builder model;
  model.add("embedding", {50304, width}, Sign{}, 3000);
  for (int block = 0; block < blocks; ++block) {
    const std::string prefix = "block" + std::to_string(block) + ".";
    for (const auto* name : {"query", "key", "value", "project"}) {
      model.add(prefix + name, {width, width}, Spectral{}, 50);
    }
    model.add(prefix + "up", {4 * width, width}, Spectral{}, 50);
    model.add(prefix + "down", {width, 4 * width}, Spectral{}, 50);
  }
  return model.take();
}

// The airbench CNN: three blocks of two 3x3 convolutions, widths 64, 256, 256.
std::vector<Layer> airbench() {
  Builder model;
  model.add("whiten", {24, 3, 2, 2}, Spectral{.scale = SpectralScale::Input}, 1);
  model.add("whiten.bias", {24}, Rms{}, 1);
  Index channels = 24;
  for (const Index width : {64, 256, 256}) {
    const std::string prefix = "conv" + std::to_string(channels) + "." + std::to_string(width);
    model.add(prefix + ".1", {width, channels, 3, 3}, Spectral{}, 5);
    model.add(prefix + ".2", {width, width, 3, 3}, Spectral{}, 5);
    for (const auto* norm : {".norm1", ".norm2"}) model.add(prefix + norm, {width}, Rms{}, 5);
    channels = width;
  }
  model.add("head", {10, 256}, Sign{}, 200);
  return model.take();
}

// DeiT-base: patches of 16x16, 12 blocks of width 768, fused QKV, biases; radii 25, 25, 500.
std::vector<Layer> vit_base() {
  Builder model;
  model.add("patch", {768, 3, 16, 16}, Spectral{.scale = SpectralScale::Input}, 25);
  model.add("class", {768}, Rms{}, 25);
  model.add("position", {197, 768}, Rms{}, 25);
  for (int block = 0; block < 12; ++block) {
    const std::string prefix = "block" + std::to_string(block) + ".";
    model.add(prefix + "qkv", {2304, 768}, Spectral{}, 25);
    model.add(prefix + "project", {768, 768}, Spectral{}, 25);
    model.add(prefix + "up", {3072, 768}, Spectral{}, 25);
    model.add(prefix + "down", {768, 3072}, Spectral{}, 25);
    for (const auto& [name, size] : std::vector<std::pair<std::string, Index>>{
             {"qkv.bias", 2304}, {"project.bias", 768}, {"up.bias", 3072}, {"down.bias", 768}}) {
      model.add(prefix + name, {size}, Rms{}, 25);
    }
  }
  model.add("head", {1000, 768}, Sign{}, 500);
  return model.take();
}

}  // namespace

const std::vector<ParameterSet>& parameter_sets() {
  static const std::vector<ParameterSet> all = {
      {"gpt2-124m", "NanoGPT 124M: 72 spectral matrices and a 50304x768 Sign embedding",
       gpt(12, 768)},
      {"airbench", "the CIFAR-10 CNN, widths 64-256-256", airbench()},
      {"vit-base", "DeiT-base: 49 spectral matrices, biases, a Sign head", vit_base()}};
  return all;
}

const std::vector<ParameterSet>& shape_sets() {
  static const std::vector<ParameterSet> all = {
      parameter_sets()[0],
      {"gpt-1b", "24 blocks of width 2048", gpt(24, 2048)},
      {"gpt-7b", "32 blocks of width 4096", gpt(32, 4096)}};
  return all;
}

const ParameterSet& parameter_set(std::string_view name) {
  const auto& all = parameter_sets();
  const auto found = std::ranges::find(all, name, &ParameterSet::name);
  if (found != all.end()) return *found;
  std::vector<std::string_view> names(all.size());
  std::ranges::transform(all, names.begin(),
                         [](const auto& set) { return std::string_view(set.name); });
  throw_invalid("parameter_set", unknown_name("parameter set", name, names));
}

}  // namespace normball::benchmarks
