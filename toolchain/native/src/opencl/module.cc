// The kernels of a library, as a module of TVM's runtime.
#include <tvm/ffi/cast.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>

#include <map>
#include <string>
#include <utility>

#include "opencl/launch.h"
#include "opencl/workspace.h"

namespace edge::opencl {
namespace {

using tvm::ffi::Any;
using tvm::ffi::AnyView;
using tvm::ffi::Bytes;
using tvm::ffi::Function;
using tvm::ffi::Module;
using tvm::ffi::String;

class OpenClModule final : public tvm::ffi::ModuleObj {
 public:
  explicit OpenClModule(const Bytes& bytes) : bytes_(bytes) {
    for (auto& [name, code] : ReadCode({bytes.data(), bytes.size()})) {
      kernels_[name].code = std::move(code);
    }
  }

  const char* kind() const final { return "opencl"; }
  int GetPropertyMask() const final { return Module::kBinarySerializable | Module::kRunnable; }
  Bytes SaveToBytes() const final { return bytes_; }

  String InspectSource(const String&) const final {
    std::string source;
    for (const auto& [name, kernel] : kernels_) source += kernel.code.source;
    return String(source);
  }

  tvm::ffi::Optional<Function> GetFunction(const String& name) final {
    const auto found = kernels_.find(std::string(name));
    if (found == kernels_.end()) return std::nullopt;
    // The function keeps the module, and with it the kernel.
    const auto self = tvm::ffi::GetObjectPtr<OpenClModule>(this);
    Entry* entry = &found->second;
    return Function::FromPacked([self, entry](const AnyView* arguments, int count, Any*) {
      Queue& queue = QueueOf(CurrentDevice());
      std::lock_guard<std::mutex> lock(queue.launching);
      Kernel& kernel = entry->compiled[queue.number];
      if (kernel.kernel == nullptr) kernel = Compile(queue, entry->code);
      Launch(queue, kernel, entry->code, arguments, count);
    });
  }

  ~OpenClModule() {
    for (const auto& [name, entry] : kernels_) {
      for (const auto& [device, kernel] : entry.compiled) {
        if (kernel.kernel == nullptr) continue;
        QueueOf(device).cl.clReleaseKernel(kernel.kernel);
        WorkspacesOf(device).Drop();  // they were its functions', most likely
      }
    }
  }

 private:
  struct Entry {
    KernelCode code;
    std::map<int, Kernel> compiled;  // by device, when it is first begun there
  };

  Bytes bytes_;
  std::map<std::string, Entry> kernels_;
};

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def("ffi.Module.load_from_bytes.opencl", [](const Bytes& bytes) {
    return Module(tvm::ffi::make_object<OpenClModule>(bytes));
  });
}

}  // namespace edge::opencl
