// A child process that leads a process group of its own.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

namespace edge {

// How a process ended: with a code, or by a signal.
struct Exit {
  int signal;  // 0: none
  int code;    // 0 after a signal
};

// The first thing that a forked child does: it leads a group of its own, ends with its parent, and leaves no core file,
// for what is tried in it may well crash.
void BeginChild(pid_t parent);

// Whoever waits for a child with this class leaves it unreaped until its group was killed: until then neither its number
// nor its group's can be given to another process, which would be killed in its place.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}

  pid_t pid() const { return pid_; }
  // How it ended, as soon as it has; nothing if it still runs when patience is over. Throws if this process has no such
  // child.
  std::optional<Exit> Await(std::chrono::nanoseconds patience = {}) const;
  // Kills it and its group, then reaps it; whether it had ended when patience was over. A process that a driver or a disk
  // keeps in the kernel does not end.
  bool End(std::chrono::nanoseconds patience) const;

 private:
  pid_t pid_;
};

}  // namespace edge
