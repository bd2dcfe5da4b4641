#include "probe.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "device.h"
#include "failure.h"
#include "text.h"

namespace edge {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostAnswer = 256 << 10;
constexpr auto kReaped = std::chrono::seconds(1);

[[noreturn]] void Answer(const DeviceKind& kind, int pipe, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  // What the driver prints is no part of our document, and a driver that can't be killed must not hold
  // the files of whoever waits for this program's end.
  const int null = open("/dev/null", O_RDWR);
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) dup2(null, fd);
  std::string answer;
  try {
    answer = JsonKind(kind.name, kind.probe());
  } catch (const std::exception& error) {
    answer = JsonKind(kind.name, {{}, error.what(), {}});
  }
  for (size_t done = 0; done < answer.size();) {
    const ssize_t wrote = write(pipe, answer.data() + done, answer.size() - done);
    if (wrote <= 0) _exit(1);
    done += wrote;
  }
  _exit(0);  // no exit handlers: drivers have some that hang
}

// What comes until the pipe's end; false when time ran out before.
bool ReadAll(int pipe, Clock::time_point until, std::string* answer) {
  while (answer->size() < kMostAnswer) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd wait{pipe, POLLIN, 0};
    const int ready = left <= 0 ? 0 : poll(&wait, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    char bytes[4096];
    const ssize_t got = read(pipe, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    answer->append(bytes, got);
  }
  return true;
}

// The signal that ended it; 0 for none. One that is stuck in the kernel is left behind.
int Reap(pid_t child) {
  const auto until = Clock::now() + kReaped;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() >= until) return 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

std::string Ask(const DeviceKind& kind, double seconds) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Io("pipe");
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    close(ends[0]);
    Answer(kind, ends[1], parent);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    throw Io("fork");
  }
  std::string answer;
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(seconds));
  const bool ended = ReadAll(ends[0], until, &answer);
  close(ends[0]);
  // Also what it left running; it may have ended before it had a group of its own.
  const int signal = ended ? Reap(child) : 0;
  kill(-child, SIGKILL);
  kill(child, SIGKILL);
  if (!ended) Reap(child);
  if (ended && signal == 0 && answer.ends_with("}")) return answer;
  const std::string why =
      !ended ? "its driver did not answer within " + JsonNumber(seconds) + " s"
      : signal != 0 ? std::string("its driver ended the process that asked it: ") + strsignal(signal)
                    : "its driver ended the process that asked it";
  return JsonKind(kind.name, {{}, why, {}});
}

}  // namespace

std::string JsonDevicesApart(double seconds) {
  std::string list;
  for (const DeviceKind& kind : DeviceKinds()) {
    list += (list.empty() ? "" : ", ") +
            (kind.driver ? Ask(kind, seconds) : JsonKind(kind.name, kind.probe()));
  }
  return "[" + list + "]";
}

}  // namespace edge
