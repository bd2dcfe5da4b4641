// CUDA as a device of TVM's runtime.
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/runtime/device_api.h>
#include <tvm/runtime/timer.h>

#include <utility>
#include <vector>

#include "cuda/graph.h"
#include "cuda/launch.h"
#include "text.h"

namespace edge::cuda {
namespace {

using tvm::Device;
using tvm::ffi::Any;
using tvm::ffi::String;
using tvm::runtime::DeviceAttrKind;

constexpr std::pair<DeviceAttrKind, CUdevice_attribute> kNumbers[] = {
    {tvm::runtime::kMaxThreadsPerBlock, kMaxThreadsPerBlock},
    {tvm::runtime::kWarpSize, kWarpSize},
    {tvm::runtime::kMaxSharedMemoryPerBlock, kSharedPerBlock},
    {tvm::runtime::kMaxClockRate, kClockKhz},  // kHz both
    {tvm::runtime::kMultiProcessorCount, kMultiprocessors},
    {tvm::runtime::kMaxRegistersPerBlock, kRegistersPerBlock},
    {tvm::runtime::kL2CacheSizeBytes, kL2Bytes}};

const char* At(const void* memory, size_t offset) { return static_cast<const char*>(memory) + offset; }
char* At(void* memory, size_t offset) { return static_cast<char*>(memory) + offset; }

class CudaDevice final : public tvm::runtime::DeviceAPI {
 public:
  static CudaDevice* Get() {
    static auto* device = new CudaDevice;
    return device;
  }

  // What compiled code says before it begins kernels.
  void SetDevice(Device device) final { CurrentDevice() = device.device_id; }

  // In TVM's words and units: its clients ask sessions by them.
  void GetAttr(Device asked, DeviceAttrKind kind, Any* result) final {
    std::string problem;
    const std::vector<CuDevice>& devices = Devices(&problem);
    const bool here = asked.device_id >= 0 && asked.device_id < static_cast<int>(devices.size());
    if (kind == tvm::runtime::kExist) *result = static_cast<int>(here);
    if (!here) return;
    const CuDevice& device = devices[asked.device_id];
    for (const auto& [of_tvm, of_driver] : kNumbers) {
      if (of_tvm == kind) *result = static_cast<int64_t>(DeviceNumber(device, of_driver));
    }
    switch (kind) {
      case tvm::runtime::kComputeVersion: *result = String(Cat({device.major, ".", device.minor})); break;
      case tvm::runtime::kDeviceName: *result = String(device.name); break;
      case tvm::runtime::kMaxThreadDimensions:
        *result = String(Cat({"[", device.block[0], ", ", device.block[1], ", ", device.block[2], "]"}));
        break;
      case tvm::runtime::kApiVersion:
      case tvm::runtime::kDriverVersion: *result = static_cast<int64_t>(device.driver->version); break;
      case tvm::runtime::kTotalGlobalMemory: *result = static_cast<int64_t>(device.global_bytes); break;
      default: break;
    }
  }

  bool SupportsDevicePointerArithmeticsOnHost() final { return true; }

  void* AllocDataSpace(Device device, size_t bytes, size_t, DLDataType) final {
    return GpuOf(device.device_id).Allocate(bytes);
  }
  void FreeDataSpace(Device device, void* memory) final { GpuOf(device.device_id).Free(memory); }

  // Asked by compiled code, through which nothing can be thrown: it looks for null and for TVM's last error.
  void* AllocWorkspace(Device device, size_t bytes, DLDataType) final {
    try {
      Capture* capture = CurrentCapture();
      return capture == nullptr ? GpuOf(device.device_id).workspaces.Take(bytes) : capture->resources().Take(bytes);
    } catch (const tvm::ffi::Error& error) {
      tvm::ffi::details::SetSafeCallRaised(error);
      return nullptr;
    }
  }
  void FreeWorkspace(Device device, void* memory) final {
    Capture* capture = CurrentCapture();
    if (capture == nullptr) {
      GpuOf(device.device_id).workspaces.Give(memory);
    } else {
      capture->resources().Give(memory);
    }
  }

  void StreamSync(Device device, TVMStreamHandle) final { GpuOf(device.device_id).Wait(); }

 protected:
  void CopyDataFromTo(const void* from, size_t from_offset, void* to, size_t to_offset, size_t bytes,
                      Device source, Device target, DLDataType, TVMStreamHandle) final {
    const bool ours = source.device_type == kDLCUDA, into = target.device_type == kDLCUDA;
    if (ours && into && source.device_id == target.device_id) {
      GpuOf(source.device_id).Copy(At(from, from_offset), At(to, to_offset), bytes);
    } else if (ours && into) {
      std::vector<char> between(bytes);
      GpuOf(source.device_id).Read(At(from, from_offset), between.data(), bytes);
      GpuOf(target.device_id).Write(between.data(), At(to, to_offset), bytes);
    } else if (ours) {
      GpuOf(source.device_id).Read(At(from, from_offset), At(to, to_offset), bytes);
    } else {
      GpuOf(target.device_id).Write(At(from, from_offset), At(to, to_offset), bytes);
    }
  }
};

// By the GPU's own clock, from when it comes to the first event until it comes to the second: gaps in which it
// waits for the host are in it, the time to wake the host is not.
class EventTimer final : public tvm::runtime::TimerNode {
 public:
  explicit EventTimer(int device) : gpu_(GpuOf(device)) {
    gpu_.Enter();
    for (CUevent* event : {&begin_, &end_}) gpu_.Check("cuEventCreate", gpu_.cu.cuEventCreate(event, kEventDefault));
  }
  ~EventTimer() {
    if (!gpu_.TryEnter()) return;
    gpu_.cu.cuEventDestroy_v2(begin_);
    gpu_.cu.cuEventDestroy_v2(end_);
  }
  void Start() final { Record(begin_); }
  void Stop() final { Record(end_); }
  int64_t SyncAndGetElapsedNanos() final {
    gpu_.Enter();
    gpu_.Check("cuEventSynchronize", gpu_.cu.cuEventSynchronize(end_), "what was begun has failed");
    float ms = 0;
    gpu_.Check("cuEventElapsedTime", gpu_.cu.cuEventElapsedTime(&ms, begin_, end_));
    return static_cast<int64_t>(static_cast<double>(ms) * 1e6);
  }
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("edge.cuda.Timer", EventTimer, TimerNode);

 private:
  void Record(CUevent event) {
    gpu_.Enter();
    gpu_.Check("cuEventRecord", gpu_.cu.cuEventRecord(event, gpu_.stream));
  }

  Gpu& gpu_;
  CUevent begin_ = nullptr, end_ = nullptr;
};

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def_packed("device_api.cuda",
                  [](tvm::ffi::PackedArgs, Any* device) {
                    *device = static_cast<void*>(static_cast<tvm::runtime::DeviceAPI*>(CudaDevice::Get()));
                  })
      .def_packed("runtime.timer.cuda", [](tvm::ffi::PackedArgs arguments, Any* timer) {
        *timer = tvm::runtime::Timer(tvm::ffi::make_object<EventTimer>(arguments[0].cast<Device>().device_id));
      });
}

}  // namespace edge::cuda
