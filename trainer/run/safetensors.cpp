#include "trainer/run/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "normball/base/error.h"
#include "normball/base/text.h"

namespace normball::trainer::run {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t max_header = 4 << 20;
constexpr size_t max_rank = 16;
constexpr size_t max_name = 1024;
constexpr std::string_view metadata_key = "__metadata__";

constexpr std::array<std::string_view, 9> names = {"F64", "F32", "F16", "BF16", "I64",
                                                   "I32", "U8",  "U16", "BOOL"};
constexpr std::array<size_t, 9> sizes = {8, 4, 2, 2, 8, 4, 1, 2, 1};

template <class... Parts>
[[noreturn]] void malformed(std::string_view where, const Parts&... parts) {
  throw std::runtime_error(normball::error_message("safetensors", where, ": ", parts...));
}

// The bytes of a tensor, or nothing where they do not fit 63 bits.
std::optional<std::uint64_t> tensor_bytes(Dtype dtype, std::span<const std::int64_t> shape) {
  std::uint64_t bytes = dtype_bytes(dtype);
  for (const std::int64_t n : shape) {
    if (n < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(n), &bytes) ||
        bytes > INT64_MAX) {
      return {};
    }
  }
  return bytes;
}

// Reads the header as it comes, without building a document: anything but the expected form ends
// the parse, and memory stays in proportion to the header.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  struct Entry {
    TensorView tensor;
    std::uint64_t begin = 0, end = 0;
  };

  explicit HeaderReader(std::string_view where) : where_(where) {}

  std::vector<Entry> entries;
  Metadata metadata;

  bool start_object(size_t) override {
    if (place_ == Place::Start) return go(Place::Top);
    if (place_ == Place::Value) {
      return go(key_ == metadata_key ? Place::Metadata : Place::Tensor);
    }
    unexpected("an object");
  }

  bool key(string_t& text) override {
    if (place_ == Place::Top) {
      if (text.size() > max_name || text.empty()) {
        malformed(where_, "a tensor's name has ", text.size(), " bytes; 1 to ", max_name,
                  " are allowed");
      }
      if (!seen_.insert(text).second) malformed(where_, "'", text, "' appears twice");
      key_ = text;
      if (key_ != metadata_key) {
        entries.push_back({.tensor = {.name = key_, .dtype = {}, .shape = {}, .data = {}}});
      }
      has_dtype_ = has_shape_ = has_offsets_ = false;
      return go(Place::Value);
    }
    field_ = text;
    if (place_ == Place::Metadata) {
      if (metadata.contains(text)) malformed(where_, "metadata '", text, "' appears twice");
      return true;
    }
    bool* has = text == "dtype"          ? &has_dtype_
                : text == "shape"        ? &has_shape_
                : text == "data_offsets" ? &has_offsets_
                                         : nullptr;
    if (has == nullptr) malformed(where_, "tensor '", key_, "' has an unknown field '", text, "'");
    if (std::exchange(*has, true)) malformed(where_, "'", text, "' of '", key_, "' appears twice");
    return true;
  }

  bool string(string_t& text) override {
    if (place_ == Place::Metadata) {
      metadata[field_] = text;
      return true;
    }
    if (place_ != Place::Tensor || field_ != "dtype") unexpected("a string");
    const auto found = std::ranges::find(names, text);
    if (found == names.end()) {
      malformed(where_, "tensor '", key_, "': ", unknown_name("dtype", text, names));
    }
    entries.back().tensor.dtype = static_cast<Dtype>(found - names.begin());
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::Tensor || field_ == "dtype") unexpected("a list");
    offsets_ = 0;
    return go(field_ == "shape" ? Place::Shape : Place::Offsets);
  }

  bool number_unsigned(number_unsigned_t value) override {
    Entry& entry = entries.empty() ? none_ : entries.back();
    if (place_ == Place::Shape) {
      if (value > INT64_MAX || entry.tensor.shape.size() == max_rank) {
        malformed(where_, "tensor '", key_, "' has a dimension too large, or more than ", max_rank);
      }
      entry.tensor.shape.push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (place_ == Place::Offsets && offsets_ < 2) {
      (offsets_++ == 0 ? entry.begin : entry.end) = value;
      return true;
    }
    unexpected("a number");
  }

  bool end_array() override {
    if (place_ == Place::Offsets && offsets_ != 2) {
      malformed(where_, "tensor '", key_, "' needs two data_offsets");
    }
    return go(Place::Tensor);
  }

  bool end_object() override {
    if (place_ == Place::Tensor && !(has_dtype_ && has_shape_ && has_offsets_)) {
      malformed(where_, "tensor '", key_, "' needs dtype, shape and data_offsets");
    }
    return go(place_ == Place::Top ? Place::End : Place::Top);
  }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { unexpected("a fraction"); }
  bool binary(binary_t&) override { unexpected("binary data"); }
  bool parse_error(size_t at, const std::string&, const nlohmann::json::exception&) override {
    malformed(where_, "the header is not JSON at its byte ", at);
  }

 private:
  enum class Place { Start, Top, Value, Metadata, Tensor, Shape, Offsets, End };

  bool go(Place place) {
    place_ = place;
    return true;
  }
  [[noreturn]] void unexpected(std::string_view what) {
    malformed(where_, "the header has ", what, " where none belongs",
              key_.empty() ? "" : ", near '" + key_ + "'");
  }

  std::string_view where_;
  Place place_ = Place::Start;
  std::string key_, field_;
  std::unordered_set<std::string> seen_;
  Entry none_;
  int offsets_ = 0;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
};

