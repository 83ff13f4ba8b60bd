#include "trainer/files/bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "trainer/files/file_system.h"

namespace normball::trainer::files {
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

Bytes Bytes::map(const std::filesystem::path& path) {
  // O_NONBLOCK: a pipe without a writer must not hang before it can be refused.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) throw FileError(where, "opening", path, errno);
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) throw FileError(where, "examining", path, errno);
  if (!S_ISREG(status.st_mode)) {
    throw FileError(where, path, S_ISDIR(status.st_mode) ? EISDIR : EINVAL,
                    S_ISDIR(status.st_mode) ? "is a directory; name a file"
                                            : "is not a regular file; name a file");
  }
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return {};
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (address == MAP_FAILED) throw FileError(where, "mapping", path, errno);
  return {std::make_shared<const Mapping>(address, size),
          {static_cast<const std::uint8_t*>(address), size}};
}

}  // namespace normball::trainer::files
