// What of CUDA's driver interface is called here: functions, types and numbers as NVIDIA's documentation of the
// driver API has them, by the names that libcuda.so.1 exports (a later version of a function has a name of its
// own, `_v2`; the first stays). No header of a driver is needed, and none is asked for at compile time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace edge::cuda {

using CUdevice = int;
using CUdeviceptr = uintptr_t;  // as wide as a pointer on every board that has a driver
using CUcontext = struct CUctx_opaque*;
using CUmodule = struct CUmod_opaque*;
using CUfunction = struct CUfunc_opaque*;
using CUstream = struct CUstream_opaque*;
using CUevent = struct CUevent_opaque*;
using CUgraph = struct CUgraph_opaque*;
using CUgraphExec = struct CUgraphExec_opaque*;

enum CUresult : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidImage = 200,
  kNoBinaryForGpu = 209,
  kEccUncorrectable = 214,
  kUnsupportedPtxVersion = 222,
  kInvalidSource = 300,
  kNotFound = 500,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kContextIsDestroyed = 709,
  kAssert = 710,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kInvalidAddressSpace = 717,
  kInvalidPc = 718,
  kLaunchFailed = 719,
};

enum CUdevice_attribute : int {
  kMaxThreadsPerBlock = 1,
  kMaxBlockX = 2,
  kMaxBlockY = 3,
  kMaxBlockZ = 4,
  kMaxGridX = 5,
  kMaxGridY = 6,
  kMaxGridZ = 7,
  kSharedPerBlock = 8,
  kWarpSize = 10,
  kRegistersPerBlock = 12,
  kClockKhz = 13,
  kMultiprocessors = 16,
  kIntegrated = 18,
  kMemoryClockKhz = 36,
  kMemoryBusBits = 37,
  kL2Bytes = 38,
  kThreadsPerMultiprocessor = 39,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kSharedPerMultiprocessor = 81,
  kSharedPerBlockOptin = 97,
};

enum CUfunction_attribute : int {
  kFunctionMaxThreads = 0,
  kFunctionShared = 1,       // static, in bytes
  kFunctionRegisters = 4,    // of a thread
  kFunctionMaxDynamic = 8,   // what a launch may ask for, in bytes
};

constexpr unsigned kNonBlocking = 1;      // CU_STREAM_NON_BLOCKING: it does not wait for the legacy stream
constexpr unsigned kEventDefault = 0;     // it takes times
constexpr int kCaptureRelaxed = 2;        // CU_STREAM_CAPTURE_MODE_RELAXED: other calls of the process go on

// F(name, arguments). All return a CUresult.
#define EDGE_CU_FUNCTIONS(F)                                                                             \
  F(cuInit, (unsigned flags))                                                                            \
  F(cuDriverGetVersion, (int* version))                                                                  \
  F(cuGetErrorName, (CUresult code, const char** name))                                                  \
  F(cuDeviceGetCount, (int* count))                                                                      \
  F(cuDeviceGet, (CUdevice* device, int number))                                                         \
  F(cuDeviceGetName, (char* name, int size, CUdevice device))                                            \
  F(cuDeviceGetAttribute, (int* value, CUdevice_attribute attribute, CUdevice device))                   \
  F(cuDeviceTotalMem_v2, (size_t* bytes, CUdevice device))                                               \
  F(cuDeviceGetPCIBusId, (char* id, int size, CUdevice device))                                          \
  F(cuDevicePrimaryCtxRetain, (CUcontext* context, CUdevice device))                                     \
  F(cuCtxSetCurrent, (CUcontext context))                                                                \
  F(cuMemGetInfo_v2, (size_t* free, size_t* total))                                                      \
  F(cuMemAlloc_v2, (CUdeviceptr* memory, size_t bytes))                                                  \
  F(cuMemFree_v2, (CUdeviceptr memory))                                                                  \
  F(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void* from, size_t bytes, CUstream stream))             \
  F(cuMemcpyDtoHAsync_v2, (void* to, CUdeviceptr from, size_t bytes, CUstream stream))                   \
  F(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))             \
  F(cuModuleLoadData, (CUmodule* module, const void* image))                                             \
  F(cuModuleUnload, (CUmodule module))                                                                   \
  F(cuModuleGetFunction, (CUfunction* function, CUmodule module, const char* name))                      \
  F(cuFuncGetAttribute, (int* value, CUfunction_attribute attribute, CUfunction function))               \
  F(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value))                \
  F(cuLaunchKernel,                                                                                      \
    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,           \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** arguments,       \
     void** extra))                                                                                      \
  F(cuStreamCreate, (CUstream* stream, unsigned flags))                                                  \
  F(cuStreamDestroy_v2, (CUstream stream))                                                               \
  F(cuStreamSynchronize, (CUstream stream))                                                              \
  F(cuStreamBeginCapture_v2, (CUstream stream, int mode))                                                \
  F(cuStreamEndCapture, (CUstream stream, CUgraph* graph))                                               \
  F(cuEventCreate, (CUevent* event, unsigned flags))                                                     \
  F(cuEventDestroy_v2, (CUevent event))                                                                  \
  F(cuEventRecord, (CUevent event, CUstream stream))                                                     \
  F(cuEventSynchronize, (CUevent event))                                                                 \
  F(cuEventElapsedTime, (float* ms, CUevent begin, CUevent end))                                         \
  F(cuGraphInstantiateWithFlags, (CUgraphExec* exec, CUgraph graph, unsigned long long flags))           \
  F(cuGraphLaunch, (CUgraphExec exec, CUstream stream))                                                  \
  F(cuGraphExecDestroy, (CUgraphExec exec))                                                              \
  F(cuGraphDestroy, (CUgraph graph))

}  // namespace edge::cuda
