// OpenCL as a device of TVM's runtime.
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/runtime/device_api.h>
#include <tvm/runtime/timer.h>

#include <chrono>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "opencl/launch.h"
#include "opencl/queue.h"
#include "opencl/workspace.h"
#include "text.h"

namespace edge::opencl {
namespace {

using tvm::Device;
using tvm::ffi::Any;
using tvm::ffi::String;
using tvm::runtime::DeviceAttrKind;

// The first number in "OpenCL 1.2 v1.r14p0…", and the second behind its point: 120.
int64_t ApiVersion(const std::string& version) {
  const size_t at = version.find_first_of("0123456789"), point = version.find('.');
  if (at == version.npos || point == version.npos) return 0;
  const auto number = [&](size_t begin) {
    return static_cast<int64_t>(LeadingNumber(std::string_view(version).substr(begin), 1000).value_or(0));
  };
  return number(at) * 100 + number(point + 1) * 10;
}

class OpenClDevice final : public tvm::runtime::DeviceAPI {
 public:
  static OpenClDevice* Get() {
    static auto* device = new OpenClDevice;
    return device;
  }

  // What compiled code says before it begins kernels.
  void SetDevice(Device device) final { CurrentDevice() = device.device_id; }

  // In TVM's words and units: its clients ask sessions by them.
  void GetAttr(Device asked, DeviceAttrKind kind, Any* result) final {
    std::string problem;
    const std::vector<ClDevice>& devices = Devices(&problem);
    const bool here = asked.device_id >= 0 && asked.device_id < static_cast<int>(devices.size());
    if (kind == tvm::runtime::kExist) *result = static_cast<int>(here);
    if (!here) return;
    const ClDevice& device = devices[asked.device_id];
    const auto number = [&](DeviceInfo what, size_t bytes) {
      return static_cast<int64_t>(DeviceNumber(device, what, bytes));
    };
    switch (kind) {
      case tvm::runtime::kMaxThreadsPerBlock: *result = static_cast<int64_t>(device.work_group); break;
      case tvm::runtime::kWarpSize: *result = 1; break;
      case tvm::runtime::kMaxSharedMemoryPerBlock: *result = static_cast<int64_t>(device.local_bytes); break;
      case tvm::runtime::kComputeVersion: *result = String(device.version); break;
      case tvm::runtime::kDeviceName: *result = String(device.name); break;
      case tvm::runtime::kMaxClockRate: *result = number(kClockMhz, sizeof(cl_uint)) * 1000; break;
      case tvm::runtime::kMultiProcessorCount: *result = number(kComputeUnits, sizeof(cl_uint)); break;
      case tvm::runtime::kMaxThreadDimensions: {
        const size_t* most = device.work_items;
        *result = String("[" + std::to_string(most[0]) + ", " + std::to_string(most[1]) + ", " +
                         std::to_string(most[2]) + "]");
        break;
      }
      case tvm::runtime::kApiVersion: *result = ApiVersion(device.version); break;
      case tvm::runtime::kDriverVersion: *result = String(device.driver_version); break;
      case tvm::runtime::kL2CacheSizeBytes: *result = number(kCacheBytes, sizeof(uint64_t)); break;
      case tvm::runtime::kTotalGlobalMemory: *result = static_cast<int64_t>(device.global_bytes); break;
      default: break;
    }
  }

  void* AllocDataSpace(Device device, size_t bytes, size_t, DLDataType) final {
    return Allocate(device.device_id, bytes);
  }
  void FreeDataSpace(Device, void* handle) final { Free(handle); }

  // Asked by compiled code, through which nothing can be thrown: it looks for null and for TVM's last error.
  void* AllocWorkspace(Device device, size_t bytes, DLDataType) final {
    try {
      return WorkspacesOf(device.device_id).Take(bytes);
    } catch (const tvm::ffi::Error& error) {
      tvm::ffi::details::SetSafeCallRaised(error);
      return nullptr;
    }
  }
  void FreeWorkspace(Device device, void* handle) final { WorkspacesOf(device.device_id).Give(handle); }

  void StreamSync(Device device, TVMStreamHandle) final { Finish(QueueOf(device.device_id)); }

 protected:
  void CopyDataFromTo(const void* from, size_t from_offset, void* to, size_t to_offset, size_t bytes,
                      Device source, Device target, DLDataType, TVMStreamHandle) final {
    const bool ours = source.device_type == kDLOpenCL, into = target.device_type == kDLOpenCL;
    if (ours && into && source.device_id == target.device_id) {
      Copy(QueueOf(source.device_id), from, from_offset, to, to_offset, bytes);
    } else if (ours && into) {  // devices may belong to different drivers
      std::vector<char> between(bytes);
      Read(QueueOf(source.device_id), from, from_offset, between.data(), bytes);
      Write(QueueOf(target.device_id), between.data(), to, to_offset, bytes);
    } else if (ours) {
      Read(QueueOf(source.device_id), from, from_offset, static_cast<char*>(to) + to_offset, bytes);
    } else {
      Write(QueueOf(target.device_id), static_cast<const char*>(from) + from_offset, to, to_offset, bytes);
    }
  }
};

// By the clock, from an empty queue until it is empty again: what a user waits for. The sum of kernels'
// own times by OpenCL's events would leave out the gaps between them, and a queue that notes them is
// slower on some drivers.
class ClockTimer final : public tvm::runtime::TimerNode {
 public:
  explicit ClockTimer(int device) : device_(device) {}
  void Start() final {
    Finish(QueueOf(device_));
    begin_ = std::chrono::steady_clock::now();
  }
  void Stop() final {
    Finish(QueueOf(device_));
    took_ = std::chrono::steady_clock::now() - begin_;
  }
  int64_t SyncAndGetElapsedNanos() final { return took_.count(); }
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("edge.opencl.Timer", ClockTimer, TimerNode);

 private:
  int device_;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::nanoseconds took_{};
};

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def_packed("device_api.opencl",
                  [](tvm::ffi::PackedArgs, Any* device) {
                    *device = static_cast<void*>(static_cast<tvm::runtime::DeviceAPI*>(OpenClDevice::Get()));
                  })
      .def("runtime.timer.opencl", [](Device device) {
        return tvm::runtime::Timer(tvm::ffi::make_object<ClockTimer>(device.device_id));
      });
}

}  // namespace edge::opencl
