// A file that is open for reading, until the end of the block.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <string>

namespace edge {

class File {
 public:
  // A pipe without a writer keeps nobody waiting; whether it opened is for the caller to ask.
  explicit File(const std::string& path)
      : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int fd() const { return fd_; }
  // Bytes; -1 for what is no ordinary file.
  int64_t Size() const {
    struct stat status {};
    return fstat(fd_, &status) == 0 && S_ISREG(status.st_mode) ? status.st_size : -1;
  }

 private:
  int fd_;
};

}  // namespace edge
