// Who waits for the lock of a board's measurements, in the order of arrival: a file for each in the folder measure.queue
// of the state folder, which its process keeps locked while it waits. (docs/decisions/0082)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "file.h"
#include "options.h"

namespace edge {

// What a process says of itself: in the lock that it holds, and in its ticket.
struct Words {
  int pid;
  std::string what;  // JSON

  std::string Json() const;  // without braces
};

// The first line of what a descriptor has, if that is what Json wrote. Not if it has only just begun, or is somebody
// else's.
std::optional<Words> ReadWords(int fd);
// " for USER@HOST" if the host said who it is, else "".
std::string ForWhom(const Options& options);

struct Waiter {
  std::string ticket;  // its file's name: in the order of arrival
  Words words;
  double waited_s;
};

// The first one first. Removes the tickets of processes that have ended, and whatever else lies there.
std::vector<Waiter> Waiters(const std::string& state);
// JSON: who holds the lock, and who waits for it.
std::string HolderOf(const std::string& state);
std::string JsonQueue(const std::string& state);

// The place of this process among those that wait.
class Ticket {
 public:
  Ticket(std::string state, std::string words);
  ~Ticket();
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  // How many are to have the lock before this process. Where no file can be made (the disk is full, or too many wait),
  // all that wait.
  size_t Ahead();
  // Takes the first one's ticket away, which makes itself another one if it lives.
  void PassFirst();
  bool IsBehind(const Waiter& other) const { return !file_ || other.ticket < name_; }

 private:
  bool Stands() const;
  void Make();
  void Drop();

  std::string state_, words_, name_;
  int64_t arrival_;
  int64_t looked_ = 0;  // at the whole folder, or 0
  size_t ahead_ = 0;
  Fd file_;    // its own
  Fd before_;  // of the one before it
};

}  // namespace edge
