// One RPC session: the child process's side.
#pragma once

#include <string>

#include "cpu.h"

namespace edge {

struct SessionSettings {
  std::string state;   // holds the measure lock
  std::string folder;  // the session's own, empty
  int threads;
  std::string cluster;
  int spin_us;
  std::string whom;    // as ForWhom returns it
  double timeout;  // seconds that a measurement waits for the lock
};

// Serves the connected socket until the client leaves. Only in a process of its own.
void ServeSession(int socket, const SessionSettings& settings);

// Answers the client's outstanding call with TVM's RPCSessionTimeoutError.
// wait: what the session waited for when its time was up, if it waited for the lock.
void AnswerTimeout(int socket, double timeout, const std::string& wait);

}  // namespace edge
