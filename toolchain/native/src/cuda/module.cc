// The kernels of a library, as a module of TVM's runtime.
#include <tvm/ffi/cast.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "cuda/launch.h"
#include "device.h"
#include "edge_rt.h"
#include "failure.h"

namespace edge::cuda {
namespace {

using tvm::ffi::Any;
using tvm::ffi::AnyView;
using tvm::ffi::Bytes;
using tvm::ffi::Function;
using tvm::ffi::Module;
using tvm::ffi::PackedArgs;
using tvm::ffi::String;

class CudaModule final : public tvm::ffi::ModuleObj {
 public:
  explicit CudaModule(const Bytes& bytes) : bytes_(bytes), code_(ReadCode({bytes_.data(), bytes_.size()})) {}

  const char* kind() const final { return "cuda"; }
  int GetPropertyMask() const final { return Module::kBinarySerializable | Module::kRunnable; }
  Bytes SaveToBytes() const final { return bytes_; }

  String InspectSource(const String&) const final { return String(code_.comment); }

  tvm::ffi::Optional<Function> GetFunction(const String& name) final {
    const auto found = code_.kernels.find(std::string(name));
    if (found == code_.kernels.end()) return std::nullopt;
    // The function keeps the module, and with it the kernel's form.
    const auto self = tvm::ffi::GetObjectPtr<CudaModule>(this);
    const KernelForm* form = &found->second;
    return Function::FromPacked([self, form](const AnyView* arguments, int count, Any*) {
      Gpu& gpu = GpuOf(CurrentDevice());
      const std::shared_ptr<LoadedUnits> units = self->Loaded(gpu);
      Launch(gpu, units, units->Find(form->name), *form, arguments, count);
    });
  }

  std::shared_ptr<LoadedUnits> Loaded(Gpu& gpu) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<LoadedUnits>& units = loaded_[gpu.number];
    if (units == nullptr) units = std::make_shared<LoadedUnits>(gpu, code_.units);
    return units;
  }

  const std::vector<Unit>& units() const { return code_.units; }

 private:
  Bytes bytes_;
  LibraryCode code_;
  std::mutex mutex_;
  std::map<int, std::shared_ptr<LoadedUnits>> loaded_;  // by device, when one is first computed on
};

[[noreturn]] void Refuse(const std::string& why) { throw Failure(EDGE_USAGE, "device", "CUDA: " + why); }

// Throws if no GPU of this machine takes the code.
void CheckSomeGpu(const std::vector<Unit>& units) {
  std::string problem, first;
  const std::vector<CuDevice>& devices = Devices(&problem);
  if (devices.empty()) Refuse("the library is for a GPU, and there is none: " + problem);
  for (const CuDevice& device : devices) {
    const std::string why = WhyNot(units, device);
    if (why.empty()) return;
    if (first.empty()) first = why;
  }
  Refuse(first);
}

void Load(PackedArgs arguments, Any* result) {
  const auto module = tvm::ffi::make_object<CudaModule>(arguments[0].cast<Bytes>());
  *result = Module(module);
  const Found device = FindDevice(ComputesOn());
  if (device.device.device_type != kDLCUDA) return CheckSomeGpu(module->units());
  // Where it is known which one computes, now: what the driver refuses is refused before anything runs.
  std::string problem;
  const std::string why = WhyNot(module->units(), Devices(&problem).at(device.device.device_id));
  if (!why.empty()) Refuse(why);
  module->Loaded(GpuOf(device.device.device_id));
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def_packed("ffi.Module.load_from_bytes.cuda", Load);
}

}  // namespace edge::cuda
