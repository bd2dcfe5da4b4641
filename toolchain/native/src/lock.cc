#include "lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "edge_rt.h"
#include "failure.h"
#include "text.h"

namespace edge {

// Others read one short line.
constexpr size_t kMostWords = 120;

MeasureLock::MeasureLock(const std::string& state, const std::string& what, double seconds) {
  using Clock = std::chrono::steady_clock;
  const std::string path = state + "/measure.lock";
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd_ < 0) throw Io("cannot open " + path);
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  while (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      Failure failure = Io("cannot lock " + path);
      close(fd_);
      throw failure;
    }
    if (Clock::now() >= deadline) {
      std::string holder = FirstLine(path).value_or("");
      if (holder.empty() || holder.back() != '}') holder.clear();  // it has only just begun
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
