#include "vta/run/run.h"

#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/runtime/tensor.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "device.h"
#include "failure.h"
#include "text.h"
#include "vta/run/call.h"
#include "vta/run/driver.h"

using tvm::ffi::Any;
using tvm::ffi::PackedArgs;

namespace edge::vta {
namespace {

// What was made of one program, for each driver that was asked to run it. One run at a time: its memory holds
// one run's values.
struct Made {
  std::mutex mutex;
  ProgramHeader header;
  std::vector<Value> inputs, outputs;
  std::map<std::string, std::unique_ptr<Loaded>> loaded;
};

// By the first byte of constants of libraries that are open. An entry ends before its constant's memory is freed
// (KeepProgram), so no other tensor is ever taken for it.
struct Kept {
  std::mutex mutex;
  std::map<const void*, std::shared_ptr<Made>> made;
};

Kept& TheKept() {
  static auto* kept = new Kept;
  return *kept;
}

void Forget(const void* program) {
  std::shared_ptr<Made> made;  // gives an accelerator's memory back when the lock is free again
  const std::lock_guard lock(TheKept().mutex);
  const auto found = TheKept().made.find(program);
  if (found == TheKept().made.end()) return;
  made = std::move(found->second);
  TheKept().made.erase(found);
}

std::shared_ptr<Made> MadeOf(const void* program) {
  const std::lock_guard lock(TheKept().mutex);
  const auto found = TheKept().made.find(program);
  return found == TheKept().made.end() ? std::make_shared<Made>() : found->second;
}

// What the cycle model says of the programs that the calling thread has simulated.
struct Modelled {
  double ms = 0;
  uint64_t cycles = 0;
  uint32_t programs = 0, mhz = 0, version = 0;
};

thread_local Modelled modelled;

std::mutex wish_mutex;
std::string wish;  // edge.vta.use: of this process, where no network was opened for a VTA

void Use(const std::string& name) {
  const std::string found = FindDevice("vta:" + name).name.substr(4);
  const std::lock_guard lock(wish_mutex);
  wish = found;
}

// Where the program stands among the arguments: the only one of bytes without a sign.
size_t FindProgram(const std::vector<DLTensor*>& tensors) {
  size_t at = tensors.size();
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!IsOf(*tensors[i], kDLUInt)) continue;
    if (at != tensors.size()) throw Refusal("program", "two arguments are uint8: one alone is the program");
    at = i;
  }
  if (at == tensors.size()) throw Refusal("program", "no argument is uint8: the program is missing");
  const DLTensor& program = *tensors[at];
  if (program.ndim != 1 || program.device.device_type != kDLCPU || !tvm::ffi::IsContiguous(program)) {
    throw Refusal("program", "the program is no row of bytes in the host's memory");
  }
  return at;
}

Loaded& LoadedBy(const std::string& driver, const DLTensor& bytes, Made* made) {
  std::unique_ptr<Loaded>& loaded = made->loaded[driver];
  if (loaded != nullptr) return *loaded;
  const Program program = ReadProgram(Bytes(bytes), static_cast<size_t>(bytes.shape[0]));
  loaded = FindDriver(driver).Load(program);
  made->header = program.header;
  made->inputs = program.inputs;
  made->outputs = program.outputs;
  return *loaded;
}

void Run(const std::vector<DLTensor*>& tensors) {
  const size_t at = FindProgram(tensors);
  const std::string driver = DriverName();
  const std::shared_ptr<Made> made = MadeOf(Bytes(*tensors[at]));
  const std::lock_guard lock(made->mutex);
  Loaded& loaded = LoadedBy(driver, *tensors[at], made.get());
  const std::vector<DLTensor*> given(tensors.begin(), tensors.begin() + at);
  const std::vector<DLTensor*> wanted(tensors.begin() + at + 1, tensors.end());
  const Call call(made->inputs, made->outputs, given, wanted);
  call.Put(loaded.memory());
  const uint64_t cycles = loaded.Run();
  call.Get(loaded.memory());
  if (cycles == 0) return;
  modelled.cycles += cycles;
  modelled.ms += static_cast<double>(cycles) / made->header.mhz / 1000;
  ++modelled.programs;
  modelled.mhz = made->header.mhz;
  modelled.version = made->header.model.version;
}

void RunPacked(PackedArgs arguments, Any*) {
  try {
    std::vector<DLTensor*> tensors;
    for (int i = 0; i < arguments.size(); ++i) {
      const auto tensor = arguments[i].try_cast<DLTensor*>();
      if (!tensor.has_value()) throw Refusal("program", "argument " + std::to_string(i) + " is no tensor");
      tensors.push_back(*tensor);
    }
    Run(tensors);
  } catch (const Refusal& refusal) {
    if (refusal.rule == "driver") TVM_FFI_THROW(RuntimeError) << "edge.vta.run: " << refusal.what();
    TVM_FFI_THROW(RuntimeError) << "edge.vta.run: the program is refused: " << refusal.what()
                                << (refusal.rule == "design" ? "" : "; make the library anew: toolchain build");
  }
}

}  // namespace

// A simulation is taken where it was asked for by name, and nowhere else.
std::string DriverName() {
  const std::string& device = ComputesOn();
  if (device.starts_with("vta:")) return device.substr(4);
  {
    const std::lock_guard lock(wish_mutex);
    if (!wish.empty()) return wish;
  }
  return FindDevice("vta").name.substr(4);
}

std::shared_ptr<void> KeepProgram(const DLTensor& constant) {
  if (!IsOf(constant, kDLUInt) || constant.ndim != 1) return nullptr;
  if (constant.shape[0] < static_cast<int64_t>(sizeof(ProgramHeader))) return nullptr;
  {
    const std::lock_guard lock(TheKept().mutex);
    TheKept().made[constant.data] = std::make_shared<Made>();
  }
  return {constant.data, Forget};
}

std::string TakeModelled() {
  const Modelled taken = std::exchange(modelled, {});
  if (taken.programs == 0) return "null";
  return "{\"ms\": " + JsonNumber(taken.ms) + ", \"cycles\": " + std::to_string(taken.cycles) +
         ", \"mhz\": " + std::to_string(taken.mhz) + ", \"version\": " + std::to_string(taken.version) +
         ", \"programs\": " + std::to_string(taken.programs) + "}";
}

}  // namespace edge::vta

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def_packed("edge.vta.run", edge::vta::RunPacked)
      .def("edge.vta.use", edge::vta::Use);
}
