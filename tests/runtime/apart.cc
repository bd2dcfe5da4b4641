// Runs work of the named case by RunApart, and prints what came of it and whom this process killed meanwhile.
#include "apart.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string_view>

#include "failure.h"

namespace {

constexpr double kSeconds = 0.2, kPlenty = 60;
constexpr size_t kMost = 100;  // bytes
constexpr int kPipe = 3;       // where the work's answer goes

int strangers = 0;  // that were killed, or would have been: their number was no child's any more

std::string Work(std::string_view name) {
  if (name == "crashes") raise(SIGSEGV);
  if (name == "fails") _exit(7);
  if (name == "hangs") pause();
  if (name == "answers and hangs") {
    if (write(kPipe, "answer", 6) != 6) _exit(1);
    close(kPipe);
    pause();
  }
  if (name == "leaves a process" && fork() == 0) {
    close(kPipe);
    pause();
  }
  return "answer";
}

// How many children RunApart left, each waited for: it has killed them all.
int Left() {
  alarm(30);
  int left = 0;
  while (waitpid(-1, nullptr, 0) >= 0) ++left;
  return left;
}

}  // namespace

// In place of the C library's.
extern "C" int kill(pid_t pid, int signal) noexcept {
  siginfo_t now{};
  if (waitid(P_PID, static_cast<id_t>(pid < 0 ? -pid : pid), &now, WEXITED | WNOHANG | WNOWAIT) != 0) ++strangers;
  return static_cast<int>(syscall(SYS_kill, pid, signal));
}

int main(int, char** argv) {
  const std::string_view name = argv[1];
  if (name == "hidden") std::signal(SIGCHLD, SIG_IGN);  // then nobody is told how children end
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // what the work leaves becomes a child of this process
  const bool late = name == "hangs" || name == "answers and hangs";
  try {
    const edge::Ended ended = edge::RunApart([=] { return Work(name); }, late ? kSeconds : kPlenty, kMost);
    std::printf("{\"answer\": \"%s\", \"in_time\": %s, \"signal\": %d, \"code\": %d, ", ended.answer.c_str(),
                ended.in_time ? "true" : "false", ended.signal, ended.code);
  } catch (const edge::Failure& failure) {
    std::printf("{\"failure\": \"%s\", ", failure.kind.c_str());
  }
  std::printf("\"strangers\": %d, \"left\": %d}\n", strangers, Left());
}
