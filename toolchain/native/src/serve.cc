#include "serve.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "edge_rt.h"
#include "failure.h"
#include "net.h"
#include "pool.h"
#include "session.h"
#include "text.h"
#include "tracker.h"

namespace edge {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::seconds;

// tvm/rpc/base.py: RPC_MAGIC; one more means "key in use", two more "no such key".
constexpr int32_t kRpcMagic = 0xFF271;
constexpr int32_t kMismatch = kRpcMagic + 2;
constexpr int32_t kMostKeyBytes = 4096;
// How often the tracker is asked whether our key was handed out, and how long a client that got
// it may take to appear (tvm/rpc/server.py uses the same numbers).
constexpr auto kPing = seconds(2);
constexpr auto kUnclaimed = seconds(6);
constexpr auto kRetry = milliseconds(200);
constexpr auto kGreeting = seconds(5);
constexpr auto kFarewell = milliseconds(500);
constexpr auto kFirstRegistration = seconds(10);
// A measurement of a session without a timeout waits this long for the lock.
constexpr double kLockPatience = 600;

int RemoveEntry(const char* path, const struct stat*, int, FTW*) { return remove(path); }

void RemoveTree(const std::string& path) { nftw(path.c_str(), RemoveEntry, 16, FTW_DEPTH | FTW_PHYS); }

// A client that has connected and says whom it wants: magic, length, "client:KEY -timeout=S".
struct Greeting {
  int fd;
  std::string bytes;
  Clock::time_point deadline;
};

struct Child {
  pid_t pid;
  int fd;
  std::string folder;
  double timeout;  // 0: none
  std::optional<Clock::time_point> deadline;
  bool left;  // the client is gone
};

class Server {
 public:
  Server(const Options& options, const std::string& tracker_host, int tracker_port)
      : tracker_(tracker_host, tracker_port),
        key_(options.Text("key", "")),
        host_(options.Text("host", "127.0.0.1")),
        port_(options.Int("port", 0, 0, 65535)),
        settings_{options.State(true), "", options.Int("threads", 0, 1, 1024),
                  options.Text("cluster", ""), options.Int("spin-us", kSpinUs, 0, kMostSpinUs),
                  kLockPatience} {
    sessions_ = settings_.state + "/sessions";
    MakeFolders(sessions_);
    RemoveStale();
    sigset_t signals;
    sigemptyset(&signals);
    for (int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&signals, number);
    sigprocmask(SIG_BLOCK, &signals, &mask_);
    std::signal(SIGPIPE, SIG_IGN);
    signals_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals_ < 0) throw Io("signalfd");
    listener_ = ListenOn(host_, &port_);
    advertised_ = options.Int("advertise-port", port_, 1, 65535);
  }

  ~Server() {
    if (greeting_) close(greeting_->fd);
    if (child_) End();
    RemoveStale();
  }

  void Loop() {
    const auto begin = Clock::now();
    while (true) {
      Register();
      if (!announced_ && Clock::now() - begin > kFirstRegistration) {
        throw Failure(EDGE_FAILED, "tracker", "no tracker answers at " + tracker_.address());
      }
      pollfd waits[] = {{STDIN_FILENO, POLLIN, 0},
                        {signals_, POLLIN, 0},
                        {tracker_.fd(), POLLIN, 0},
                        {child_ || greeting_ ? -1 : listener_, POLLIN, 0},
                        {greeting_ ? greeting_->fd : -1, POLLIN, 0},
                        {child_ && !child_->left ? child_->fd : -1, POLLRDHUP, 0}};
      if (poll(waits, std::size(waits), PatienceMs()) < 0 && errno != EINTR) throw Io("poll");
      if (waits[0].revents != 0 && InputEnded()) return;
      if (waits[1].revents != 0 && Signalled()) return;
      // The tracker only answers questions: anything it says now means that it is gone.
      if (waits[2].revents != 0) tracker_.Drop();
      if (waits[3].revents != 0) Accept();
      if (waits[4].revents != 0) ReadGreeting();
      if (waits[5].revents != 0 && child_) Left();
      CheckDeadlines();
    }
  }

