#include "lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>

#include "edge_rt.h"
#include "failure.h"
#include "text.h"

namespace edge {

// Others read one short line.
constexpr size_t kMostWords = 120;

// What stands in the lock, if it is what a holder writes; not if that has only just begun, or if it
// is somebody else's words.
static std::string Holder(const std::string& line) {
  int pid = 0, words = 0;
  if (std::sscanf(line.c_str(), "{\"pid\": %9d, \"what\": %n", &pid, &words) != 1 || words == 0 ||
      line.back() != '}') {
    return "";
  }
  const std::string what = line.substr(words, line.size() - words - 1);
  if (!IsQuoted(what)) return "";
  return "{\"pid\": " + std::to_string(pid) + ", \"what\": " + what + "}";
}

MeasureLock::MeasureLock(const std::string& state, const std::string& what, double seconds) {
  using Clock = std::chrono::steady_clock;
  const std::string path = state + "/measure.lock";
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd_ < 0) throw Io("cannot open " + path);
  if (fchmod(fd_, 0600) != 0) errno = 0;  // whatever the umask
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  while (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      Failure failure = Io("cannot lock " + path);
      close(fd_);
      throw failure;
    }
    if (Clock::now() >= deadline) {
      const std::string holder = Holder(FirstLine(path).value_or(""));
      close(fd_);
      throw Failure(EDGE_BUSY, "busy", "another measurement is running: " + holder,
                    ", \"holder\": " + (holder.empty() ? "null" : holder));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  // Who holds it, for those that wait; a failure to say so is no reason not to measure.
  const std::string text = "{\"pid\": " + std::to_string(getpid()) +
                           ", \"what\": " + Quote(what.substr(0, kMostWords)) + "}\n";
  if (ftruncate(fd_, 0) != 0 || pwrite(fd_, text.data(), text.size(), 0) < 0) errno = 0;
}

MeasureLock::~MeasureLock() {
  if (ftruncate(fd_, 0) != 0) errno = 0;
  close(fd_);
}

}  // namespace edge
