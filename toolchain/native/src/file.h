// Open files: who closes them, and reading and writing that a signal does not end.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace edge {

// The owner of a file descriptor; none if it is negative.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { Close(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void Close();
  // The caller owns it from now on.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// Both ends of a pipe, which a program that is started does not inherit. Throws where there is none to be had.
struct Pipe {
  Pipe();
  Fd from, to;
};

// A file that is open for reading.
class File {
 public:
  // A pipe without a writer keeps nobody waiting; whether it opened is for the caller to ask.
  explicit File(const std::string& path);

  int fd() const { return fd_.get(); }
  // Bytes; -1 for what is no ordinary file.
  int64_t Size() const;

 private:
  Fd fd_;
};

// As read(2), but begun again after a signal.
ssize_t ReadSome(int fd, void* to, size_t most);
// Reads until there are so many bytes, or the file's end; returns how many, or -1 with errno.
ssize_t ReadWhole(int fd, void* to, size_t bytes);
// False, with errno, if not all could be written.
bool WriteWhole(int fd, std::string_view bytes);

}  // namespace edge
