#include "peer.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

namespace edge {
namespace {

constexpr auto kQuiet = std::chrono::seconds(10);
// The kernel shows its table piece by piece, meanwhile it changes: a connection may be missed once.
constexpr int kAttempts = 3;
constexpr unsigned kEstablished = 1;

// An address as /proc writes it: memory in words of this machine.
template <typename Address>
std::string Hex(const Address& address) {
  uint32_t words[sizeof(Address) / sizeof(uint32_t)];
  std::memcpy(words, &address, sizeof(words));
  std::string out;
  for (const uint32_t word : words) {
    char text[9];
    std::snprintf(text, sizeof(text), "%08X", word);
    out += text;
  }
  return out;
}

std::string Port(in_port_t port) {
  char text[8];
  std::snprintf(text, sizeof(text), ":%04X", ntohs(port));
  return text;
}

// One end, as it stands in each of the two tables; empty where it cannot stand there.
struct End {
  std::string v4, v6;
  bool loopback = false;
};

End Written(const sockaddr_storage& address) {
  End end;
  in_addr v4{};
  in_port_t port = 0;
  if (address.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address);
    v4 = in.sin_addr;
    port = in.sin_port;
  } else if (address.ss_family == AF_INET6) {
    const auto& in6 = reinterpret_cast<const sockaddr_in6&>(address);
    if (!IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) {
      end.v6 = Hex(in6.sin6_addr) + Port(in6.sin6_port);
      end.loopback = IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
      return end;
    }
    std::memcpy(&v4, &in6.sin6_addr.s6_addr[12], sizeof(v4));
    port = in6.sin6_port;
  } else {
    return end;
  }
  in6_addr mapped{};
  mapped.s6_addr[10] = mapped.s6_addr[11] = 0xff;
  std::memcpy(&mapped.s6_addr[12], &v4, sizeof(v4));
  end.v4 = Hex(v4) + Port(port);
  end.v6 = Hex(mapped) + Port(port);
  end.loopback = ntohl(v4.s_addr) >> 24 == 127;
  return end;
}

// The owner of the connection from `from` to `to`. One without an inode belongs to nobody any more,
// and is listed as root's.
std::optional<uid_t> OwnerOf(const char* table, const std::string& from, const std::string& to,
                             bool* readable) {
  FILE* file = from.empty() ? nullptr : std::fopen(table, "re");
  if (file == nullptr) return std::nullopt;
  *readable = true;
  std::vector<char> buffer(1 << 16);
  std::setvbuf(file, buffer.data(), _IOFBF, buffer.size());
  std::optional<uid_t> owner;
  char line[512];
  while (!owner && std::fgets(line, sizeof(line), file) != nullptr) {
    char local[48], remote[48];
    unsigned state, uid;
    unsigned long inode;
    // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion,cert-err34-c): the kernel's own table
    if (std::sscanf(line, "%*s %47s %47s %x %*s %*s %*s %u %*s %lu", local, remote, &state, &uid,
                    &inode) == 5 &&
        state == kEstablished && inode != 0 && from == local && to == remote) {
      owner = uid;
    }
  }
  std::fclose(file);
  return owner;
}

}  // namespace

std::optional<std::string> Stranger(int fd) {
  sockaddr_storage here{}, there{};
  socklen_t here_size = sizeof(here), there_size = sizeof(there);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_size) != 0 ||
      getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_size) != 0) {
    return std::string("somebody who has left: ") + std::strerror(errno);
  }
  const End own = Written(here), other = Written(there);
  if (!other.loopback) return "an address of another machine, whose user cannot be told";
  bool readable = false;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::optional<uid_t> owner = OwnerOf("/proc/net/tcp", other.v4, own.v4, &readable);
    if (!owner) owner = OwnerOf("/proc/net/tcp6", other.v6, own.v6, &readable);
    if (owner && (*owner == geteuid() || *owner == 0)) return std::nullopt;
    if (owner) return "user id " + std::to_string(*owner);
  }
  return std::string("a user who cannot be told: ") +
         (readable ? "the connection is not in" : "cannot read") + " /proc/net/tcp";
}

void Complaints::Say(const std::string& words) {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) {
    ++unsaid_;
    return;
  }
  next_ = now + kQuiet;
  const std::string more = unsaid_ == 0 ? "" : " (" + std::to_string(unsaid_) + " more since then)";
  unsaid_ = 0;
  std::fprintf(stderr, "edge-rt: %s%s\n", words.c_str(), more.c_str());
}

}  // namespace edge
