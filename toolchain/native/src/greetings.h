// Clients that have connected and not yet said whom they want: magic, length, "client:KEY -timeout=S".
// Several at a time, each for a few seconds: one that is silent keeps nobody waiting.
#pragma once

#include <poll.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "peer.h"

namespace edge {

class Greetings {
 public:
  // Whether strangers may connect as well.
  explicit Greetings(bool any_peer) : any_peer_(any_peer) {}
  ~Greetings() { Close(); }
  Greetings(const Greetings&) = delete;
  Greetings& operator=(const Greetings&) = delete;

  // Takes one connection; where there are too many, the oldest goes.
  void Accept(int listener);
  // Adds what to wait for.
  void Await(std::vector<pollfd>* waits) const;
  // Reads what has come; once it is all there, says it, and the connection is the caller's.
  std::optional<std::string> Read(int fd);
  bool empty() const { return waiting_.empty(); }
  // When the first of them has to be dismissed.
  std::optional<std::chrono::steady_clock::time_point> Next() const;
  void CheckDeadlines();
  void Close();

 private:
  struct Greeting {
    int fd;
    std::string bytes;
    std::chrono::steady_clock::time_point deadline;
  };
  using Place = std::vector<Greeting>::iterator;
  void Dismiss(Place at);

  bool any_peer_;
  Complaints complaints_;
  std::vector<Greeting> waiting_;  // the oldest first
};

}  // namespace edge
