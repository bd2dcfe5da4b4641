#include "net.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
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

bool Ready(int fd, short events, Deadline until) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    pollfd wait{fd, events, 0};
    const int n = poll(&wait, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
    if (n >= 0 || errno != EINTR) return n == 1;
  }
}

bool Finished(int fd, Deadline until) {
  int error = 0;
  socklen_t size = sizeof(error);
  return Ready(fd, POLLOUT, until) &&
         getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

// step(done) moves bytes without waiting and says how many.
template <typename Step>
bool All(int fd, short events, size_t size, Deadline until, Step step) {
  size_t done = 0;
  while (done < size) {
    if (!Ready(fd, events, until)) return false;
    const ssize_t n = step(done);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return false;
    done += n;
  }
  return true;
}

}  // namespace

int ConnectTo(const std::string& host, int port, Deadline until) {
  const Addresses addresses = Resolve(host, port, 0);
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) continue;
    if (connect(fd, at->ai_addr, at->ai_addrlen) == 0 ||
        (errno == EINPROGRESS && Finished(fd, until))) {
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
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 || bind(fd, addresses->ai_addr, addresses->ai_addrlen) != 0 || listen(fd, 16) != 0) {
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

bool SendAll(int fd, const void* data, size_t size, Deadline until) {
  const char* from = static_cast<const char*>(data);
  return All(fd, POLLOUT, size, until, [&](size_t done) {
    return send(fd, from + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
  });
}

bool ReceiveAll(int fd, void* data, size_t size, Deadline until) {
  char* to = static_cast<char*>(data);
  return All(fd, POLLIN, size, until,
             [&](size_t done) { return recv(fd, to + done, size - done, MSG_DONTWAIT); });
}

bool SendText(int fd, const std::string& text, Deadline until) {
  const auto size = static_cast<int32_t>(text.size());
  std::string packet(reinterpret_cast<const char*>(&size), sizeof(size));
  packet += text;
  return SendAll(fd, packet.data(), packet.size(), until);
}

}  // namespace edge
