#include "trainer/data/token_loader.h"

#include <algorithm>
#include <utility>

#include "normball/base/error.h"

namespace normball::trainer::data {
namespace {

// Windows of `length` inputs that fit one after another; each also needs the token after it.
std::int64_t windows_in(const char* where, const TokenData& data, std::int64_t batch,
                        std::int64_t length) {
  if (batch < 1) throw_invalid(where, "batch must be at least 1, got ", batch);
  if (length < 1) throw_invalid(where, "length must be at least 1, got ", length);
  if (data.size() <= length) {
    throw_invalid(where, "a window of ", length, " tokens and its next one do not fit into the ",
                  data.size(), " tokens there are; use more data or a shorter length");
  }
  return (data.size() - 1) / length;
}

void resize(std::int64_t rows, std::int64_t length, TokenBatch& batch) {
  batch.rows = rows;
  batch.length = length;
  batch.inputs.resize(static_cast<size_t>(rows * length));
  batch.targets.resize(static_cast<size_t>(rows * length));
}

// `window` has length + 1 tokens.
void set_row(std::int64_t row, const std::vector<std::int64_t>& window, TokenBatch& batch) {
  std::copy(window.begin(), window.end() - 1, batch.inputs.begin() + row * batch.length);
  std::copy(window.begin() + 1, window.end(), batch.targets.begin() + row * batch.length);
}

}  // namespace

TokenLoader::TokenLoader(TokenData data, TokenLoaderOptions options, DataCursor cursor)
    : data_(std::move(data)), options_(options), cursor_(cursor) {
  windows_in("TokenLoader", data_, options_.batch, options_.length);  // for its errors
  // One window less leaves room for every offset, so that all epochs are equally long.
  windows_ = std::max<std::int64_t>(1, data_.size() / options_.length - 1);
  attach(cursor_, windows_);
  window_.resize(static_cast<size_t>(options_.length + 1));
  start_epoch();
}

void TokenLoader::start_epoch() {
  const std::int64_t last =
      std::min(options_.length - 1, data_.size() - 1 - windows_ * options_.length);
  Random random = random_for(cursor_.seed, Purpose::Offset, cursor_.epoch);
  offset_ = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(last + 1)));
  order_ = shuffled_order(cursor_.seed, cursor_.epoch, windows_);
}

void TokenLoader::next(TokenBatch& batch, std::int64_t first, std::int64_t end) {
  resize(end - first, options_.length, batch);
  for (std::int64_t row = 0; row < options_.batch; ++row) {
    if (cursor_.position == windows_) {
      ++cursor_.epoch;
      cursor_.position = 0;
      start_epoch();
    }
    const std::int64_t position = cursor_.position++;
    if (row < first || row >= end) continue;
    const std::int64_t window = order_[static_cast<size_t>(position)];
    data_.read(offset_ + window * options_.length, window_);
    set_row(row - first, window_, batch);
  }
  batch.after = cursor_;
}

TokenEvaluation::TokenEvaluation(TokenData data, std::int64_t batch, std::int64_t length,
                                 std::int64_t max_windows)
    : data_(std::move(data)),
      batch_(batch),
      length_(length),
      available_(windows_in("TokenEvaluation", data_, batch, length)),
      windows_(std::min(available_, max_windows)) {
  if (max_windows < 1) {
    throw_invalid("TokenEvaluation", "max_windows must be at least 1, got ", max_windows);
  }
}

void TokenEvaluation::fill(std::int64_t index, TokenBatch& batch) const {
  if (index < 0 || index >= batches()) {
    throw_invalid("TokenEvaluation", "batch ", index, " of ", batches(), " asked for");
  }
  const std::int64_t first = index * batch_;
  resize(std::min(batch_, windows_ - first), length_, batch);
  std::vector<std::int64_t> window(static_cast<size_t>(length_ + 1));
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    // floor(i * available / windows) is i where all windows are taken, and never repeats.
    const auto place =
        static_cast<std::int64_t>(static_cast<__int128>(first + row) * available_ / windows_);
    data_.read(place * length_, window);
    set_row(row, window, batch);
  }
}

}  // namespace normball::trainer::data
