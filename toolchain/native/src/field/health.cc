#include "field/health.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "child.h"
#include "edge_rt.h"
#include "failure.h"
#include "file.h"
#include "text.h"

namespace edge::field {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::nanoseconds kBetweenTries = std::chrono::seconds(1);
constexpr int kPause_ms = 20;
constexpr std::chrono::nanoseconds kPause = std::chrono::milliseconds(kPause_ms);
constexpr std::chrono::nanoseconds kReaped = std::chrono::seconds(1);  // one that is stuck in the kernel is left behind
constexpr size_t kMostLine = 200;  // bytes

[[noreturn]] void Become(const std::vector<std::string>& words, const Place& place, int pipe, pid_t parent) {
  BeginChild(parent);
  for (const int signal : {SIGHUP, SIGPIPE, SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(pipe, STDOUT_FILENO);
  dup2(pipe, STDERR_FILENO);
  setenv("EDGE_APP", place.app.c_str(), 1);
  setenv("EDGE_CURRENT", place.Path(kCurrent).c_str(), 1);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  _exit(WriteWhole(STDERR_FILENO, Io(words[0]).what()) ? 127 : 126);
}

// Its output's last line. Bytes that were read are forgotten but for the last ones.
class LastLine {
 public:
  void Add(std::string_view bytes) {
    for (const char c : bytes) {
      if (ended_) line_.clear();
      ended_ = c == '\n';
      if (!ended_ && line_.size() < kMostLine) line_ += c;
    }
  }
  const std::string& text() const { return line_; }

 private:
  std::string line_;
  bool ended_ = false;
};

// Empty if all is well.
std::optional<Failure> Try(const Place& place, const Policy& policy) {
  Pipe pipe;
  if (fcntl(pipe.from.get(), F_SETFL, O_NONBLOCK) != 0) throw Io("pipe");
  const pid_t parent = getpid(), child = fork();
  if (child == 0) Become(policy.health, place, pipe.to.get(), parent);
  if (child < 0) throw Io("fork");
  pipe.to.Close();
  const Child process(child);
  const auto until = Clock::now() + std::chrono::seconds(policy.health_timeout_s);
  LastLine last;
  // Its own end counts: what it started may keep the pipe open.
  std::optional<Exit> exit;
  while (!(exit = process.Await()) && Clock::now() < until) {
    pollfd wait{pipe.from.get(), POLLIN, 0};
    if (poll(&wait, 1, kPause_ms) <= 0) continue;
    char bytes[4096];
    const ssize_t got = ReadSome(pipe.from.get(), bytes, sizeof bytes);
    if (got > 0) last.Add({bytes, static_cast<size_t>(got)});
    if (got == 0) std::this_thread::sleep_for(kPause);
  }
  process.End(kReaped);
  char bytes[4096];
  for (ssize_t got; (got = ReadSome(pipe.from.get(), bytes, sizeof bytes)) > 0;) last.Add({bytes, static_cast<size_t>(got)});
  const std::string said = last.text().empty() ? "" : ": " + last.text();
  if (!exit) {
    return Failure(EDGE_FAILED, "health-timeout",
                   Cat({"the health command had not ended after ", policy.health_timeout_s, " s", said}));
  }
  if (exit->signal == 0 && exit->code == 0) return std::nullopt;
  const std::string how = exit->signal == 0 ? Cat({"ended with ", exit->code}) : Cat({"was ended by signal ", exit->signal});
  return Failure(EDGE_FAILED, "health", "the health command " + how + said);
}

}  // namespace

void AskHealth(const Place& place, const Policy& policy) {
  if (policy.health.empty()) return;
  for (int64_t left = policy.health_tries;;) {
    const std::optional<Failure> failure = Try(place, policy);
    if (!failure) return;
    if (--left == 0) throw *failure;
    std::this_thread::sleep_for(kBetweenTries);
  }
}

}  // namespace edge::field
