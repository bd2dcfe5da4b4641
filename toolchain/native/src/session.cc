#include "session.h"

#include <sys/stat.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <memory>

#include "channel.h"
#include "cpu.h"
#include "device.h"
#include "failure.h"
#include "fence.h"
#include "load.h"
#include "machine.h"
#include "offline/plan.h"
#include "offline/trial.h"
#include "offer.h"
#include "pool.h"
#include "text.h"

using tvm::ffi::Any;
using tvm::ffi::AnyView;
using tvm::ffi::Function;
using tvm::ffi::Module;
using tvm::ffi::PackedArgs;

namespace edge {
namespace {

// The one session of this process.
SessionSettings session;
int client = -1;  // its socket
bool loaded = false;

// TVM sends an error's words to the client; ours need not be TVM's class.
template <typename Body>
auto Translated(Body body) {
  try {
    return body();
  } catch (const Failure& failure) {
    TVM_FFI_THROW(RuntimeError) << "edge-rt: " << failure.what();
  }
}

Module Load(const std::string& name) {
  const std::string path = SessionFile(name);
  if (!name.ends_with(".so")) {
    TVM_FFI_THROW(ValueError) << "edge-rt: " << name << " can't be loaded: there is no linker on "
                              << "a board; link it to .so on the host";
  }
  return Translated([&] {
    CheckLibrary(path);
    loaded = true;
    return LoadLibrary(path);
  });
}

// 0 and "" leave what the server was started with.
void Configure(int threads, const std::string& cluster) {
  if (loaded) {
    TVM_FFI_THROW(RuntimeError) << "edge-rt: edge.configure must come before the first library: the "
                                << "kernels' threads are started once";
  }
  Translated([&] {
    Apply(Place(threads > 0 ? threads : session.threads,
                cluster.empty() ? session.cluster : cluster),
          session.spin_us);
  });
}

// Measures the candidates of a plan; the client has sent the files that it names, each under its digest. Returns a line
// for each, as a folder's results have them (offline/trial.h).
std::string Measure(const std::string& text) {
  return Translated([&] {
    const offline::Plan plan = offline::ParsePlan(text, session.folder);
    CheckFeatures(plan.requirements);
    std::string lines;
    for (const offline::Candidate& candidate : plan.candidates) {
      const auto lock = LockForSession();
      lines += offline::Line(candidate, offline::Try(plan, candidate, plan.device, client)) + "\n";
    }
    return lines;
  });
}

// Puts `around` in the place of one of TVM's own functions, which it gets with each call.
template <typename Around>
void Surround(const char* name, Around around) {
  const Function body = Function::GetGlobalRequired(name);
  const auto surrounded = [body, around](const AnyView* args, int count, Any* result) {
    around(body, args, count, result);
  };
  Function::SetGlobal(name, Function::FromPacked(surrounded), true);
}

// The stock evaluator under the lock: at call time, not when it is made.
void LockEvaluators() {
  Surround("runtime.RPCTimeEvaluator", [](const Function& make, const AnyView* args, int count, Any* result) {
    Any made;
    make.CallPacked(args, count, &made);
    const Function timer = made.cast<Function>();
    *result = Function::FromPacked([timer](const AnyView* given, int given_count, Any* times) {
      const auto lock = Translated([] { return LockForSession(); });
      timer.CallPacked(given, given_count, times);
    });
  });
}

// Some of TVM's own functions count on their arguments: called with fewer, they read what is none.
void CountArguments(const char* name, int expected) {
  Surround(name, [name, expected](const Function& body, const AnyView* args, int count, Any* result) {
    if (count != expected) {
      TVM_FFI_THROW(TypeError) << "edge-rt: " << name << " takes " << Counted(expected, "argument") << ", not "
                               << count;
    }
    body.CallPacked(args, count, result);
  });
}

// To files that an answer has room for.
void LimitDownloads() {
  Surround("tvm.rpc.server.download", [](const Function& body, const AnyView* args, int count, Any* result) {
    const auto file = args[0].cast<std::string>();
    struct stat found{};
    if (stat(SessionFile(file).c_str(), &found) == 0 &&
        static_cast<uint64_t>(found.st_size) > kMostFrame - kAnswerHead) {
      TVM_FFI_THROW(ValueError) << "edge-rt: " << Quote(file) << " has " << found.st_size
                                << " bytes; a session sends at most " << kMostFrame - kAnswerHead << " at once";
    }
    body.CallPacked(args, count, result);
  });
}

}  // namespace

void ServeSession(int socket, const SessionSettings& settings) {
  session = settings;
  client = socket;
  // Candidates are tried once: what they compile to goes with the session.
  SetDeviceFolder(session.folder + "/devices", false);
  Apply(Place(session.threads, session.cluster), session.spin_us);
  LockEvaluators();
  CountArguments("tvm.rpc.server.upload", 2);
  LimitDownloads();
  CountArguments("tvm.rpc.server.download", 1);
  CountArguments("tvm.rpc.server.remove", 1);
  CountArguments("tvm.contrib.random.random_fill", 1);
  CountArguments("tvm.contrib.random.random_fill_for_measure", 1);
  const auto global = [](const char* name, auto body) {
    Function::SetGlobal(name, Function::FromTyped(body), true);
  };
  global("tvm.rpc.server.workpath", [](const std::string& name) { return SessionFile(name); });
  global("tvm.rpc.server.load_module", [](const std::string& name) { return Load(name); });
  global("edge.fingerprint", [] { return std::string(Fingerprint()); });
  global("edge.info", [] { return Info(session.state, JsonDevices(false)); });
  // The session's own deadline is that of a driver, too.
  global("edge.devices", [] { return JsonDevices(true); });
  global("edge.conditions", [](int type, int id) {
    return JsonConditions(ConditionsOf({static_cast<DLDeviceType>(type), id}));
  });
  global("edge.measure", [](const std::string& plan) { return Measure(plan); });
  global("edge.configure", [](int threads, const std::string& cluster) { Configure(threads, cluster); });
  for (const DeviceKind& kind : DeviceKinds()) {
    if (kind.offer != nullptr) kind.offer();
  }
  // TVM's name, by which its clients ask.
  global("runtime.NumThreads", PoolThreads);
  ServeBehindFence(socket);
}

void OfferFunction(const char* name, void (*body)(PackedArgs, Any*)) {
  Function::SetGlobal(name, Function::FromPacked([body](PackedArgs arguments, Any* result) {
                        Translated([&] { body(arguments, result); });
                      }),
                      true);
}

// A client's names stay inside the session's folder.
std::string SessionFile(const std::string& name) {
  if (name.empty() || name == "." || name.find('/') != name.npos || name.find("..") != name.npos ||
      name.find('\0') != name.npos) {
    TVM_FFI_THROW(ValueError) << "edge-rt: the file name " << Quote(name)
                              << " is refused: no folders, no '..'";
  }
  return session.folder + "/" + name;
}

std::unique_ptr<MeasureLock> LockForSession() {
  return std::make_unique<MeasureLock>(session.state, "rpc session", session.timeout, session.whom);
}

void AnswerTimeout(int socket, double timeout, const std::string& wait) {
  const std::string why = wait.empty() ? "; ask for a longer session_timeout" : " while it waited for the board: " + wait;
  // Without the prefix the client would raise a plain RPCError.
  Function::GetGlobalRequired("rpc.ReturnException")(
      socket, "RPCSessionTimeoutError: the session's " + JsonNumber(timeout) + " s have passed" + why);
}

}  // namespace edge
