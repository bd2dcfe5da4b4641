#include "queue.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <utility>

#include "edge_rt.h"
#include "failure.h"
#include "folder.h"
#include "text.h"

namespace edge {
namespace queue {

constexpr std::string_view kPid = "{\"pid\": ", kWhat = ", \"what\": ";
constexpr size_t kMost = 64;           // that have a place; more wait without one
constexpr int kMostEntries = 1024;     // that are looked at, whatever lies there
constexpr size_t kDigits = 19;         // of nanoseconds, in a ticket's name
constexpr size_t kMostLine = 1024;     // bytes
constexpr size_t kMostName = 64;       // of who measures
constexpr int64_t kSecond = 1000000000;
constexpr int kAttempts = 3;

std::string Folder(const std::string& state) { return state + "/measure.queue"; }

// Nanoseconds since the system began: all processes of a board agree on it, and nobody sets it.
int64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return int64_t{now.tv_sec} * kSecond + now.tv_nsec;
}

std::string Name(int64_t arrival) {
  char name[48];
  std::snprintf(name, sizeof name, "%0*lld-%d", static_cast<int>(kDigits), static_cast<long long>(arrival),
                static_cast<int>(getpid()));
  return name;
}

// Of a ticket's name: when its process came, and its number.
bool ReadName(std::string_view name, uint64_t* arrival, int* pid) {
  const size_t dash = name.find('-');
  if (dash != kDigits) return false;
  const auto came = WholeNumber(name.substr(0, dash), UINT64_MAX), number = WholeNumber(name.substr(dash + 1), INT_MAX);
  if (!came || number.value_or(0) == 0) return false;
  *arrival = *came;
  *pid = static_cast<int>(*number);
  return true;
}

bool IsLinked(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink > 0;
}

// Whether a ticket is there and its process has it locked.
bool Lives(int fd) { return IsLinked(fd) && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK; }

// What an entry says, if it is the ticket of a living process. Anything else is removed.
std::optional<Waiter> Look(int folder, const char* name, int64_t now) {
  uint64_t arrival = 0;
  int pid = 0;
  const bool named = ReadName(name, &arrival, &pid);
  const Fd file(openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  const bool strange = errno == ELOOP || errno == ENXIO;  // a link, a socket
  if (!file && named && !strange) return std::nullopt;   // gone; or nothing can be opened now
  std::optional<Waiter> found;
  if (file && named && Lives(file.get())) {
    const Words unknown{pid, "\"\""};
    const double waited = static_cast<double>(now) - static_cast<double>(arrival);
    found = Waiter{name, ReadWords(file.get()).value_or(unknown), std::max(0.0, waited / kSecond)};
  } else if (unlinkat(folder, name, 0) != 0) {
    unlinkat(folder, name, AT_REMOVEDIR);
  }
  return found;
}

}  // namespace queue

std::string Words::Json() const { return Cat({queue::kPid.substr(1), pid, queue::kWhat, what}); }

std::optional<Words> ReadWords(int fd) {
  char text[queue::kMostLine];
  const ssize_t size = pread(fd, text, sizeof text, 0);
  if (size <= 0) return std::nullopt;
  // As Json writes it and in no other way: libedge.so would be 14 KB larger by a reader of any JSON.
  std::string_view line(text, static_cast<size_t>(size));
  line = line.substr(0, line.find('\n'));
  if (!line.starts_with(queue::kPid) || !line.ends_with('}')) return std::nullopt;
  line = line.substr(queue::kPid.size(), line.size() - queue::kPid.size() - 1);
  const size_t comma = line.find(queue::kWhat);
  const auto pid = WholeNumber(line.substr(0, comma), INT_MAX);
  if (!pid || *pid == 0 || comma == line.npos) return std::nullopt;
  const std::string_view what = line.substr(comma + queue::kWhat.size());
  if (!IsQuoted(what)) return std::nullopt;
  return Words{static_cast<int>(*pid), std::string(what)};
}

std::string ForWhom(const Options& options) {
  const std::string whom = options.Text("for", "");
  if (whom.empty()) return "";
  const bool plain = std::all_of(whom.begin(), whom.end(), [](char c) { return c > ' ' && c < 127 && c != '"' && c != '\\'; });
  if (!plain || whom.size() > queue::kMostName) throw Usage("--for " + Quote(whom) + ": give USER@HOST, one word of at most 64 letters");
  return " for " + whom;
}

std::vector<Waiter> Waiters(const std::string& state) {
  std::vector<Waiter> found;
  Fd folder(open(queue::Folder(state).c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(folder ? fdopendir(folder.get()) : nullptr, closedir);
  if (entries == nullptr) return found;
  const int at = folder.Release();  // closedir closes it
  const int64_t now = queue::Now();
  const dirent* entry = nullptr;
  for (int left = queue::kMostEntries; left > 0 && (entry = readdir(entries.get())) != nullptr; --left) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    auto waiter = queue::Look(at, entry->d_name, now);
    if (!waiter) continue;
    size_t place = found.size();  // there are few
    while (place > 0 && waiter->ticket < found[place - 1].ticket) --place;
    found.insert(found.begin() + static_cast<ptrdiff_t>(place), *std::move(waiter));
  }
  return found;
}

std::string HolderOf(const std::string& state) {
  const Fd file(open((state + "/measure.lock").c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file) return "null";
  // Who was killed leaves words. Only with words is the lock tried: that keeps others from taking it for a moment.
  const std::optional<Words> words = ReadWords(file.get());
  const bool held = words && flock(file.get(), LOCK_SH | LOCK_NB) != 0;
  return held ? "{" + words->Json() + "}" : "null";
}

std::string JsonQueue(const std::string& state) {
  std::string list;
  for (const Waiter& waiter : Waiters(state)) {
    list += Cat({list.empty() ? "" : ", ", "{", waiter.words.Json(), ", \"waited_s\": ", JsonNumber(waiter.waited_s), "}"});
  }
  return Cat({"\"holder\": ", HolderOf(state), ", \"waiting\": [", list, "]"});
}

Ticket::Ticket(std::string state, std::string words)
    : state_(std::move(state)), words_(std::move(words)), arrival_(queue::Now()) {}

Ticket::~Ticket() { Drop(); }

bool Ticket::Stands() const { return file_ && queue::IsLinked(file_.get()); }

void Ticket::Drop() {
  if (!file_) return;
  unlink((queue::Folder(state_) + "/" + name_).c_str());  // first: one that is there without a lock is anybody's to remove
  file_.Close();
}

// Between its making and its locking another process may take it for a dead one's and remove it; no name is used twice.
void Ticket::Make() {
  if (Stands()) return;
  Drop();
  looked_ = 0;
  if (Waiters(state_).size() >= queue::kMost) return;
  try {
    MakeInside(queue::Folder(state_));
  } catch (const Failure& failure) {
    if (!failure.Is(kIo)) throw;
    return;
  }
  for (int left = queue::kAttempts; left > 0 && !file_; --left) {
    name_ = queue::Name(arrival_++);
    file_ = Fd(open((queue::Folder(state_) + "/" + name_).c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file_) continue;
    if (fchmod(file_.get(), 0600) != 0) errno = 0;  // whatever the umask
    if (flock(file_.get(), LOCK_EX | LOCK_NB) != 0 || !Stands()) {
      Drop();
    } else if (pwrite(file_.get(), words_.data(), words_.size(), 0) < 0) {
      errno = 0;  // it counts without words, too
    }
  }
}

size_t Ticket::Ahead() {
  Make();
  const int64_t now = queue::Now();
  const bool same = ahead_ == 0 || (before_ && queue::Lives(before_.get()));
  // Who has no ticket looks each time; the others now and then, for one that has come back.
  if (file_ && looked_ != 0 && now - looked_ < queue::kSecond && same) return ahead_;
  looked_ = now;
  ahead_ = 0;
  std::string last;
  for (const Waiter& waiter : Waiters(state_)) {
    if (!IsBehind(waiter)) continue;
    ++ahead_;
    last = waiter.ticket;
  }
  before_.Close();
  if (ahead_ > 0) {
    before_ = Fd(open((queue::Folder(state_) + "/" + last).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  }
  return ahead_;
}

void Ticket::PassFirst() {
  const std::vector<Waiter> waiters = Waiters(state_);
  if (!waiters.empty() && IsBehind(waiters[0])) unlink((queue::Folder(state_) + "/" + waiters[0].ticket).c_str());
  looked_ = 0;
}

}  // namespace edge
