#include "offline/results.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "edge_rt.h"
#include "failure.h"
#include "machine.h"
#include "text.h"

namespace edge::offline {
namespace {

constexpr size_t kMostResults = 64 << 20;
constexpr const char* kCandidate = "{\"candidate\": \"";

std::string Head(const Plan& plan) {
  return "{\"results\": 1, \"plan\": " + Quote(plan.digest) + ", \"runtime\": " + Quote(Fingerprint()) + "}";
}

}  // namespace

Results::Results(const Plan& plan) : path_(plan.folder + "/results") {
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd_ < 0) throw Io("cannot open " + path_);
  struct stat status {};
  if (fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) RefuseFolder(path_ + " is not a file");
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    throw Failure(EDGE_BUSY, "busy", "another process measures the candidates of " + plan.folder);
  }
  std::string text;
  char bytes[4096];
  for (ssize_t got = 0; (got = read(fd_, bytes, sizeof bytes)) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Io("cannot read " + path_);
    text.append(bytes, got);
    if (text.size() > kMostResults) RefuseFolder(path_ + " is too large");
  }
  const size_t whole = ReadLines(plan, text);
  if (ftruncate(fd_, whole) != 0 || lseek(fd_, whole, SEEK_SET) < 0) throw Io("cannot write " + path_);
  if (whole == 0) Write(Head(plan));
}

Results::~Results() { close(fd_); }

void Results::Add(const std::string& candidate, const std::string& line) {
  Write(line);
  done_.insert(candidate);
}

void Results::Write(const std::string& line) {
  const std::string whole = line + "\n";
  for (size_t done = 0; done < whole.size();) {
    const ssize_t wrote = write(fd_, whole.data() + done, whole.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) throw Io("cannot write " + path_);
    done += wrote;
  }
  if (fsync(fd_) != 0) throw Io("cannot write " + path_);
}

size_t Results::ReadLines(const Plan& plan, const std::string& text) {
  std::set<std::string> known;
  for (const Candidate& candidate : plan.candidates) known.insert(candidate.digest);
  const std::string begin = kCandidate;
  size_t at = 0;
  for (size_t end; (end = text.find('\n', at)) != text.npos; at = end + 1) {
    const std::string line = text.substr(at, end - at);
    if (at == 0) {
      if (line != Head(plan)) {
        RefuseFolder(path_ + " holds the results of another plan: import them, or move the file away");
      }
      continue;
    }
    const std::string candidate = line.starts_with(begin) ? line.substr(begin.size(), 64) : "";
    if (known.count(candidate) == 0 || !line.ends_with("}")) {
      RefuseFolder(path_ + " holds a line that is no result of this plan: move the file away");
    }
    done_.insert(candidate);
  }
  return at;
}

}  // namespace edge::offline
