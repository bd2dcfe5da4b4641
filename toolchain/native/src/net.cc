#include "net.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>

#include "edge_rt.h"
#include "failure.h"

namespace edge {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses Resolve(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) found = nullptr;
  return Addresses(found, freeaddrinfo);
}

void SetOption(int fd, int level, int name, const void* value, socklen_t size) {
  // Only timeouts and latencies are set: without them things get slower, not wrong.
  if (setsockopt(fd, level, name, value, size) != 0) errno = 0;
}

bool Finished(int fd, int ms) {
  pollfd wait{fd, POLLOUT, 0};
  int error = 0;
  socklen_t size = sizeof(error);
  return poll(&wait, 1, ms) == 1 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 &&
         error == 0;
}

}  // namespace

int ConnectTo(const std::string& host, int port, int ms) {
  const Addresses addresses = Resolve(host, port, 0);
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) continue;
    if (connect(fd, at->ai_addr, at->ai_addrlen) == 0 ||
        (errno == EINPROGRESS && Finished(fd, ms))) {
      fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
      const timeval patience{ms / 1000, ms % 1000 * 1000};
      SetOption(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
      SetOption(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
      return fd;
    }
    close(fd);
  }
  return -1;
}

int ListenOn(const std::string& host, int* port) {
  const Addresses addresses = Resolve(host, *port, AI_PASSIVE | AI_NUMERICHOST);
  if (addresses == nullptr) throw Usage("--host " + host + ": not a numeric address");
  const int fd = socket(addresses->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int yes = 1;
  if (fd >= 0) SetOption(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (fd < 0 || bind(fd, addresses->ai_addr, addresses->ai_addrlen) != 0 || listen(fd, 16) != 0) {
    Failure failure = Io("cannot listen on " + host + ":" + std::to_string(*port));
    failure.kind = "listen";
    if (fd >= 0) close(fd);
    throw failure;
  }
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
  // Both families keep the port at the same place.
  *port = ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
  return fd;
}

bool SendAll(int fd, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = send(fd, at, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= n;
  }
  return true;
}

bool ReceiveAll(int fd, void* data, size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t n = recv(fd, at, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= n;
  }
  return true;
}

bool SendText(int fd, const std::string& text) {
  const auto size = static_cast<int32_t>(text.size());
  std::string packet(reinterpret_cast<const char*>(&size), sizeof(size));
  packet += text;
  return SendAll(fd, packet.data(), packet.size());
}

}  // namespace edge
