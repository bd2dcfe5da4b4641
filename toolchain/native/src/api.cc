// edge_rt.h on top of TVM's Relax virtual machine.
#include "api.h"

#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/runtime/device_api.h>
#include <tvm/runtime/tensor.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "cause.h"
#include "check.h"
#include "cpu.h"
#include "device.h"
#include "edge_rt.h"
#include "library.h"
#include "load.h"
#include "pool.h"
#include "shapes.h"
#include "text.h"
#include "timing.h"

using tvm::ffi::Any;
using tvm::ffi::Function;
using tvm::ffi::Module;
using tvm::runtime::Tensor;

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
  } catch (const std::bad_alloc&) {
    last = Failure(EDGE_FAILED, "memory", kNoMemory);
  } catch (const tvm::ffi::Error& error) {
    std::string message = error.message();
    if (message == kNoMemory || message == std::bad_alloc().what()) kind = "memory", message = kNoMemory;
    const std::string cause = TakeCause(&message);
    last = Failure(EDGE_FAILED, kind, message, cause.empty() ? "" : ", \"cause\": " + Quote(cause));
  } catch (const std::exception& error) {
    last = Failure(EDGE_FAILED, kind, error.what());
  } catch (...) {
    last = Failure(EDGE_FAILED, kind, "an exception that is none of C++'s own");
  }
  return last.code;
}


// The caller's header may be another version's: fields of an earlier one that are missing are 0, and those
// of a later one that are not known here must be.
static edge_options Known(const edge_options* given) {
  if (given == nullptr) return {};
  static_assert(sizeof *given == offsetof(edge_options, pad) + sizeof given->pad,
                "padding at the end would count as a field that is not known");
  // Where the first version ended, the second, and the third.
  constexpr size_t kEnds[] = {offsetof(edge_options, device), offsetof(edge_options, device_folder),
                              offsetof(edge_options, pad)};
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
  if (!machine->GetFunction("main").has_value()) {
    throw Failure(EDGE_FAILED, "load", std::string(path) + " has no function main");
  }
  auto library = std::make_unique<edge_library>(found, executable, machine, placement);
  const int count = machine->GetFunction("get_function_arity").value()("main").cast<int>();
  const Function name = machine->GetFunction("get_function_param_name").value();
  for (int i = 0; i < count; ++i) library->names.push_back(name("main", i).cast<std::string>());
  library->inputs.resize(count);
  library->shapes = ReadShapes(machine, count);
  library->pad = options.pad != 0;
  return library.release();
}

// Whether the tensor of an input can hold a new value: it has the shape and the type, and nobody else has
// it, such as an output of the last run that is an input, or a part of one.
static bool Takes(const edge_library& library, int index, const edge_tensor& value, DLDataType dtype) {
  if (!library.inputs[index].has_value()) return false;
  const Tensor tensor = library.inputs[index].value();
  int ours = 2;  // `inputs` and `tensor`
  for (const Tensor& argument : library.arguments) ours += argument.same_as(tensor) ? 1 : 0;
  return tensor.use_count() == ours && tensor->ndim == value.ndim && tensor->dtype == dtype &&
         std::equal(value.shape, value.shape + value.ndim, tensor->shape);
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
  if (!Takes(*library, index, value, dtype)) {
    const tvm::ffi::Shape shape(value.shape, value.shape + value.ndim);
    library->inputs[index] = Tensor::Empty(shape, dtype, library->device);
  }
  if (needed != 0) library->inputs[index].value().CopyFromBytes(value.data, needed);
  library->changed = true;
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

int edge_shape_count(const edge_library* library) {
  return library->shapes.size() == 1 ? 0 : static_cast<int>(library->shapes.size());
}

const int64_t* edge_shape(const edge_library* library, int shape, int input, int* ndim) {
  if (shape < 0 || shape >= edge_shape_count(library) || input < 0 || input >= edge_input_count(library)) return nullptr;
  const std::vector<int64_t>& extents = library->shapes[shape].inputs[input];
  *ndim = static_cast<int>(extents.size());
  static const int64_t kOfScalars = 0;  // NULL says that there is no such input
  return extents.empty() ? &kOfScalars : extents.data();
}

int edge_set_input(edge_library* library, int index, const edge_tensor* value) {
  return edge::Guard("input", [&] { edge::SetInput(library, index, *value); });
}

int edge_run(edge_library* library) {
  return edge::Guard("run", [&] {
    library->outputs.clear();
    edge::ChooseShape(library);
    edge::Flatten(edge::Call(*library, library->chosen->function), &library->outputs);
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
    const std::string& dtype = *library->dtypes.insert(tvm::ffi::DLDataTypeToString(tensor->dtype)).first;
    *value = {dtype.c_str(), tensor->ndim, tensor->shape,
              static_cast<const char*>(tensor->data) + tensor->byte_offset,
              tvm::ffi::GetDataSize(*tensor.operator->())};
  });
}

int edge_measure(edge_library* library, int number, int min_repeat_ms, double* ms, int* runs) {
  return edge::Guard("run", [&] {
    edge::ChooseShape(library);
    edge::Measure(library, number, min_repeat_ms, ms, runs);
  });
}

int edge_measure_copies(edge_library* library, int repeat, double* to_ms, double* from_ms) {
  return edge::Guard("run", [&] {
    edge::ChooseShape(library);
    edge::MeasureCopies(*library, repeat, to_ms, from_ms);
  });
}

int edge_profile(edge_library* library, int runs, edge_operator report, void* context) {
  return edge::Guard("run", [&] {
    if (runs < 1) throw edge::Usage("a profile needs at least one run");
    edge::ChooseShape(library);
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
