#include "library.h"

#include <tvm/ffi/container/array.h>
#include <tvm/runtime/device_api.h>

#include "check.h"
#include "edge_rt.h"
#include "load.h"

using tvm::ffi::Any;
using tvm::ffi::AnyView;
using tvm::ffi::Function;
using tvm::ffi::Module;
using tvm::runtime::Tensor;

namespace edge {

// TVM's pooled allocator: memory is kept between runs.
constexpr int kPooled = 2;

bool IsCpu(const tvm::Device& device) { return device.device_type == kDLCPU; }

void Await(const tvm::Device& device) {
  if (!IsCpu(device)) tvm::runtime::DeviceAPI::Get(device)->StreamSync(device, nullptr);
}

Module NewMachine(const Module& executable, const tvm::Device& device) {
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

Any Call(const edge_library& library, const Function& function) {
  std::vector<AnyView> arguments;
  for (const Tensor& argument : library.arguments) arguments.emplace_back(argument);
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

void Flatten(const Any& value, std::vector<Tensor>* out) {
  if (auto tensor = value.as<Tensor>()) {
    out->push_back(IsCpu(tensor.value()->device) ? tensor.value() : tensor.value().CopyTo(kCpu));
  } else if (auto array = value.as<tvm::ffi::Array<Any>>()) {
    for (const Any& item : array.value()) Flatten(item, out);
  } else {
    throw Failure(EDGE_FAILED, "run", "an output is neither a tensor nor a tuple");
  }
}

}  // namespace edge
