// edge_rt.h on top of TVM's Relax virtual machine.
#include "api.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/runtime/device_api.h>
#include <tvm/runtime/tensor.h>
#include <tvm/runtime/timer.h>
#include <tvm/runtime/vm/vm.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "cause.h"
#include "check.h"
#include "cpu.h"
#include "device.h"
#include "edge_rt.h"
#include "load.h"
#include "pool.h"
#include "text.h"

using tvm::ffi::Any;
using tvm::ffi::AnyView;
using tvm::ffi::Function;
using tvm::ffi::Module;
using tvm::runtime::Tensor;

constexpr tvm::Device kCpu{kDLCPU, 0};
// TVM's pooled allocator: memory is kept between runs.
constexpr int kPooled = 2;
constexpr int kMostRuns = 1 << 30;

struct edge_library {
  edge_library(edge::Found found, Module executable, Module machine, Function main,
               edge::Placement placement)
      : device(found.device),
        computes_on(found.name),
        executable(executable),
        machine(machine),
        main(main),
        placement(placement) {}
  ~edge_library() {
    // What a device made of the network, such as graphs, goes before the memory that it uses.
    static_cast<tvm::runtime::vm::VirtualMachine*>(machine.operator->())->extensions.clear();
  }

  tvm::Device device;
  std::string computes_on;
  Module executable;
  Module machine;
  Function main;
  edge::Placement placement;
  int number = 0;  // runs of the last edge_measure
  std::vector<std::string> names;
  std::vector<tvm::ffi::Optional<Tensor>> inputs;
  std::vector<Tensor> outputs;
  std::string dtype;  // of the output asked for last
};