 private:
  // Connects and offers a match key, whenever that is due.
  void Register() {
    if (!tracker_.connected()) {
      if (Clock::now() < retry_) return;
      const bool connected = tracker_.Connect(key_, host_, advertised_);
      retry_ = Clock::now() + kRetry;
      if (!connected) return;
      match_key_.clear();
    }
    if (child_ || greeting_) return;
    if (match_key_.empty()) {
      uint64_t random = 0;
      if (getrandom(&random, sizeof(random), 0) != sizeof(random)) throw Io("getrandom");
      // Without a letter that JSON may write in two ways.
      const std::string fresh = "edge-rt:" + std::to_string(random);
      if (!tracker_.Put(key_, advertised_, fresh)) return;
      match_key_ = fresh;
      ping_ = Clock::now() + kPing;
      claimed_.reset();
      if (!std::exchange(announced_, true)) {
        std::printf("{\"host\": %s, \"port\": %d, \"pid\": %d}\n", Quote(host_).c_str(), port_,
                    static_cast<int>(getpid()));
        std::fflush(stdout);
      }
    } else if (Clock::now() >= ping_) {
      ping_ = Clock::now() + kPing;
      if (tracker_.Offers(match_key_)) {
        claimed_.reset();
      } else if (!claimed_) {
        claimed_ = Clock::now();
      } else if (Clock::now() - *claimed_ > kUnclaimed) {
        match_key_.clear();
      }
    }
  }

  int PatienceMs() const {
    auto next = Clock::now() + kPing;
    if (!tracker_.connected()) next = std::min(next, retry_);
    if (greeting_) next = std::min(next, greeting_->deadline);
    if (child_ && child_->deadline) next = std::min(next, *child_->deadline);
    if (!child_ && !greeting_ && tracker_.connected()) {
      next = match_key_.empty() ? Clock::now() : std::min(next, ping_);
    }
    const auto ms = std::chrono::ceil<milliseconds>(next - Clock::now()).count();
    return static_cast<int>(std::max<int64_t>(0, ms));
  }

  static bool InputEnded() {
    char ignored[256];
    const ssize_t n = read(STDIN_FILENO, ignored, sizeof(ignored));
    return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
  }

