#include "child.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "failure.h"

namespace edge {
namespace {

using Clock = std::chrono::steady_clock;

// Other units are compared as long doubles, by zig's objects, which bring zig's memcpy along on aarch64.
constexpr std::chrono::nanoseconds kPause(2'000'000);

}  // namespace

void BeginChild(pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  const rlimit none{0, 0};
  if (setrlimit(RLIMIT_CORE, &none) != 0) errno = 0;
}

std::optional<Exit> Child::Await(std::chrono::nanoseconds patience) const {
  const auto until = Clock::now() + patience;
  while (true) {
    siginfo_t now{};
    if (waitid(P_PID, static_cast<id_t>(pid_), &now, WEXITED | WNOHANG | WNOWAIT) != 0) {
      if (errno != EINTR) throw Io("cannot wait for a process");
    } else if (now.si_pid == pid_) {
      return now.si_code == CLD_EXITED ? Exit{0, now.si_status} : Exit{now.si_status, 0};
    }
    if (Clock::now() >= until) return std::nullopt;
    std::this_thread::sleep_for(kPause);
  }
}

bool Child::End(std::chrono::nanoseconds patience) const {
  Await();  // throws unless the number is this child's
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);  // it may not have its group yet
  if (!Await(patience)) return false;
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  return true;
}

}  // namespace edge
