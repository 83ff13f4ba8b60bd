// What the parameters of a model are: as the caller says, else by name and shape; and which of them
// are tied, make the output, or see an image.
#include "normball/internal/routing/facts.h"

#include <algorithm>
#include <map>

#include "normball/base/error.h"

namespace normball::detail {
namespace {

class FactFinder {
 public:
  explicit FactFinder(std::span<const ParameterInfo> parameters)
      : parameters_(parameters), facts_(parameters.size()) {}

  std::vector<Facts> run() {
    find_kinds();
    find_ties();
    find_heads();
    find_image_input();
    return std::move(facts_);
  }

 private:
  void find_kinds() {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      Facts& facts = facts_[i];
      facts.kind = parameters_[i].kind;
      if (facts.kind != Kind::Unknown) continue;
      facts.kind = guess_kind(parameters_[i].name, parameters_[i].dimensions);
      if (facts.kind != Kind::Unknown) facts.named = own_name(parameters_[i].name);
    }
  }

  // The same memory twice is one parameter; an embedding that another layer uses as well is tied.
  void find_ties() {
    std::map<const void*, size_t> first;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const auto found = first.find(parameters_[i].identity);
      if (parameters_[i].identity == nullptr || found == first.end()) {
        if (facts_[i].kind == Kind::Alias) {
          throw_invalid("route", "'", parameters_[i].name,
                        "' is called an alias, but no earlier parameter has its memory");
        }
        if (parameters_[i].identity != nullptr) first.emplace(parameters_[i].identity, i);
        continue;
      }
      const size_t other = found->second;
      if (parameters_[i].dimensions != parameters_[other].dimensions) {
        throw_invalid("route", "'", parameters_[i].name, "' and '", parameters_[other].name,
                      "' share memory but not their shape");
      }
      facts_[i].same_as = other;
      const Kind kind = facts_[i].kind;
      Facts& kept = facts_[other];
      const bool embeds = kind == Kind::Embedding || kept.kind == Kind::Embedding;
      if (embeds && kind != kept.kind && kind != Kind::Alias) {
        if (kind == Kind::Embedding) kept.named = facts_[i].named;
        kept.kind = Kind::Tied;
      }
    }
  }

  // The heads; without any, the largest embedding must be tied to one.
  void find_heads() {
    std::vector<Kind> kinds;
    for (const auto& facts : facts_) kinds.push_back(facts.same_as ? Kind::Alias : facts.kind);
    for (const auto& [i, named] : normball::detail::find_heads(parameters_, kinds)) {
      kinds[i] = facts_[i].kind = Kind::Output;
      facts_[i].named = named;
      facts_[i].guessed = named.empty();
    }
    const auto is_head = [](Kind kind) { return kind == Kind::Output || kind == Kind::Tied; };
    if (std::ranges::any_of(kinds, is_head)) return;
    Facts* largest = nullptr;
    Index rows = 0;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (kinds[i] != Kind::Embedding) continue;
      const Index own = parameters_[i].dimensions.empty() ? 0 : parameters_[i].dimensions[0];
      if (largest == nullptr || own > rows) {
        largest = &facts_[i];
        rows = own;
      }
    }
    if (largest == nullptr) return;
    largest->kind = Kind::Tied;
    largest->guessed = true;
  }

  // The convolutions on 2 or 3 channels see the image. One on a single channel does where its
  // module says that it is no depthwise one; by shape alone it does where it is the first.
  void find_image_input() {
    const auto is_conv_on = [&](size_t i, Index least, Index most) {
      const auto& dimensions = parameters_[i].dimensions;
      return facts_[i].kind == Kind::Conv && dimensions.size() >= 3 && dimensions[1] >= least &&
             dimensions[1] <= most;
    };
    bool found = false;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      facts_[i].image_input = is_conv_on(i, 2, 3);
      found |= facts_[i].image_input;
    }
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (!is_conv_on(i, 1, 1)) continue;
      if (!found || parameters_[i].kind == Kind::Conv) {
        facts_[i].image_input = found = true;
      } else if (parameters_[i].dimensions[0] > 1) {
        facts_[i].kind = Kind::Depthwise;
      }
    }
  }

  std::span<const ParameterInfo> parameters_;
  std::vector<Facts> facts_;
};

}  // namespace

std::vector<Facts> find_facts(std::span<const ParameterInfo> parameters) {
  return FactFinder(parameters).run();
}

}  // namespace normball::detail
