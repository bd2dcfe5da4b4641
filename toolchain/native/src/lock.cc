#include "lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <optional>

#include "edge_rt.h"
#include "queue.h"
#include "text.h"

namespace edge {
namespace {

// Others read one short line.
constexpr size_t kMostWords = 120;
// How often the first of those that wait tries the lock, and the others look whether the one before them has gone.
constexpr std::chrono::milliseconds kNextTry(10), kNextLook(50);
// The first one sleeps (it was stopped) if so many looks in a row, for each one that is ahead, find a free lock.
constexpr size_t kFreeLooks = 20;

Failure Busy(const std::string& state, const Ticket* mine, const std::optional<Words>& held, bool is_free) {
  std::string holder = held ? "{" + held->Json() + "}" : "";
  size_t ahead = 0;
  for (const Waiter& waiter : Waiters(state)) {
    if (mine != nullptr && !mine->IsBehind(waiter)) continue;
    if (is_free && ++ahead == 1) holder = "{" + waiter.words.Json() + "}";  // whose turn it is
    if (!is_free) ++ahead;
  }
  if (is_free && ahead > 0) --ahead;
  return Failure(EDGE_BUSY, "busy",
                 Cat({"another measurement is running: ", holder, ahead > 0 ? Cat({"; ", ahead, " more wait for it"}) : ""}),
                 Cat({", \"holder\": ", holder.empty() ? "null" : holder, ", \"ahead\": ", ahead}));
}

// Less than a second. Not sleep_for: it compares long doubles, whose functions bring zig's own memcpy into code for aarch64.
void Sleep(std::chrono::nanoseconds time) {
  const timespec pause{0, static_cast<long>(time.count())};
  nanosleep(&pause, nullptr);
}

}  // namespace

MeasureLock::MeasureLock(const std::string& state, const std::string& what, double seconds, const std::string& whom) {
  const std::string path = state + "/measure.lock";
  file_ = Fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file_) throw Io("cannot open " + path);
  if (fchmod(file_.get(), 0600) != 0) errno = 0;  // whatever the umask
  const Words words{static_cast<int>(getpid()), Quote(what.substr(0, kMostWords) + whom)};
  Wait(state, "{" + words.Json() + "}\n", seconds);
}

void MeasureLock::Wait(const std::string& state, const std::string& words, double seconds) {
  using std::chrono::steady_clock;
  if (Waiters(state).empty() && Take(words)) return;
  const auto busy = [&](const Ticket* mine) {
    const bool is_free = IsFree();
    return Busy(state, mine, is_free ? std::nullopt : ReadWords(file_.get()), is_free);
  };
  Ticket ticket(state, words);  // none is made before Ahead
  if (seconds <= 0) {
    for (size_t free = 0; IsFree(); Sleep(kNextLook)) {
      if (Waiters(state).empty() && Take(words)) return;  // somebody had only looked
      if (++free <= kFreeLooks) continue;
      ticket.PassFirst();
      free = 0;
    }
    throw busy(nullptr);
  }
  const auto deadline = steady_clock::now() + std::chrono::duration<double>(seconds);
  for (size_t free = 0;;) {
    const size_t ahead = ticket.Ahead();
    if (ahead == 0 && Take(words)) return;
    const auto left = deadline - steady_clock::now();
    if (left <= left.zero()) throw busy(&ticket);
    free = ahead > 0 && IsFree() ? free + 1 : 0;
    if (free > kFreeLooks * ahead) {
      ticket.PassFirst();
      free = 0;
    }
    const std::chrono::nanoseconds next = ahead > 0 ? kNextLook : kNextTry;
    Sleep(left < next ? std::chrono::duration_cast<std::chrono::nanoseconds>(left) : next);
  }
}

bool MeasureLock::Take(const std::string& words) {
  if (flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) throw Io("cannot lock measure.lock in the state folder");
    return false;
  }
  // Who holds it, for those that wait; a failure to say so is no reason not to measure.
  if (ftruncate(file_.get(), 0) != 0 || pwrite(file_.get(), words.data(), words.size(), 0) < 0) errno = 0;
  return true;
}

bool MeasureLock::IsFree() {
  if (flock(file_.get(), LOCK_SH | LOCK_NB) != 0) return false;
  flock(file_.get(), LOCK_UN);
  return true;
}

MeasureLock::~MeasureLock() {
  if (ftruncate(file_.get(), 0) != 0) errno = 0;
}

}  // namespace edge
