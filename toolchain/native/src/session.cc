#include "session.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <memory>
#include <vector>

#include "channel.h"
#include "device.h"
#include "failure.h"
#include "load.h"
#include "lock.h"
#include "machine.h"
#include "pool.h"
#include "text.h"
#include "vta/run/measure.h"

using tvm::ffi::Any;
using tvm::ffi::AnyView;
using tvm::ffi::Function;
using tvm::ffi::Module;
using tvm::ffi::PackedArgs;

namespace edge {
namespace {

constexpr int64_t kMostRuns = 1 << 30;

// The one session of this process.
SessionSettings session;
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

// A client's names stay inside the session's folder.
std::string Inside(const std::string& name) {
  if (name.empty() || name == "." || name.find('/') != name.npos || name.find("..") != name.npos ||
      name.find('\0') != name.npos) {
    TVM_FFI_THROW(ValueError) << "edge-rt: the file name " << Quote(name)
                              << " is refused: no folders, no '..'";
  }
  return session.folder + "/" + name;
}

Module Load(const std::string& name) {
  const std::string path = Inside(name);
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

// The stock evaluator under the lock: at call time, not when it is made.
void LockEvaluators() {
  const Function make = Function::GetGlobalRequired("runtime.RPCTimeEvaluator");
  const Function locked = Function::FromPacked([make](const AnyView* args, int count, Any* result) {
    Any made;
    make.CallPacked(args, count, &made);
    const Function timer = made.cast<Function>();
    *result = Function::FromPacked([timer](const AnyView* args, int count, Any* result) {
      std::unique_ptr<MeasureLock> lock = Translated(
          [] { return std::make_unique<MeasureLock>(session.state, "rpc session", session.timeout); });
      timer.CallPacked(args, count, result);
    });
  });
  Function::SetGlobal("runtime.RPCTimeEvaluator", locked, true);
}

// edge.vta.measure: a file's name, how often (number, repeat, least milliseconds of a repeat), inputs, outputs.
void MeasureProgram(PackedArgs arguments, Any* result) {
  int64_t often[3] = {};
  bool said = arguments.size() >= 4 && arguments[0].try_cast<tvm::ffi::String>().has_value();
  for (int i = 0; said && i < 3; ++i) {
    const auto number = arguments[1 + i].try_cast<int64_t>();
    said = number.has_value() && *number >= (i == 0) && *number <= kMostRuns;
    if (said) often[i] = *number;
  }
  std::vector<DLTensor*> tensors;
  for (int i = 4; said && i < arguments.size(); ++i) {
    const auto tensor = arguments[i].try_cast<DLTensor*>();
    said = tensor.has_value();
    if (said) tensors.push_back(*tensor);
  }
  if (!said) {
    TVM_FFI_THROW(TypeError) << "edge-rt: edge.vta.measure takes a file's name, three numbers (how many runs, one at "
                             << "least; how often; milliseconds), and tensors: the inputs, the outputs";
  }
  const std::string path = Inside(arguments[0].cast<std::string>());
  const vta::Timing how{static_cast<int>(often[0]), static_cast<int>(often[1]), static_cast<int>(often[2])};
  *result = Translated([&] {
    try {
      vta::Uploaded program(path);  // what is refused waits for nobody
      const MeasureLock lock(session.state, "rpc session", session.timeout);
      return program.Measure(tensors, how);
    } catch (const vta::Refusal& refusal) {
      const char* what = refusal.rule == "driver" ? "" : "the program is refused: ";
      TVM_FFI_THROW(RuntimeError) << "edge.vta.measure: " << what << refusal.what();
    }
  });
}

// Some of TVM's own functions count on their arguments: called with fewer, they read what is none.
void CountArguments(const char* name, int expected) {
  const Function body = Function::GetGlobalRequired(name);
  const auto counted = [body, name, expected](const AnyView* args, int count, Any* result) {
    if (count != expected) {
      TVM_FFI_THROW(TypeError) << "edge-rt: " << name << " takes " << expected << " arguments, not "
                               << count;
    }
    body.CallPacked(args, count, result);
  };
  Function::SetGlobal(name, Function::FromPacked(counted), true);
}

}  // namespace

void ServeSession(int socket, const SessionSettings& settings) {
  session = settings;
  // Candidates are tried once: what they compile to goes with the session.
  SetDeviceFolder(session.folder + "/devices", false);
  Apply(Place(session.threads, session.cluster), session.spin_us);
  LockEvaluators();
  CountArguments("tvm.rpc.server.upload", 2);
  CountArguments("tvm.rpc.server.download", 1);
  CountArguments("tvm.rpc.server.remove", 1);
  CountArguments("tvm.contrib.random.random_fill", 1);
  CountArguments("tvm.contrib.random.random_fill_for_measure", 1);
  const auto global = [](const char* name, auto body) {
    Function::SetGlobal(name, Function::FromTyped(body), true);
  };
  global("tvm.rpc.server.workpath", [](const std::string& name) { return Inside(name); });
  global("tvm.rpc.server.load_module", [](const std::string& name) { return Load(name); });
  global("edge.fingerprint", [] { return std::string(Fingerprint()); });
  global("edge.info", [] { return Info(session.state, JsonDevices(false)); });
  // The session's own deadline is that of a driver, too.
  global("edge.devices", [] { return JsonDevices(true); });
  global("edge.configure", [](int threads, const std::string& cluster) { Configure(threads, cluster); });
  Function::SetGlobal("edge.vta.measure", Function::FromPacked([](PackedArgs arguments, Any* result) {
                        MeasureProgram(arguments, result);
                      }),
                      true);
  // TVM's name, by which its clients ask.
  global("runtime.NumThreads", PoolThreads);
  ServeBehindFence(socket);
}

void AnswerTimeout(int socket, double timeout) {
  // Without the prefix the client would raise a plain RPCError.
  Function::GetGlobalRequired("rpc.ReturnException")(
      socket, "RPCSessionTimeoutError: the session's " + JsonNumber(timeout) +
                  " s have passed; ask for a longer session_timeout");
}

}  // namespace edge