namespace edge {

static thread_local Failure last(EDGE_OK, "", "");

const Failure& LastFailure() { return last; }

void CheckFunctions(const std::string& names) {
  std::vector<std::string> missing;
  std::string words;
  for (const std::string& name : Split(names, ',')) {
    if (Function::GetGlobal(name).has_value()) continue;
    missing.push_back(name);
    words += (words.empty() ? "" : ", ") + name;
  }
  if (missing.empty()) return;
  throw Failure(EDGE_REQUIRES, "function",
                "the library calls functions that this edge-rt does not have: " + words,
                ", \"missing\": " + JsonArray(missing));
}

// Runs `body`; whatever it throws becomes the last failure.
template <typename Body>
static int Guard(const char* kind, Body body) {
  try {
    body();
    return EDGE_OK;
  } catch (const Failure& failure) {
    last = failure;
  } catch (const tvm::ffi::Error& error) {
    std::string message = error.message();
    const std::string cause = TakeCause(&message);
    last = Failure(EDGE_FAILED, kind, message, cause.empty() ? "" : ", \"cause\": " + Quote(cause));
  } catch (const std::exception& error) {
    last = Failure(EDGE_FAILED, kind, error.what());
  } catch (...) {
    last = Failure(EDGE_FAILED, kind, "an exception that is none of C++'s own");
  }
  return last.code;
}

static bool IsCpu(const tvm::Device& device) { return device.device_type == kDLCPU; }

// Until it has computed what it was given.
static void Await(const tvm::Device& device) {
  if (!IsCpu(device)) tvm::runtime::DeviceAPI::Get(device)->StreamSync(device, nullptr);
}

static Module NewMachine(const Module& executable, const tvm::Device& device) {
  Module machine = executable->GetFunction("vm_load_executable").value()().cast<Module>();
  const Function initialize = machine->GetFunction("vm_initialization").value();
  // Shapes are computed by the CPU, the last one.
  if (IsCpu(device)) {
    initialize(static_cast<int>(kDLCPU), 0, kPooled);
  } else {
    initialize(static_cast<int>(device.device_type), device.device_id, kPooled,
               static_cast<int>(kDLCPU), 0, kPooled);
  }
  return machine;
}

static Any Call(const edge_library& library, const Function& function) {
  std::vector<AnyView> arguments;
  for (size_t i = 0; i < library.inputs.size(); ++i) {
    if (!library.inputs[i].has_value()) throw Usage("input " + library.names[i] + " is not set");
    arguments.push_back(library.inputs[i].value());
  }
  Any result;
  const Computing computing(library.computes_on);
  try {
    function.CallPacked(arguments.data(), static_cast<int>(arguments.size()), &result);
  } catch (const tvm::ffi::Error& error) {
    const std::string message = error.message();
    if (error.kind() == kValueError) throw Failure(EDGE_USAGE, "value", message);
    // The network's check of its parameters; the words name the parameter and what it expects.
    if (message.find("loc=param[") == message.npos) throw;
    throw Failure(EDGE_USAGE, "input", message);
  }
  return result;
}

// Outputs may be nested tuples; they are numbered from left to right, and brought to the host's memory.
static void Flatten(const Any& value, std::vector<Tensor>* out) {
  if (auto tensor = value.as<Tensor>()) {
    out->push_back(IsCpu(tensor.value()->device) ? tensor.value() : tensor.value().CopyTo(kCpu));
  } else if (auto array = value.as<tvm::ffi::Array<Any>>()) {
    for (const Any& item : array.value()) Flatten(item, out);
  } else {
    throw Failure(EDGE_FAILED, "run", "an output is neither a tensor nor a tuple");
  }
}

// The caller's header may be another version's: fields of an earlier one that are missing are 0, and those
// of a later one that are not known here must be.
static edge_options Known(const edge_options* given) {
  if (given == nullptr) return {};
  static_assert(sizeof *given == offsetof(edge_options, device_folder) + sizeof given->device_folder,
                "padding at the end would count as a field that is not known");
  // Where the first version ended, and the second.
  constexpr size_t kEnds[] = {offsetof(edge_options, device), offsetof(edge_options, device_folder)};
  constexpr size_t kMost = 4096;  // no version will have more: it is no size
  for (const size_t end : kEnds) {
    if (given->size != end) continue;
    edge_options known{};
    std::memcpy(&known, given, end);
    return known;
  }
  if (given->size < sizeof *given || given->size > kMost) {
    throw Usage("edge_options.size is " + std::to_string(given->size) +
                ": set it to sizeof(edge_options)");
  }
  const char* bytes = reinterpret_cast<const char*>(given);
  if (std::any_of(bytes + sizeof *given, bytes + given->size, [](char byte) { return byte != 0; })) {
    throw Usage("edge_options has fields that this libedge.so does not know: "
                "it is older than the program's edge_rt.h");
  }
  return *given;
}

static edge_library* Open(const char* path, const edge_options& options) {
  if (path == nullptr) throw Usage("no library given");
  char resolved[PATH_MAX];
  if (realpath(path, resolved) == nullptr) throw Io(std::string("cannot open ") + path);
  if (options.requires_ != nullptr) CheckFeatures(options.requires_);
  const std::string folder = options.device_folder == nullptr ? "" : options.device_folder;
  SetDeviceFolder(folder, !folder.empty());
  const Found found = FindDevice(options.device == nullptr ? "" : options.device);
  CheckLibrary(resolved);
  const Placement placement = Place(options.threads, options.cluster ? options.cluster : "");
  Apply(placement, options.spin_us == 0 ? kSpinUs : std::max(0, options.spin_us));
  const Computing computing(found.name);
  const Module executable = LoadLibrary(resolved);
  if (!executable->GetFunction("vm_load_executable").has_value()) {
    throw Failure(EDGE_FAILED, "load", std::string(path) + " holds no network (no Relax executable)");
  }
  const Module machine = NewMachine(executable, found.device);
  const auto main = machine->GetFunction("main");
  if (!main.has_value()) {
    throw Failure(EDGE_FAILED, "load", std::string(path) + " has no function main");
  }
  auto library = std::make_unique<edge_library>(found, executable, machine, main.value(), placement);
  const int count = machine->GetFunction("get_function_arity").value()("main").cast<int>();
  const Function name = machine->GetFunction("get_function_param_name").value();
  for (int i = 0; i < count; ++i) library->names.push_back(name("main", i).cast<std::string>());
  library->inputs.resize(count);
  return library.release();
}

static void SetInput(edge_library* library, int index, const edge_tensor& value) {
  if (index < 0 || index >= static_cast<int>(library->inputs.size())) {
    throw Usage("there is no input " + std::to_string(index));
  }
  if (value.dtype == nullptr || value.ndim < 0) throw Usage("an input has no type or no shape");
  DLDataType dtype;
  try {
    dtype = tvm::ffi::StringToDLDataType(value.dtype);
  } catch (const tvm::ffi::Error&) {
    throw Usage("an input has the unknown type " + Quote(value.dtype));
  }
  size_t needed = (dtype.bits * dtype.lanes + 7) / 8;
  bool fits = true;
  for (int i = 0; i < value.ndim; ++i) {
    // Neither a negative extent nor a product that wraps around to the right size.
    fits = fits && !__builtin_mul_overflow(needed, value.shape[i], &needed);
  }
  if (!fits || needed != value.bytes) throw Usage("shape and bytes of an input don't agree");
  const tvm::ffi::Shape shape(value.shape, value.shape + value.ndim);
  Tensor tensor = Tensor::Empty(shape, dtype, library->device);
  if (needed != 0) tensor.CopyFromBytes(value.data, needed);
  library->inputs[index] = tensor;
}

// Mean milliseconds of `number` runs by TVM's evaluator, the one behind RPC's time_evaluator, which waits
// for the device before the first and after the last. Its first, untimed call is left out: our caller warms up as it likes.
static double Evaluate(const edge_library& library, int number) {
  bool first = true;
  Function body = Function::FromPacked([&](const AnyView*, int, Any*) {
    if (!std::exchange(first, false)) Call(library, library.main);
  });
  const auto bytes = tvm::runtime::WrapTimeEvaluator(body, library.device, number, 1, 0, 1, 0, 1)()
                         .cast<tvm::ffi::Bytes>();
  double seconds;
  if (bytes.size() != sizeof(seconds)) throw Failure(EDGE_FAILED, "run", "no time came back");
  std::memcpy(&seconds, bytes.data(), sizeof(seconds));
  return seconds * 1e3;
}

static void Measure(edge_library* library, int number, int min_ms, double* ms, int* runs) {
  if (number < 1 || min_ms < 0) throw Usage("a measurement needs at least one run");
  // A number that was large enough once is where the next repeat begins.
  number = std::max(number, library->number);
  while ((*ms = Evaluate(*library, number)) * number < min_ms && number < kMostRuns) {
    const double enough = *ms > 0 ? min_ms / *ms + 1 : 0;
    number = static_cast<int>(std::min<double>(kMostRuns, std::max(enough, 1.618 * number)));
  }
  library->number = number;
  if (runs != nullptr) *runs = number;
}

// Milliseconds of the fastest of `repeat` times.
template <typename Body>
static double Fastest(int repeat, Body body) {
  using Clock = std::chrono::steady_clock;
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeat; ++i) {
    const auto begin = Clock::now();
    body();
    fastest = std::min(fastest, std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  return fastest;
}

static void MeasureCopies(const edge_library& library, int repeat, double* to_ms, double* from_ms) {
  if (repeat < 1) throw Usage("a measurement needs at least one run");
  *to_ms = *from_ms = 0;
  if (IsCpu(library.device)) return;
  const Any results = Call(library, library.main);
  Await(library.device);
  std::vector<Tensor> inputs, back;
  for (const auto& input : library.inputs) inputs.push_back(input.value().CopyTo(kCpu));
  Flatten(results, &back);  // memory that is touched for the first time is no part of a copy
  *to_ms = Fastest(repeat, [&] {
    for (size_t i = 0; i < inputs.size(); ++i) {
      Tensor target = library.inputs[i].value();
      target.CopyFrom(inputs[i]);
    }
    Await(library.device);
  });
  *from_ms = Fastest(repeat, [&] {
    std::vector<Tensor> outputs;
    Flatten(results, &outputs);
  });
}

struct OperatorTime {
  int calls = 0;
  double ms = 0;
};

static std::map<std::string, OperatorTime> Profile(edge_library* library, int runs) {
  using Clock = std::chrono::steady_clock;
  std::map<std::string, OperatorTime> operators;
  Clock::time_point begin;
  bool counting = false;
  // A virtual machine of its own (constants are shared): the measured one stays as it was.
  Module machine = NewMachine(library->executable, library->device);
  // Arguments: the function, its name, whether it is about to run, its result, its arguments.
  machine->GetFunction("set_instrument").value()(
      Function::FromPacked([&](const AnyView* arguments, int, Any* result) {
        *result = 0;
        if (arguments[2].cast<bool>()) {
          begin = Clock::now();
          return;
        }
        Await(library->device);
        const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
        const auto name = arguments[1].cast<std::string>();
        // The machine's own functions: allocation, shape checks.
        if (!counting || name.rfind("vm.", 0) == 0) return;
        ++operators[name].calls;
        operators[name].ms += took.count();
      }));
  Function main = machine->GetFunction("main").value();
  const WithoutGraphs each;  // operator is waited for
  Call(*library, main);
  counting = true;
  for (int i = 0; i < runs; ++i) Call(*library, main);
  return operators;
}

}  // namespace edge

extern "C" {

edge_library* edge_open(const char* path, const edge_options* options) {
  edge_library* library = nullptr;
  edge::Guard("load", [&] { library = edge::Open(path, edge::Known(options)); });
  return library;
}

void edge_close(edge_library* library) { delete library; }

int edge_input_count(const edge_library* library) { return static_cast<int>(library->names.size()); }

const char* edge_input_name(const edge_library* library, int index) {
  return index < 0 || index >= edge_input_count(library) ? nullptr : library->names[index].c_str();
}

int edge_set_input(edge_library* library, int index, const edge_tensor* value) {
  return edge::Guard("input", [&] { edge::SetInput(library, index, *value); });
}

int edge_run(edge_library* library) {
  return edge::Guard("run", [&] {
    library->outputs.clear();
    edge::Flatten(edge::Call(*library, library->main), &library->outputs);
  });
}

int edge_output_count(const edge_library* library) {
  return static_cast<int>(library->outputs.size());
}

int edge_output(edge_library* library, int index, edge_tensor* value) {
  return edge::Guard("output", [&] {
    if (index < 0 || index >= edge_output_count(library)) {
      throw edge::Usage("there is no output " + std::to_string(index));
    }
    const Tensor& tensor = library->outputs[index];
    library->dtype = tvm::ffi::DLDataTypeToString(tensor->dtype);
    *value = {library->dtype.c_str(), tensor->ndim, tensor->shape,
              static_cast<const char*>(tensor->data) + tensor->byte_offset,
              tvm::ffi::GetDataSize(*tensor.operator->())};
  });
}

int edge_measure(edge_library* library, int number, int min_repeat_ms, double* ms, int* runs) {
  return edge::Guard("run", [&] { edge::Measure(library, number, min_repeat_ms, ms, runs); });
}

int edge_measure_copies(edge_library* library, int repeat, double* to_ms, double* from_ms) {
  return edge::Guard("run", [&] { edge::MeasureCopies(*library, repeat, to_ms, from_ms); });
}

int edge_profile(edge_library* library, int runs, edge_operator report, void* context) {
  return edge::Guard("run", [&] {
    if (runs < 1) throw edge::Usage("a profile needs at least one run");
    for (const auto& [name, time] : edge::Profile(library, runs)) {
      report(context, name.c_str(), static_cast<double>(time.calls) / runs, time.ms / runs);
    }
  });
}

int edge_threads(const edge_library* library) { return library->placement.threads; }

const int* edge_cpus(const edge_library* library, int* count) {
  *count = static_cast<int>(library->placement.cpus.size());
  return *count == 0 ? nullptr : library->placement.cpus.data();
}

const char* edge_last_error() { return edge::LastFailure().what(); }

const char* edge_last_error_kind() { return edge::LastFailure().kind.c_str(); }

}
