// Devices, contexts, and what errors are called.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "api.h"
#include "call.h"
#include "memory.h"
#include "stream.h"

namespace emulated {
namespace {

bool initialised = false;
thread_local std::vector<Context*> current;  // the top is the last

int Number(const char* name, int otherwise) {
  const char* words = std::getenv(name);
  return words ? std::atoi(words) : otherwise;
}

int DeviceCount() { return Number("EDGE_CUDA_DEVICES", 1); }

// EDGE_CUDA_CAPABILITY, such as 9.0. Without it 0.0, whose code is of arch 0.
std::pair<int, int> Capability() {
  const char* words = std::getenv("EDGE_CUDA_CAPABILITY");
  int major = 0, minor = 0;
  if (words) std::sscanf(words, "%d.%d", &major, &minor);
  return {major, minor};
}

Context* ContextOf(CUdevice device) {
  static auto& contexts = *new std::map<CUdevice, std::unique_ptr<Context>>;
  auto& context = contexts[device];
  if (!context) {
    context = std::make_unique<Context>();
    context->device = device;
    context->null_stream = new Stream;
    context->null_stream->context = context.get();
    context->null_stream->null = true;
  }
  return context.get();
}

bool Exists(CUdevice device) { return device >= 0 && device < DeviceCount(); }

// What CU_DEVICE_ATTRIBUTE_… of a number says: the limits of capability 9.0, the sizes of a small GPU.
const std::map<int, int>& Attributes() {
  static const auto& attributes = *new std::map<int, int>{
      {1, 1024},                                       // threads of a block
      {2, 1024}, {3, 1024}, {4, 64},                   // of its axes
      {5, 2147483647}, {6, 65535}, {7, 65535},         // axes of a grid
      {8, 49152}, {9, 65536}, {10, 32}, {12, 65536},   // shared memory, constants, warp, registers of a block
      {13, 1000000}, {14, 512}, {15, 1}, {16, 4},      // clock in kHz, texture alignment, overlap, multiprocessors
      {17, 0}, {18, 0}, {19, 1}, {20, 0},              // time limit, integrated, maps host memory, compute mode
      {31, 1}, {32, 0}, {33, 0}, {34, 0}, {35, 0},     // concurrent kernels, ECC, PCI bus, device, TCC
      {36, 1000000}, {37, 64}, {38, 1 << 20},          // memory clock, bus, L2 cache
      {39, 2048}, {40, 1}, {41, 1}, {50, 0},           // threads of a multiprocessor, copy engines, unified addresses
      {78, 1}, {79, 1}, {80, 1}, {81, 233472}, {82, 65536},
      {83, 0}, {95, 0}, {97, 232448}, {106, 32}, {115, 0},
  };
  return attributes;
}

}  // namespace

bool Initialised() { return initialised; }
Context* CurrentContext() { return current.empty() ? nullptr : current.back(); }

EMULATED_API CUresult cuInit(unsigned flags) {
  return Do("cuInit", Needs::kNothing, {{"flags", flags}}, [&] {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (DeviceCount() == 0) return CUDA_ERROR_NO_DEVICE;
    initialised = true;
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuDriverGetVersion(int* version) {
  return Do("cuDriverGetVersion", Needs::kNothing, {}, [&] {
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *version = Number("EDGE_CUDA_VERSION", 13000);
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuGetErrorName(CUresult result, const char** name) {
  *name = NameOf(result);
  return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EMULATED_API CUresult cuGetErrorString(CUresult result, const char** words) {
  switch (result) {
#define ROW(name, code, text) \
  case CUDA_##name:           \
    *words = text;            \
    return CUDA_SUCCESS;
    EMULATED_RESULTS(ROW)
#undef ROW
  }
  *words = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

EMULATED_API CUresult cuDeviceGetCount(int* count) {
  return Do("cuDeviceGetCount", Needs::kInit, {}, [&] {
    *count = DeviceCount();
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return Do("cuDeviceGet", Needs::kInit, {{"ordinal", ordinal}}, [&] {
    if (!Exists(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  return Do("cuDeviceGetName", Needs::kInit, {{"device", device}}, [&] {
    if (!Exists(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (name == nullptr || size <= 0) return CUDA_ERROR_INVALID_VALUE;
    std::snprintf(name, static_cast<std::size_t>(size), "emulated");
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  return Do("cuDeviceGetUuid_v2", Needs::kInit, {{"device", device}}, [&] {
    if (!Exists(device)) return CUDA_ERROR_INVALID_DEVICE;
    std::memset(uuid, 0, sizeof(*uuid));
    std::snprintf(uuid->bytes, sizeof(uuid->bytes), "emulated %d", device);
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuDeviceGetPCIBusId(char* id, int size, CUdevice device) {
  return Do("cuDeviceGetPCIBusId", Needs::kInit, {{"device", device}}, [&] {
    if (!Exists(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (id == nullptr || size < 13) return CUDA_ERROR_INVALID_VALUE;
    std::snprintf(id, static_cast<std::size_t>(size), "0000:00:%02x.0", static_cast<unsigned>(device) & 0xFF);
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice device) {
  return Do("cuDeviceTotalMem_v2", Needs::kInit, {{"device", device}}, [&] {
    if (!Exists(device)) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = memory::Total();
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice device) {
  return Do("cuDeviceGetAttribute", Needs::kInit, {{"attribute", attribute}, {"device", device}}, [&] {
    if (!Exists(device)) return CUDA_ERROR_INVALID_DEVICE;
    constexpr int kMajor = 75, kMinor = 76;
    if (value == nullptr || attribute <= 0) return CUDA_ERROR_INVALID_VALUE;
    const auto found = Attributes().find(attribute);
    *value = attribute == kMajor                 ? Capability().first
             : attribute == kMinor               ? Capability().second
             : found != Attributes().end()       ? found->second
                                                 : 0;
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return Do("cuDevicePrimaryCtxRetain", Needs::kInit, {{"device", device}}, [&] {
    if (!Exists(device)) return CUDA_ERROR_INVALID_DEVICE;
    *context = ContextOf(device);
    if ((*context)->failed != CUDA_SUCCESS) return (*context)->failed;
    ++(*context)->retained;
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return Do("cuDevicePrimaryCtxRelease_v2", Needs::kInit, {{"device", device}}, [&] {
    if (!Exists(device)) return CUDA_ERROR_INVALID_DEVICE;
    Context* context = ContextOf(device);
    if (context->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    --context->retained;
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuCtxSetCurrent(CUcontext context) {
  return Do("cuCtxSetCurrent", Needs::kInit, {{"context", static_cast<const void*>(context)}}, [&] {
    if (!current.empty()) current.pop_back();
    if (context != nullptr) current.push_back(context);
    return context == nullptr ? CUDA_SUCCESS : context->failed;
  });
}

EMULATED_API CUresult cuCtxGetCurrent(CUcontext* context) {
  return Do("cuCtxGetCurrent", Needs::kInit, {}, [&] {
    *context = CurrentContext();
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return Do("cuCtxPushCurrent_v2", Needs::kInit, {}, [&] {
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    current.push_back(context);
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  return Do("cuCtxPopCurrent_v2", Needs::kInit, {}, [&] {
    if (current.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (context != nullptr) *context = current.back();
    current.pop_back();
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuCtxGetDevice(CUdevice* device) {
  return Do("cuCtxGetDevice", Needs::kContext, {}, [&] {
    *device = CurrentContext()->device;
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuCtxSynchronize() {
  return Do("cuCtxSynchronize", Needs::kContext, {}, [&] {
    for (Stream* stream : CurrentContext()->streams) {
      if (!stream->capture) continue;
      stream->capture->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return FinishAll(CurrentContext());
  });
}

}  // namespace emulated
