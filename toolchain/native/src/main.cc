// edge-rt: the one program that a board needs.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "device.h"
#include "edge_rt.h"
#include "failure.h"
#include "field/commands.h"
#include "machine.h"
#include "measure.h"
#include "offline/command.h"
#include "rates/command.h"
#include "serve.h"
#include "text.h"

namespace {

struct Command {
  const char* name;
  int (*run)(const edge::Options& options);
  const char* options;  // with spaces between them; "!": it has no value
  bool needs_reader = false;  // it ends when nobody can read its answer any more
};

constexpr Command kCommands[] = {
    {"info", edge::InfoCommand, "state devices! timeout"},
    {"run", edge::RunCommand,
     "input output output-names device threads cluster spin-us requires functions state wait for warmup graph pad!",
     true},
    {"bench", edge::BenchCommand,
     "input number repeat min-repeat-ms time warmup device threads cluster spin-us requires functions state wait for profile! "
     "graph",
     true},
    {"measure", edge::MeasureCommand, "device state wait for time"},
    {"probe", edge::rates::ProbeCommand, "state wait for time timeout", true},
    {"serve", edge::ServeCommand, "tracker key host port state threads cluster spin-us any-peer! for"},
#ifndef EDGE_WITHOUT_FIELD
    {"install", edge::field::InstallCommand, "field state silence"},
    {"trust", edge::field::TrustCommand, "field first!"},
    {"status", edge::field::StatusCommand, "field"},
    {"rollback", edge::field::RollBackCommand, "field app leave state"},
    {"prune", edge::field::PruneCommand, "field app"},
    {"recover", edge::field::RecoverCommand, "field"},
#endif
};

// Whoever asked may be killed, or the connection to it cut: nobody is left then who would end this process, and it would
// measure on, with the board's lock. The kernel says of a pipe, a socket or a terminal that its other end is closed; of a
// file it never does.
void EndWithoutReader() {
  std::thread([] {
    pollfd answer{STDOUT_FILENO, 0, 0};
    while (poll(&answer, 1, -1) < 0 && errno == EINTR) continue;
    _exit(EDGE_FAILED);
  }).detach();
}

int Dispatch(int argc, char** argv) {
  std::vector<Command> commands(std::begin(kCommands), std::end(kCommands));
  for (const edge::DeviceKind& kind : edge::DeviceKinds()) {
    if (kind.verb != nullptr) commands.push_back({kind.name, kind.verb, ""});
  }
  const std::string name = argc < 2 ? "" : argv[1];
  std::string names;
  for (const Command& command : commands) {
    if (name == command.name) {
      std::vector<std::string> known = edge::Split(command.options, ' ');
      known.push_back("only-device");
      const edge::Options options(argc - 2, argv + 2, known);
      if (options.Has("only-device")) edge::UseOnly(options.Text("only-device", ""));
      if (command.needs_reader) EndWithoutReader();
      return command.run(options);
    }
    names += (names.empty() ? "" : ", ") + std::string(command.name);
  }
  throw edge::Usage(name.empty() ? "give a command: " + names : "unknown command " + name + "; there are " + names);
}

int Fail(const edge::Failure& failure) {
  const std::string message = failure.what();
  std::fprintf(stderr, "edge-rt: %s\n", message.substr(0, message.find('\n')).c_str());
  std::printf("{\"error\": {\"kind\": %s, \"message\": %s%s}}\n", edge::Quote(failure.kind).c_str(),
              edge::Quote(message).c_str(), failure.members.c_str());
  return failure.code;
}

// Without exit handlers: a driver's threads may be at work (PoCL compiles a kernel's last step when it is
// begun), and these would take away the libraries that they use.
[[noreturn]] void End(int code) {
  std::fflush(nullptr);
  _exit(code);
}

// Where one of them is missing, the next file opened would take its number.
void StandardFiles() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) throw edge::Io("/dev/null");
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    StandardFiles();
    std::signal(SIGCHLD, SIG_DFL);  // a parent that ignores it would hide from us how our children end
    const int code = Dispatch(argc, argv);
    if (std::fflush(stdout) != 0) throw edge::Io("cannot write to the standard output");
    End(code);
  } catch (const edge::Failure& failure) {
    End(Fail(failure));
  } catch (const std::bad_alloc&) {
    End(Fail(edge::Failure(EDGE_FAILED, "memory", edge::kNoMemory)));
  } catch (const std::system_error& error) {
    End(Fail(edge::Failure(EDGE_FAILED, "memory", "no further thread can be started: " + error.code().message() +
                                                      "; is memory or the number of processes limited (ulimit -a)?")));
  } catch (const std::exception& error) {
    End(Fail(edge::Failure(EDGE_FAILED, "internal", error.what())));
  }
}
