#include "greetings.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <tuple>

#include "protocol.h"

namespace edge {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int32_t kMostKeyBytes = 4096;
constexpr size_t kMostGreetings = 16;
constexpr auto kSilence = std::chrono::seconds(5);
constexpr int kIdleS = 60, kSignS = 15, kSigns = 4;

}  // namespace

void Greetings::Accept(int listener) {
  const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  const auto stranger = any_peer_ ? std::nullopt : Stranger(fd);
  if (stranger) {
    close(fd);
    return complaints_.Say("refused a connection from " + *stranger +
                           "; --any-peer would let it in");
  }
  // An answer that wraps around in the ring buffer is sent in two pieces: no waiting in between.
  // A client whose power or network is cut says nothing at all: without signs of life its session ends.
  const std::tuple<int, int, int> options[] = {{IPPROTO_TCP, TCP_NODELAY, 1},
                                               {SOL_SOCKET, SO_KEEPALIVE, 1},
                                               {IPPROTO_TCP, TCP_KEEPIDLE, kIdleS},
                                               {IPPROTO_TCP, TCP_KEEPINTVL, kSignS},
                                               {IPPROTO_TCP, TCP_KEEPCNT, kSigns}};
  for (const auto& [level, name, value] : options) {
    if (setsockopt(fd, level, name, &value, sizeof(value)) != 0) errno = 0;
  }
  if (waiting_.size() == kMostGreetings) Dismiss(waiting_.begin());
  waiting_.push_back({fd, "", Clock::now() + kSilence});
}

void Greetings::Await(std::vector<pollfd>* waits) const {
  for (const Greeting& greeting : waiting_) waits->push_back({greeting.fd, POLLIN, 0});
}

std::optional<std::string> Greetings::Read(int fd) {
  const auto at = std::find_if(waiting_.begin(), waiting_.end(),
                               [fd](const Greeting& greeting) { return greeting.fd == fd; });
  if (at == waiting_.end()) return std::nullopt;
  char bytes[kMostKeyBytes];
  // Not a byte more than the greeting: what follows belongs to the session.
  int32_t head[2] = {0, 0};
  const size_t have = at->bytes.size();
  std::memcpy(head, at->bytes.data(), std::min(have, sizeof(head)));
  const size_t needed = have < sizeof(head) ? sizeof(head) : sizeof(head) + head[1];
  const ssize_t n = recv(fd, bytes, needed - have, 0);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return std::nullopt;
  if (n > 0) {
    at->bytes.append(bytes, n);
    if (at->bytes.size() < sizeof(head)) return std::nullopt;
    std::memcpy(head, at->bytes.data(), sizeof(head));
    if (head[0] == kRpcMagic && head[1] > 0 && head[1] <= kMostKeyBytes) {
      if (at->bytes.size() < sizeof(head) + head[1]) return std::nullopt;
      std::string words = at->bytes.substr(sizeof(head));
      waiting_.erase(at);
      return words;
    }
  }
  Dismiss(at);
  return std::nullopt;
}

std::optional<Clock::time_point> Greetings::Next() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.front().deadline;
}

void Greetings::CheckDeadlines() {
  while (!waiting_.empty() && Clock::now() >= waiting_.front().deadline) Dismiss(waiting_.begin());
}

void Greetings::Close() {
  while (!waiting_.empty()) Dismiss(waiting_.begin());
}

void Greetings::Dismiss(Place at) {
  close(at->fd);
  waiting_.erase(at);
}

}  // namespace edge
