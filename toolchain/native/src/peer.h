// Who is at the other end of a connection. Loopback is no boundary between a machine's users.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace edge {

// Why the other end of a connected socket is none of ours; nothing if it is. Ours are this process's
// user, and root, who may do what that user may anyway, and as whom some SSH servers forward
// connections. The kernel's table of connections names the owner; what it does not answer is no.
std::optional<std::string> Stranger(int fd);

// Says who was sent away, one line in ten seconds: others must not fill our log.
class Complaints {
 public:
  void Say(const std::string& words);

 private:
  std::chrono::steady_clock::time_point next_;
  int unsaid_ = 0;
};

}  // namespace edge
