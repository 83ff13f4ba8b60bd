#include "trainer/data/idx.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "trainer/data/data_error.h"
#include "trainer/data/gzip.h"

namespace normball::trainer::data {
namespace {

constexpr const char* where = "read_idx";
constexpr size_t max_dimensions = 8;

struct Header {
  std::vector<std::int64_t> shape;
  size_t bytes = 0;     // of the header
  size_t elements = 0;  // that it promises
};

// `read` fills a span from the front and returns how much there was.
Header parse_header(const std::string& name,
                    const std::function<size_t(std::span<std::uint8_t>)>& read) {
  const auto require = [&](std::span<std::uint8_t> out) {
    if (read(out) < out.size()) {
      fail(where, name, ": ends within its header; it is empty or truncated, get it again");
    }
  };
  std::array<std::uint8_t, 4> magic{};
  require(magic);
  if (magic[0] != 0 || magic[1] != 0) {
    fail(where, name, ": is not an IDX file (it does not start with two zero bytes)");
  }
  if (magic[2] != 8) {
    fail(where, name, ": holds elements of IDX type ", int{magic[2]},
         "; only unsigned bytes (type 8) are read");
  }
  if (magic[3] < 1 || magic[3] > max_dimensions) {
    fail(where, name, ": has ", int{magic[3]}, " dimensions; 1 to ", max_dimensions,
         " are allowed");
  }
  Header header;
  header.bytes = magic.size() + 4 * size_t{magic[3]};
  header.elements = 1;
  for (int i = 0; i < magic[3]; ++i) {
    std::array<std::uint8_t, 4> b{};
    require(b);
    const std::uint32_t extent = std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 |
                                 std::uint32_t{b[2]} << 8 | std::uint32_t{b[3]};
    header.shape.push_back(extent);
    if (__builtin_mul_overflow(header.elements, size_t{extent}, &header.elements) ||
        header.elements > size_t{std::numeric_limits<std::int64_t>::max()} / 2) {
      fail(where, name, ": its header promises more elements than any file holds; get it again");
    }
  }
  if (header.elements == 0) {
    fail(where, name, ": has no elements (", shape_text(header.shape), ")");
  }
  return header;
}

IdxArray parse_plain(const Bytes& file, const std::string& name) {
  size_t position = 0;
  const Header header = parse_header(name, [&](std::span<std::uint8_t> out) {
    const size_t count = std::min(out.size(), file.size() - position);
    std::copy_n(file.span().begin() + static_cast<std::ptrdiff_t>(position), count, out.begin());
    position += count;
    return count;
  });
  if (file.size() - header.bytes != header.elements) {
    fail(where, name, ": has ", file.size(), " bytes, but its header (", shape_text(header.shape),
         ") promises ", header.bytes + header.elements, "; get the file again");
  }
  return {header.shape, file.slice(header.bytes, header.elements)};
}

// Memory grows with the data that arrives, not with what a damaged header promises.
IdxArray parse_compressed(const Bytes& file, const std::string& name) {
  GzipReader reader(file, name);
  const Header header =
      parse_header(name, [&](std::span<std::uint8_t> out) { return reader.read(out); });
  if (header.elements / GzipReader::max_ratio > file.size()) {
    fail(where, name, ": its header (", shape_text(header.shape), ") promises ", header.elements,
         " bytes, more than ", file.size(), " compressed bytes can hold; get the file again");
  }
  constexpr size_t first_step = size_t{16} << 20;
  std::vector<std::uint8_t> data;
  bool complete = true;
  while (complete && data.size() < header.elements) {
    const size_t filled = data.size();
    const size_t step = std::min(header.elements - filled, std::max(first_step, filled));
    data.resize(filled + step);
    complete = reader.read(std::span(data).subspan(filled)) == step;
  }
  std::uint8_t beyond = 0;
  if (!complete || reader.read({&beyond, 1}) > 0) {
    fail(where, name, ": holds ", complete ? "more" : "fewer", " than the ", header.elements,
         " elements (", shape_text(header.shape), ") its header promises; get the file again");
  }
  return {header.shape, Bytes::own(std::move(data))};
}

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const auto extent : shape) {
    if (!text.empty()) text += 'x';
    text += std::to_string(extent);
  }
  return text;
}

IdxArray parse_idx(const Bytes& file, const std::string& name) {
  return is_gzip(file.span()) ? parse_compressed(file, name) : parse_plain(file, name);
}

IdxArray read_idx(const std::string& path) { return parse_idx(Bytes::map(path), path); }

}  // namespace normball::trainer::data
