#include "file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "failure.h"

namespace edge {

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

// Whoever closes a file because of an error still has that error to tell.
void Fd::Close() {
  if (fd_ < 0) return;
  const int error = errno;
  close(Release());
  errno = error;
}

Pipe::Pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Io("pipe");
  from = Fd(ends[0]);
  to = Fd(ends[1]);
}

File::File(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}

int64_t File::Size() const {
  struct stat status {};
  return fstat(fd(), &status) == 0 && S_ISREG(status.st_mode) ? status.st_size : -1;
}

ssize_t ReadSome(int fd, void* to, size_t most) {
  ssize_t got;
  do {
    got = read(fd, to, most);
  } while (got < 0 && errno == EINTR);
  return got;
}

ssize_t ReadWhole(int fd, void* to, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = ReadSome(fd, static_cast<char*>(to) + done, bytes - done);
    if (got < 0) return -1;
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return static_cast<ssize_t>(done);
}

bool WriteWhole(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(wrote));
  }
  return true;
}

}  // namespace edge
