// A device for tests, by nothing but a file of its own: sanitized.py compiles it in (EDGE_RT_DEVICES).
// It keeps its tensors where the host can't read them, and computes when it is waited for, not before.
#include <tvm/ffi/reflection/registry.h>
#include <tvm/runtime/device_api.h>
#include <tvm/runtime/tensor.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device.h"
#include "text.h"

namespace edge {
namespace {

using tvm::Device;
using tvm::ffi::Any;

constexpr auto kWork = std::chrono::milliseconds(20);  // of each operator

// As many as the environment names.
Presence Probe() {
  const char* names = std::getenv("EDGE_RT_LAZY");
  if (names == nullptr) return {{}, "the environment names none"};
  return {Split(names, ','), ""};
}

// The handle of a tensor is no address of its elements, and these are stored inverted.
struct Buffer {
  std::vector<char> bytes;
};

char* Elements(const void* handle) {
  return static_cast<Buffer*>(const_cast<void*>(handle))->bytes.data();
}

class LazyDevice final : public tvm::runtime::DeviceAPI {
 public:
  static LazyDevice* Get() {
    static auto* device = new LazyDevice;
    return device;
  }

  void SetDevice(Device) final {}
  void GetAttr(Device device, tvm::runtime::DeviceAttrKind kind, Any* value) final {
    if (kind == tvm::runtime::kExist) {
      *value = static_cast<int>(device.device_id < static_cast<int>(Probe().names.size()));
    }
  }
  void* AllocDataSpace(Device, size_t bytes, size_t, DLDataType) final {
    return new Buffer{std::vector<char>(bytes)};
  }
  void FreeDataSpace(Device device, void* handle) final {
    StreamSync(device, nullptr);
    delete static_cast<Buffer*>(handle);
  }
  void StreamSync(Device, TVMStreamHandle) final {
    for (const auto& work : std::exchange(queue_, {})) work();
  }
  void Enqueue(std::function<void()> work) { queue_.push_back(std::move(work)); }

 protected:
  void CopyDataFromTo(const void* from, size_t from_offset, void* to, size_t to_offset, size_t bytes,
                      Device from_device, Device to_device, DLDataType, TVMStreamHandle) final {
    StreamSync(from_device, nullptr);
    const bool ours = from_device.device_type == kDLExtDev, into = to_device.device_type == kDLExtDev;
    const char* source = (ours ? Elements(from) : static_cast<const char*>(from)) + from_offset;
    char* target = (into ? Elements(to) : static_cast<char*>(to)) + to_offset;
    const char inverted = ours == into ? 0 : -1;
    for (size_t i = 0; i < bytes; ++i) target[i] = static_cast<char>(source[i] ^ inverted);
  }

 private:
  std::vector<std::function<void()>> queue_;
};

float Value(const char* elements, int64_t i) {
  uint32_t bits;
  std::memcpy(&bits, elements + i * sizeof(bits), sizeof(bits));
  bits = ~bits;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// out = a + b, of as many numbers as `out` has.
void Add(DLTensor* a, DLTensor* b, DLTensor* out) {
  for (const DLTensor* tensor : {a, b, out}) {
    if (tensor->device.device_type != kDLExtDev) TVM_FFI_THROW(ValueError) << "a tensor of the host's";
  }
  const int64_t count = tvm::ffi::GetDataSize(*out) / sizeof(float);
  LazyDevice::Get()->Enqueue([=, a = a->data, b = b->data, out = out->data] {
    std::this_thread::sleep_for(kWork);
    for (int64_t i = 0; i < count; ++i) {
      const float sum = Value(Elements(a), i) + Value(Elements(b), i);
      uint32_t bits;
      std::memcpy(&bits, &sum, sizeof(bits));
      bits = ~bits;
      std::memcpy(Elements(out) + i * sizeof(bits), &bits, sizeof(bits));
    }
  });
}

const RegisterDevice registered({"lazy", kDLExtDev, Probe});

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def_packed("device_api.ext_dev",
                  [](tvm::ffi::PackedArgs, Any* device) {
                    *device = static_cast<void*>(static_cast<tvm::runtime::DeviceAPI*>(LazyDevice::Get()));
                  })
      .def("edge.lazy.add", Add);
}

}  // namespace edge
