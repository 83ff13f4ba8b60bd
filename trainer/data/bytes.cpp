#include "trainer/data/bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "trainer/data/data_error.h"

namespace normball::trainer::data {
namespace {

constexpr const char* where = "read_file";

struct Descriptor {
  int fd;
  ~Descriptor() { ::close(fd); }
};

struct Mapping {
  void* address;
  size_t size;
  Mapping(void* address_, size_t size_) : address(address_), size(size_) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { ::munmap(address, size); }
};

}  // namespace

std::string system_error_text() { return std::generic_category().message(errno); }

Bytes Bytes::map(const std::string& path) {
  // O_NONBLOCK: a pipe without a writer must not hang before it can be refused.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) fail(where, path, ": ", system_error_text(), "; check the path");
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) fail(where, path, ": ", system_error_text());
  if (!S_ISREG(status.st_mode)) {
    fail(where, path, S_ISDIR(status.st_mode) ? ": is a directory" : ": is not a regular file",
         "; name a file");
  }
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return {};
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (address == MAP_FAILED) fail(where, path, ": cannot be mapped: ", system_error_text());
  return {std::make_shared<const Mapping>(address, size),
          {static_cast<const std::uint8_t*>(address), size}};
}

Bytes read_small_file(const std::string& path, size_t limit) {
  const Bytes file = Bytes::map(path);
  if (file.size() > limit) {
    fail(where, path, ": has ", file.size(), " bytes, more than the ", limit,
         " that such a file may have; check that it is the right one");
  }
  return Bytes::own(std::vector<std::uint8_t>(file.span().begin(), file.span().end()));
}

}  // namespace normball::trainer::data
