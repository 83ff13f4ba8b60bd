#include "trainer/models/text_generator.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "normball/error.h"

namespace normball::trainer::models {

TextGenerator::TextGenerator(const Gpt& model, std::span<const std::int64_t> prompt,
                             const SamplingOptions& options)
    : model_(model), options_(options), random_(options.seed) {
  const std::int64_t known = model.config().vocabulary;
  if (!(std::isfinite(options.temperature) && options.temperature >= 0)) {
    detail::invalid("TextGenerator", "temperature must be 0 or more, got ", options.temperature);
  }
  if (options.top_k < 0) {
    detail::invalid("TextGenerator", "top_k must be 0 (all) or more, got ", options.top_k);
  }
  if (options.vocabulary < 0 || options.vocabulary > known) {
    detail::invalid("TextGenerator", "vocabulary must be 0 (all) to ", known, ", got ",
                    options.vocabulary);
  }
  if (prompt.empty()) {
    detail::invalid("TextGenerator", "the prompt is empty; it needs a token to continue");
  }
  for (const std::int64_t token : prompt) {
    if (token < 0 || token >= known) {
      detail::invalid("TextGenerator", "prompt token ", token, " is outside the vocabulary of ",
                      known);
    }
  }
  if (options_.vocabulary == 0) options_.vocabulary = known;
  const auto context = static_cast<size_t>(model.config().context);
  const auto recent = prompt.last(std::min(prompt.size(), context));
  unread_.assign(recent.begin(), recent.end());
}

std::int64_t TextGenerator::next() {
  const auto tokens = torch::tensor(unread_, torch::kInt64).unsqueeze(0);
  const auto device = model_.parameters().front().tensor.device();
  const auto logits = model_.continue_with(tokens.to(device), cache_);
  const std::int64_t token = draw(logits[0].to(torch::kCPU, torch::kFloat64));
  unread_ = {token};
  return token;
}

std::int64_t TextGenerator::draw(const torch::Tensor& logits) {
  const double* value = logits.data_ptr<double>();
  std::vector<std::int64_t> ids(static_cast<size_t>(options_.vocabulary));
  std::iota(ids.begin(), ids.end(), 0);
  // Equal logits in the order of their ids, so that the draw is the same on any machine.
  const auto likelier = [&](std::int64_t a, std::int64_t b) {
    return value[a] != value[b] ? value[a] > value[b] : a < b;
  };
  const auto best = std::min_element(ids.begin(), ids.end(), likelier);
  if (options_.temperature == 0) return *best;
  const double top = value[*best];
  if (options_.top_k > 0 && options_.top_k < options_.vocabulary) {
    std::nth_element(ids.begin(), ids.begin() + options_.top_k, ids.end(), likelier);
    ids.resize(static_cast<size_t>(options_.top_k));
    std::sort(ids.begin(), ids.end());
  }
  std::vector<double> cumulative;
  double sum = 0;
  for (const std::int64_t id : ids) {
    sum += std::exp((value[id] - top) / options_.temperature);
    cumulative.push_back(sum);
  }
  if (!std::isfinite(sum)) {
    throw std::runtime_error(
        detail::message("TextGenerator", "the model's logits are not finite; its weights may be"));
  }
  const double point = random_.uniform() * sum;
  const auto found = std::upper_bound(cumulative.begin(), cumulative.end(), point);
  const auto index = std::min<std::ptrdiff_t>(found - cumulative.begin(),
                                              static_cast<std::ptrdiff_t>(ids.size()) - 1);
  return ids[static_cast<size_t>(index)];
}

}  // namespace normball::trainer::models