void check_tensor(const TensorView& tensor) {
  const auto fail = [&](const auto&... parts) {
    normball::throw_invalid("write_safetensors", "tensor '", tensor.name, "' ", parts...);
  };
  if (tensor.name.empty() || tensor.name.size() > max_name || tensor.name == metadata_key) {
    fail("needs another name: 1 to ", max_name, " bytes, not ", metadata_key);
  }
  if (tensor.shape.size() > max_rank) fail("has more than ", max_rank, " dimensions");
  const auto bytes = tensor_bytes(tensor.dtype, tensor.shape);
  if (!bytes || *bytes != tensor.data.size()) {
    fail("is ", describe(tensor.dtype, tensor.shape), " but has ", tensor.data.size(), " bytes");
  }
}

}  // namespace

std::string_view dtype_name(Dtype dtype) { return names[static_cast<size_t>(dtype)]; }
size_t dtype_bytes(Dtype dtype) { return sizes[static_cast<size_t>(dtype)]; }

std::string describe(Dtype dtype, std::span<const std::int64_t> shape) {
  std::string text = std::string(dtype_name(dtype)) + " [";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

void write_safetensors(files::OutputFile& out, std::span<const TensorView> tensors,
                       const Metadata& metadata) {
  std::vector<const TensorView*> order;
  std::unordered_set<std::string_view> seen;
  for (const auto& tensor : tensors) {
    check_tensor(tensor);
    if (!seen.insert(tensor.name).second) {
      normball::throw_invalid("write_safetensors", "two tensors are named '", tensor.name, "'");
    }
    order.push_back(&tensor);
  }
  std::ranges::stable_sort(order, std::greater{},
                           [](const TensorView* t) { return dtype_bytes(t->dtype); });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(metadata_key)] = metadata;
  std::uint64_t offset = 0;
  for (const TensorView* tensor : order) {
    const std::uint64_t end = offset + tensor->data.size();
    header[tensor->name] = {{"dtype", dtype_name(tensor->dtype)},
                            {"shape", tensor->shape},
                            {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    normball::throw_invalid("write_safetensors", "a name or metadata is not UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > max_header) {
    normball::throw_invalid("write_safetensors", "the header would have ", text.size(),
                            " bytes; at most ", max_header, " are allowed");
  }
  const std::uint64_t length = text.size();
  out.write(std::as_bytes(std::span(&length, 1)));
  out.write(text);
  for (const TensorView* tensor : order) out.write(tensor->data);
}

Safetensors parse_safetensors(std::span<const std::byte> file, std::string_view where) {
  std::uint64_t length = 0;
  if (file.size() < sizeof length) {
    malformed(where, "the file has ", file.size(),
              " bytes; it is truncated, or not a safetensors file");
  }
  std::memcpy(&length, file.data(), sizeof length);
  if (length > max_header) {
    malformed(where, "the header would have ", length, " bytes; at most ", max_header,
              " are allowed. Is it a safetensors file?");
  }
  if (length > file.size() - sizeof length) {
    malformed(where, "the header has ", length, " bytes but the file has only ", file.size(),
              "; it is truncated");
  }
  const auto header = file.subspan(sizeof length, length);
  const auto data = file.subspan(sizeof length + length);
  HeaderReader reader(where);
  const auto* text = reinterpret_cast<const char*>(header.data());
  if (length == 0 || *text != '{') malformed(where, "the header does not begin with '{'");
  nlohmann::json::sax_parse(text, text + length, &reader);

  std::ranges::sort(reader.entries, [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t at = 0;
  Safetensors result{.tensors = {}, .metadata = std::move(reader.metadata)};
  result.tensors.reserve(reader.entries.size());
  for (auto& [tensor, begin, end] : reader.entries) {
    if (begin != at || end < begin || end > data.size()) {
      malformed(where, "tensor '", tensor.name, "' is at bytes ", begin, " to ", end,
                " of the data, but ", at, " to at most ", data.size(),
                " is what the others and the file's length leave");
    }
    const auto bytes = tensor_bytes(tensor.dtype, tensor.shape);
    if (!bytes || *bytes != end - begin) {
      malformed(where, "tensor '", tensor.name, "' is ", describe(tensor.dtype, tensor.shape),
                " but has ", end - begin, " bytes");
    }
    tensor.data = data.subspan(begin, end - begin);
    at = end;
    result.tensors.push_back(std::move(tensor));
  }
  if (at != data.size()) {
    malformed(where, "the tensors end at byte ", at, " of the data, which has ", data.size());
  }
  return result;
}

SafetensorsFile::SafetensorsFile(const fs::path& path)
    : path_(path),
      file_(files::Bytes::map(path)),
      contents_(parse_safetensors(std::as_bytes(file_.span()), path.string())) {}

bool SafetensorsFile::contains(std::string_view name) const {
  return std::ranges::find(tensors(), name, &TensorView::name) != tensors().end();
}

const TensorView& SafetensorsFile::at(std::string_view name) const {
  const auto found = std::ranges::find(tensors(), name, &TensorView::name);
  if (found != tensors().end()) return *found;
  std::vector<std::string_view> known;
  for (const auto& tensor : tensors()) known.push_back(tensor.name);
  const std::string text = unknown_name("tensor", name, known);  // without the long list of all
  malformed(path_.string(), text.substr(0, text.find(" Allowed:")), " The file has ", known.size(),
            "; does it belong to another model or optimizer?");
}

const TensorView& SafetensorsFile::at(std::string_view name, Dtype dtype,
                                      std::span<const std::int64_t> shape) const {
  const TensorView& tensor = at(name);
  if (tensor.dtype != dtype || !std::ranges::equal(tensor.shape, shape)) {
    malformed(path_.string(), "tensor '", name, "' is ", describe(tensor.dtype, tensor.shape),
              " in the file but ", describe(dtype, shape),
              " is needed. Does the file belong to another model or optimizer?");
  }
  return tensor;
}

}  // namespace normball::trainer::run
