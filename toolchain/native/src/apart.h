// Work that may crash, hang or spoil memory, in a process of its own.
#pragma once

#include <functional>
#include <string>

namespace edge {

struct Ended {
  std::string answer;
  bool in_time;  // it ended by itself before its time was over, or a second after its answer; else it was killed
  int signal;    // that ended it; 0: none
  int code;      // with which it ended by itself; 0 after a signal
};

// Forks, and returns what `work` returned there: at most `most` bytes of it, however they came about. It has so many
// seconds. What it prints goes nowhere, and all that it started in its process group ends with it. Only while this
// process has one thread. `client`: a socket; once its other end is closed nobody waits for the answer: then the work is
// ended, and this throws. -1: there is none.
Ended RunApart(const std::function<std::string()>& work, double seconds, size_t most, int client = -1);

}  // namespace edge
