#include "serve.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "child.h"
#include "edge_rt.h"
#include "failure.h"
#include "file.h"
#include "folder.h"
#include "greetings.h"
#include "net.h"
#include "pool.h"
#include "protocol.h"
#include "queue.h"
#include "session.h"
#include "text.h"
#include "tracker.h"

namespace edge {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::seconds;

// How often the tracker is asked whether our key was handed out, and how long a client that got
// it may take to appear (tvm/rpc/server.py uses the same numbers).
constexpr auto kPing = seconds(2);
constexpr auto kUnclaimed = seconds(6);
constexpr auto kRetry = milliseconds(200);
constexpr auto kFarewell = milliseconds(500);
constexpr auto kReaped = seconds(5);
constexpr auto kFirstRegistration = seconds(10);
// A session that has waited so long for the lock is told of, and how often that is looked at.
constexpr double kWaits = 1;
constexpr auto kLook = seconds(1);
// What a client says behind its key.
constexpr std::string_view kTimeout = "-timeout=";
// A measurement of a session without a timeout waits this long for the lock.
constexpr double kLockPatience = 600;

// 128 bits that nobody else knows, in hexadecimal.
std::string Secret() {
  unsigned char random[16];
  if (getrandom(random, sizeof(random), 0) != sizeof(random)) throw Io("getrandom");
  std::string out;
  for (const unsigned char byte : random) {
    char text[3];
    std::snprintf(text, sizeof(text), "%02x", byte);
    out += text;
  }
  return out;
}

// A client's session, in a process of its own.
struct ClientProcess {
  Child process;
  int fd;
  std::string folder;
  double timeout;  // 0: none
  std::optional<Clock::time_point> deadline;
  bool left;  // the client is gone
  bool waited = false;  // for the lock
};

class Server {
 public:
  Server(const Options& options, const std::string& tracker_host, int tracker_port)
      : tracker_(tracker_host, tracker_port, options.Has("any-peer")),
        greetings_(options.Has("any-peer")),
        key_(options.Text("key", "")),
        host_(options.Text("host", "127.0.0.1")),
        port_(options.Int("port", 0, 0, 65535)),
        settings_{options.State(true), "", options.Int("threads", 0, 1, 1024),
                  options.Text("cluster", ""), options.Int("spin-us", kSpinUs, 0, kMostSpinUs),
                  ForWhom(options), kLockPatience} {
    sessions_ = settings_.state + "/sessions";
    MakeInside(sessions_);
    RemoveStale();
    sigset_t signals;
    sigemptyset(&signals);
    for (int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&signals, number);
    sigprocmask(SIG_BLOCK, &signals, &mask_);
    std::signal(SIGPIPE, SIG_IGN);
    signals_ = Fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) throw Io("signalfd");
    listener_ = Fd(ListenOn(host_, &port_));
    // By it the host tells this server from others that say they were this board's.
    const std::string secret = Secret();
    std::printf("{\"secret\": \"%s\"}\n", secret.c_str());
    std::fflush(stdout);
    tracker_.Introduce(key_, host_, port_, secret);
  }

  ~Server() {
    try {
      if (child_) End();
    } catch (const Failure&) {  // a server that ends tells nobody
    }
    RemoveStale();
  }

  void Loop() {
    const auto begin = Clock::now();
    while (true) {
      Register();
      if (!announced_ && Clock::now() - begin > kFirstRegistration) {
        throw Failure(EDGE_FAILED, "tracker", tracker_.WhyNot());
      }
      std::vector<pollfd> waits{{STDIN_FILENO, POLLIN, 0},
                                {signals_.get(), POLLIN, 0},
                                {tracker_.fd(), POLLIN, 0},
                                {child_ && !child_->left ? child_->fd : -1, POLLRDHUP, 0},
                                {listener_.get(), POLLIN, 0}};
      const size_t greetings = waits.size();
      greetings_.Await(&waits);
      if (poll(waits.data(), waits.size(), PatienceMs()) < 0 && errno != EINTR) throw Io("poll");
      if (waits[0].revents != 0 && InputEnded()) return;
      if (waits[1].revents != 0 && Signalled()) return;
      // The tracker only answers questions: anything it says now means that it is gone.
      if (waits[2].revents != 0) tracker_.Drop();
      if (waits[3].revents != 0 && child_) Left();
      for (size_t i = greetings; i < waits.size(); ++i) {
        if (waits[i].revents == 0) continue;
        if (const auto words = greetings_.Read(waits[i].fd)) Greeted(waits[i].fd, *words);
      }
      // During a session as well: whoever comes then is told that there is nothing to get.
      if (waits[4].revents != 0) greetings_.Accept(listener_.get());
      CheckDeadlines();
      TellWait();
    }
  }

