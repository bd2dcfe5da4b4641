// TCP sockets; errors become tvm::ffi errors.
#pragma once

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <tvm/ffi/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace tvm::support {

struct SockAddr {
  SockAddr(const char* host, int port) : text(std::string(host) + ":" + std::to_string(port)) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    int rc = getaddrinfo(host, std::to_string(port).c_str(), &hints, &found);
    if (rc != 0) TVM_FFI_THROW(RuntimeError) << "cannot resolve " << text << ": " << gai_strerror(rc);
    std::memcpy(&addr, found->ai_addr, found->ai_addrlen);
    size = found->ai_addrlen;
    freeaddrinfo(found);
  }
  int ss_family() const { return addr.ss_family; }
  const std::string& AsString() const { return text; }

  sockaddr_storage addr{};
  socklen_t size = 0;
  std::string text;
};

class Socket {
 public:
  using SockType = int;
  Socket() = default;
  explicit Socket(SockType fd) : fd_(fd) {}

  static void Error(const char* what) {
    TVM_FFI_THROW(RuntimeError) << what << ": " << std::strerror(errno);
  }
  bool BadSocket() const { return fd_ < 0; }
  void Close() {
    close(fd_);
    fd_ = -1;
  }

 protected:
  SockType fd_ = -1;
};

class TCPSocket : public Socket {
 public:
  using Socket::Socket;

  void Create(int family) {
    fd_ = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd_ < 0) Error("socket");
  }
  bool Connect(const SockAddr& to) {
    return connect(fd_, reinterpret_cast<const sockaddr*>(&to.addr), to.size) == 0;
  }
  ssize_t Send(const void* data, size_t size) {
    return Retry([&] { return send(fd_, data, size, MSG_NOSIGNAL); });
  }
  ssize_t Recv(void* data, size_t size) {
    return Retry([&] { return recv(fd_, data, size, 0); });
  }
  size_t SendAll(const void* data, size_t size) {
    return All(size, [&](size_t done) { return Send(static_cast<const char*>(data) + done, size - done); });
  }
  size_t RecvAll(void* data, size_t size) {
    return All(size, [&](size_t done) { return Recv(static_cast<char*>(data) + done, size - done); });
  }

 private:
  template <typename Call>
  static ssize_t Retry(Call call) {
    ssize_t n;
    do {
      n = call();
    } while (n < 0 && errno == EINTR);
    return n;
  }
  template <typename Step>
  static size_t All(size_t size, Step step) {
    size_t done = 0;
    while (done < size) {
      ssize_t n = step(done);
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
    return done;
  }
};

}  // namespace tvm::support