  bool Signalled() {
    signalfd_siginfo signal;
    bool end = false;
    while (read(signals_, &signal, sizeof(signal)) == sizeof(signal)) {
      end = end || signal.ssi_signo != SIGCHLD;
    }
    // It is left unreaped: its number names its process group until that is ended too.
    siginfo_t ended{};
    if (child_ && waitid(P_PID, child_->pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        ended.si_pid == child_->pid) {
      if (ended.si_code != CLD_EXITED) {
        std::fprintf(stderr, "edge-rt: the session ended by signal %d\n", ended.si_status);
      }
      End();
    }
    return end;
  }

  void Accept() {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    // An answer that wraps around in the ring buffer is sent in two pieces: no waiting in between.
    const int yes = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)) != 0) errno = 0;
    greeting_ = Greeting{fd, "", Clock::now() + kGreeting};
  }

  void Dismiss() {
    close(greeting_->fd);
    greeting_.reset();
  }

  void ReadGreeting() {
    char bytes[kMostKeyBytes];
    // Not a byte more than the greeting: what follows belongs to the session.
    int32_t head[2] = {0, 0};
    const size_t have = greeting_->bytes.size();
    std::memcpy(head, greeting_->bytes.data(), std::min(have, sizeof(head)));
    const size_t needed = have < sizeof(head) ? sizeof(head) : sizeof(head) + head[1];
    const ssize_t n = recv(greeting_->fd, bytes, needed - have, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n <= 0) return Dismiss();
    greeting_->bytes.append(bytes, n);
    if (greeting_->bytes.size() < sizeof(head)) return;
    std::memcpy(head, greeting_->bytes.data(), sizeof(head));
    if (head[0] != kRpcMagic || head[1] <= 0 || head[1] > kMostKeyBytes) return Dismiss();
    if (greeting_->bytes.size() == sizeof(head) + head[1]) Greeted();
  }

  void Greeted() {
    const int fd = greeting_->fd;
    const std::vector<std::string> words = Split(std::string_view(greeting_->bytes).substr(8), ' ');
    const Deadline until = Clock::now() + kFarewell;
    if (match_key_.empty() || words.empty() || words[0] != "client:" + match_key_) {
      SendAll(fd, &kMismatch, sizeof(kMismatch), until);
      return Dismiss();
    }
    double timeout = 0;
    for (const std::string& word : words) {
      if (word.rfind("-timeout=", 0) == 0) timeout = std::max(0.0, std::atof(word.c_str() + 9));
    }
    if (!SendAll(fd, &kRpcMagic, sizeof(kRpcMagic), until) ||
        !SendText(fd, "server:" + key_, until)) {
      return Dismiss();
    }
    greeting_.reset();
    match_key_.clear();
    Start(fd, timeout);
  }

  void Start(int fd, double timeout) {
    settings_.folder =
        sessions_ + "/" + std::to_string(getpid()) + "-" + std::to_string(++count_);
    settings_.timeout = timeout > 0 ? timeout : kLockPatience;
    pid_t pid = -1;
    // A full disk or a lack of memory now ends this session, not the server.
    if (mkdir(settings_.folder.c_str(), 0700) == 0) {
      std::fflush(nullptr);
      const pid_t parent = getpid();
      pid = fork();
      if (pid == 0) RunChild(fd, parent);
    }
    if (pid < 0) {
      std::fprintf(stderr, "edge-rt: cannot begin a session: %s\n", std::strerror(errno));
      close(fd);
      RemoveTree(settings_.folder);
      return;
    }
    setpgid(pid, pid);
    child_ = Child{pid, fd, settings_.folder, timeout, std::nullopt, false};
    if (timeout > 0) {
      const duration<double> allowed(std::min(timeout, 1e9));
      child_->deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(allowed);
    }
  }

  [[noreturn]] void RunChild(int fd, pid_t parent) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(EDGE_FAILED);
    const rlimit none{0, 0};
    if (setrlimit(RLIMIT_CORE, &none) != 0) errno = 0;  // kernels on trial may well crash
    sigprocmask(SIG_SETMASK, &mask_, nullptr);
    close(listener_);
    close(signals_);
    tracker_.Drop();
    // What kernels print must not mix with our document.
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int code = EDGE_FAILED;
    try {
      if (dup2(null, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ||
          chdir(settings_.folder.c_str()) != 0 ||
          fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) != 0) {
        throw Io("cannot set the session up");
      }
      ServeSession(fd, settings_);
      code = EDGE_OK;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "edge-rt: session: %s\n", error.what());
    }
    std::fflush(nullptr);
    _exit(code);
  }

  // The session ends by itself when it reads that; a kernel that never returns would not.
  void Left() {
    child_->left = true;
    child_->deadline = Clock::now() + kFarewell;
  }

  void CheckDeadlines() {
    if (greeting_ && Clock::now() >= greeting_->deadline) Dismiss();
    if (child_ && child_->left && Clock::now() >= *child_->deadline) {
      End();
    } else if (child_ && child_->deadline && Clock::now() >= *child_->deadline) {
      // First nobody else writes to the socket, then the answer.
      const double timeout = child_->timeout;
      const int fd = dup(child_->fd);
      End();
      // A client that no longer reads gets no answer, and keeps nobody waiting.
      if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) errno = 0;
      try {
        AnswerTimeout(fd, timeout);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "edge-rt: %s\n", error.what());
      }
      close(fd);
    }
  }

  // The session's whole process group.
  void End() {
    kill(-child_->pid, SIGKILL);
    kill(child_->pid, SIGKILL);
    while (waitpid(child_->pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    close(child_->fd);
    RemoveTree(child_->folder);
    child_.reset();
  }

  // Folders PID-N whose server is gone, our own included.
  void RemoveStale() const {
    DIR* folder = opendir(sessions_.c_str());
    if (folder == nullptr) return;
    while (const dirent* entry = readdir(folder)) {
      const pid_t pid = std::atoi(entry->d_name);
      if (pid > 0 && (pid == getpid() || (kill(pid, 0) != 0 && errno == ESRCH))) {
        RemoveTree(sessions_ + "/" + entry->d_name);
      }
    }
    closedir(folder);
  }

  Tracker tracker_;
  std::string key_, host_;
  int port_, advertised_ = 0;
  SessionSettings settings_;
  std::string sessions_;
  sigset_t mask_;
  int signals_ = -1, listener_ = -1;
  int count_ = 0;
  bool announced_ = false;
  std::string match_key_;
  Clock::time_point retry_, ping_;
  std::optional<Clock::time_point> claimed_;
  std::optional<Greeting> greeting_;
  std::optional<Child> child_;
};

}  // namespace

int ServeCommand(const Options& options) {
  options.NoMore();
  const std::string tracker = options.Text("tracker", ""), key = options.Text("key", "");
  const size_t colon = tracker.rfind(':');
  char* end = nullptr;
  const long port = colon == tracker.npos ? 0 : std::strtol(tracker.c_str() + colon + 1, &end, 10);
  if (port < 1 || port > 65535 || *end != '\0') throw Usage("--tracker " + tracker + ": give HOST:PORT");
  if (key.empty() || key.find_first_of(" \t\n") != key.npos) {
    throw Usage("--key " + Quote(key) + ": give one word");
  }
  std::string host = tracker.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);  // an IPv6 address
  }
  Server(options, host, static_cast<int>(port)).Loop();
  return EDGE_OK;
}

}  // namespace edge
