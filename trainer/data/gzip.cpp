#include "trainer/data/gzip.h"

#include <zlib.h>

#include <algorithm>

#include "trainer/data/data_error.h"

namespace normball::trainer::data {

namespace {
constexpr const char* where = "GzipReader";
constexpr size_t piece = size_t{1} << 30;  // zlib counts in 32 bits
}  // namespace

struct GzipReader::Stream {
  z_stream z{};
};

bool is_gzip(std::span<const std::uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

GzipReader::GzipReader(Bytes compressed, std::string name)
    : compressed_(std::move(compressed)),
      name_(std::move(name)),
      stream_(std::make_unique<Stream>()) {
  constexpr int gzip_only = 16;
  if (inflateInit2(&stream_->z, gzip_only + MAX_WBITS) != Z_OK) {
    fail(where, name_, ": zlib could not start");
  }
}

GzipReader::~GzipReader() { inflateEnd(&stream_->z); }

void GzipReader::refill() {
  z_stream& z = stream_->z;
  if (z.avail_in > 0) return;
  const size_t count = std::min(piece, compressed_.size() - fed_);
  z.next_in = const_cast<Bytef*>(compressed_.span().data() + fed_);
  z.avail_in = static_cast<uInt>(count);
  fed_ += count;
}

// gzip files may be concatenated: the next one starts where the last ended.
bool GzipReader::next_member() {
  refill();
  if (stream_->z.avail_in == 0) return false;
  const size_t position = fed_ - stream_->z.avail_in;
  if (!is_gzip(compressed_.span().subspan(position))) {
    fail(where, name_, ": has ", compressed_.size() - position,
         " bytes after the end of its gzip data; get the file again");
  }
  inflateReset(&stream_->z);
  return true;
}

size_t GzipReader::read(std::span<std::uint8_t> out) {
  z_stream& z = stream_->z;
  size_t done = 0;
  while (done < out.size() && !ended_) {
    refill();
    const size_t room = std::min(piece, out.size() - done);
    z.next_out = out.data() + done;
    z.avail_out = static_cast<uInt>(room);
    const int status = inflate(&z, Z_NO_FLUSH);
    done += room - z.avail_out;
    if (status == Z_STREAM_END) {
      ended_ = !next_member();
    } else if (status == Z_BUF_ERROR) {
      fail(where, name_, ": the gzip data ends early, the file is truncated; get it again");
    } else if (status != Z_OK) {
      fail(where, name_, ": damaged gzip data", z.msg != nullptr ? " (" : "",
           z.msg != nullptr ? z.msg : "", z.msg != nullptr ? ")" : "", "; get the file again");
    }
  }
  return done;
}

}  // namespace normball::trainer::data