 private:
  // Connects and offers a match key, whenever that is due.
  void Register() {
    if (!tracker_.connected()) {
      if (Clock::now() < retry_) return;
      const bool connected = tracker_.Connect();
      retry_ = Clock::now() + kRetry;
      if (!connected) return;
      match_key_.clear();
    }
    if (child_) return;
    if (match_key_.empty()) {
      uint64_t random = 0;
      if (getrandom(&random, sizeof(random), 0) != sizeof(random)) throw Io("getrandom");
      // Without a letter that JSON may write in two ways.
      const std::string fresh = "edge-rt:" + std::to_string(random);
      if (!tracker_.Put(key_, port_, fresh)) return;
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
      } else if (Clock::now() - *claimed_ > kUnclaimed && greetings_.empty()) {
        match_key_.clear();
      }
    }
  }

  int PatienceMs() const {
    auto next = Clock::now() + kPing;
    if (!tracker_.connected()) next = std::min(next, retry_);
    if (const auto greeting = greetings_.Next()) next = std::min(next, *greeting);
    if (child_ && child_->deadline) next = std::min(next, *child_->deadline);
    if (child_ || !wait_.empty()) next = std::min(next, look_);
    if (!child_ && tracker_.connected()) {
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
    while (ReadSome(signals_.get(), &signal, sizeof(signal)) == sizeof(signal)) {
      end = end || signal.ssi_signo != SIGCHLD;
    }
    if (const auto exit = child_ ? child_->process.Await() : std::nullopt) {
      if (exit->signal != 0) std::fprintf(stderr, "edge-rt: the session ended by signal %d\n", exit->signal);
      End();
    }
    return end;
  }

  void Greeted(int fd, const std::string& greeting) {
    const std::vector<std::string> words = Split(greeting, ' ');
    const Deadline until = Clock::now() + kFarewell;
    double timeout = 0;
    bool known = !match_key_.empty() && !words.empty() && words[0] == "client:" + match_key_;
    for (const std::string& word : words) {
      if (!word.starts_with(kTimeout)) continue;
      const auto given = DecimalNumber(word.substr(kTimeout.size()));
      known = known && given.has_value();
      timeout = std::max(0.0, given.value_or(0));
    }
    if (!known) {
      SendAll(fd, &kMismatch, sizeof(kMismatch), until);
      close(fd);
      return;
    }
    if (!SendAll(fd, &kRpcMagic, sizeof(kRpcMagic), until) ||
        !SendText(fd, "server:" + key_, until)) {
      close(fd);
      return;
    }
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
    child_ = ClientProcess{Child(pid), fd, settings_.folder, timeout, std::nullopt, false};
    if (timeout > 0) {
      const duration<double> allowed(std::min(timeout, 1e9));
      child_->deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(allowed);
    }
  }

  [[noreturn]] void RunChild(int fd, pid_t parent) {
    BeginChild(parent);
    sigprocmask(SIG_SETMASK, &mask_, nullptr);
    listener_.Close();
    signals_.Close();
    greetings_.Close();
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
    greetings_.CheckDeadlines();
    if (child_ && child_->left && Clock::now() >= *child_->deadline) {
      End();
    } else if (child_ && child_->deadline && Clock::now() >= *child_->deadline) {
      const double timeout = child_->timeout;
      std::string wait = WaitOfChild().first;
      if (wait.empty() && child_->waited) wait = "it had its turn too late";
      // First nobody else writes to the socket, then the answer; but what does not end keeps no client waiting.
      const bool ended = child_->process.End(kFarewell);
      // A client that no longer reads gets no answer, and keeps nobody waiting.
      if (fcntl(child_->fd, F_SETFL, fcntl(child_->fd, F_GETFL) | O_NONBLOCK) != 0) errno = 0;
      try {
        AnswerTimeout(child_->fd, timeout, wait);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "edge-rt: %s\n", error.what());
      }
      Forget(ended || child_->process.End(kReaped));
    }
  }

  // What the session waits for, as members of JSON, and for how many seconds; "" while it has the lock or needs none.
  std::pair<std::string, double> WaitOfChild() const {
    const std::vector<Waiter> waiters = child_ ? Waiters(settings_.state) : std::vector<Waiter>();
    for (size_t i = 0; i < waiters.size(); ++i) {
      if (waiters[i].words.pid != child_->process.pid() || waiters[i].waited_s < kWaits) continue;
      return {Cat({"\"holder\": ", HolderOf(settings_.state), ", \"ahead\": ", i}), waiters[i].waited_s};
    }
    return {"", 0};
  }

  // Tells the host what the session waits for, when that has changed.
  void TellWait() {
    if ((!child_ && wait_.empty()) || Clock::now() < look_) return;
    look_ = Clock::now() + kLook;
    const auto [wait, waited_s] = WaitOfChild();
    if (child_ && !wait.empty()) child_->waited = true;
    if (wait == wait_) return;
    wait_ = wait;
    const std::string object = Cat({"{", wait, ", \"waited_s\": ", JsonNumber(waited_s), "}"});
    std::printf("{\"waiting\": %s}\n", wait.empty() ? "null" : object.c_str());
    std::fflush(stdout);
  }

  // The session's whole process group.
  void End() { Forget(child_->process.End(kReaped)); }

  // A process that did not end is of no use to the next client either: what keeps it in the kernel, where no signal
  // ends it, keeps its device, too.
  void Forget(bool ended) {
    const pid_t pid = child_->process.pid();
    close(child_->fd);
    RemoveTree(child_->folder);
    child_.reset();
    if (ended) return;
    throw Failure(EDGE_FAILED, "stuck",
                  Cat({"the session's process ", pid, " was killed and does not end: a driver or a disk hangs; "
                       "restart the board"}));
  }

  // Folders PID-N whose server is gone, our own included.
  void RemoveStale() const {
    for (const std::string& name : OpenFolder(AT_FDCWD, sessions_).Names()) {
      const auto pid = static_cast<pid_t>(WholeNumber(name.substr(0, name.find('-')), INT_MAX).value_or(0));
      if (pid > 0 && (pid == getpid() || (kill(pid, 0) != 0 && errno == ESRCH))) RemoveTree(sessions_ + "/" + name);
    }
  }

  Tracker tracker_;
  Greetings greetings_;
  std::string key_, host_;
  int port_;
  SessionSettings settings_;
  std::string sessions_;
  sigset_t mask_;
  Fd signals_, listener_;
  int count_ = 0;
  bool announced_ = false;
  std::string match_key_;
  std::string wait_;  // what was told last of a session that waits for the lock
  Clock::time_point retry_, ping_, look_;
  std::optional<Clock::time_point> claimed_;
  std::optional<ClientProcess> child_;
};

}  // namespace

int ServeCommand(const Options& options) {
  options.NoMore();
  const std::string tracker = options.Text("tracker", ""), key = options.Text("key", "");
  const size_t colon = tracker.rfind(':');
  const uint64_t port = colon == tracker.npos ? 0 : WholeNumber(tracker.substr(colon + 1), 65535).value_or(0);
  if (port == 0) throw Usage("--tracker " + tracker + ": give HOST:PORT");
  if (key.empty() || key.find_first_of(" \t\n") != key.npos) {
    throw Usage("--key " + Quote(key) + ": give one word");
  }
  std::string host = tracker.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);  // an IPv6 address
  }
  // While the tracker's name is looked up nothing else is done: a name server that is away delays it for long.
  setenv("RES_OPTIONS", "timeout:1 attempts:1", 0);
  Server(options, host, static_cast<int>(port)).Loop();
  return EDGE_OK;
}

}  // namespace edge
