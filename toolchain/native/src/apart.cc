#include "apart.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <optional>

#include "child.h"
#include "edge_rt.h"
#include "failure.h"
#include "file.h"

namespace edge {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kReaped = std::chrono::seconds(1);
constexpr int kPipe = STDERR_FILENO + 1, kMostFiles = 4096;

[[noreturn]] void Work(const std::function<std::string()>& work, int pipe, pid_t parent) {
  BeginChild(parent);
  // What it prints is no part of our document, and what can't be killed must not hold the files of whoever waits for
  // this program's end.
  const int null = open("/dev/null", O_RDWR);
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) dup2(null, fd);
  if (dup2(pipe, kPipe) < 0) _exit(1);  // after that: `null` may have this number
  // It may write to whatever is open: to the parent's files, too.
  for (int fd = kPipe + 1; fd < kMostFiles; ++fd) close(fd);
  std::string answer;
  try {
    answer = work();
  } catch (...) {
    _exit(1);
  }
  _exit(WriteWhole(kPipe, answer) ? 0 : 1);  // no exit handlers: drivers have some that hang
}

enum class Heard { kWhole, kLate, kUnwanted };

// What comes until the pipe's end, or until it is too much; unless time runs out before, or the client leaves.
Heard ReadAll(int pipe, Clock::time_point until, size_t most, int client, std::string* answer) {
  while (answer->size() < most) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd waits[] = {{pipe, POLLIN, 0}, {client, POLLRDHUP, 0}};  // one that is negative is passed over
    const int ready = left <= 0 ? 0 : poll(waits, std::size(waits), static_cast<int>(std::min<int64_t>(left, 1 << 30)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return Heard::kLate;
    if (waits[1].revents != 0) return Heard::kUnwanted;
    char bytes[4096];
    const ssize_t got = read(pipe, bytes, std::min(sizeof bytes, most - answer->size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    answer->append(bytes, got);
  }
  return Heard::kWhole;
}

}  // namespace

Ended RunApart(const std::function<std::string()>& work, double seconds, size_t most, int client) {
  Pipe pipe;
  const pid_t parent = getpid(), child = fork();
  if (child == 0) Work(work, pipe.to.get(), parent);
  if (child < 0) throw Io("fork");
  pipe.to.Close();
  const Child process(child);
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  Ended ended{};
  const Heard heard = ReadAll(pipe.from.get(), until, most, client, &ended.answer);
  pipe.from.Close();
  std::optional<Exit> exit;
  // Its answer may come just in time: it has a moment more to end.
  if (heard == Heard::kWhole) exit = process.Await(std::max<Clock::duration>(until - Clock::now(), kReaped));
  process.End(kReaped);  // also what it left running; one that is stuck in the kernel is left behind
  if (heard == Heard::kUnwanted) throw Failure(EDGE_FAILED, "left", "the client has left");
  ended.in_time = exit.has_value();
  if (exit) {
    ended.signal = exit->signal;
    ended.code = exit->code;
  }
  return ended;
}

}  // namespace edge
