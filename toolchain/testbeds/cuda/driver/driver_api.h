// The part of CUDA's driver API that the emulated driver has: types, codes and numbers of its binary interface.
// Source: NVIDIA's reference of the CUDA driver API, version 13.
#pragma once
#include <cstddef>
#include <cstdint>

using CUdevice = int;
using CUdeviceptr = unsigned long long;
namespace emulated {
struct Context;
struct Module;
struct Function;
struct Stream;
struct Event;
struct Graph;
struct GraphExec;
}  // namespace emulated
using CUcontext = emulated::Context*;
using CUmodule = emulated::Module*;
using CUfunction = emulated::Function*;
using CUstream = emulated::Stream*;
using CUevent = emulated::Event*;
using CUgraph = emulated::Graph*;
using CUgraphExec = emulated::GraphExec*;
struct CUuuid {
  char bytes[16];
};

#define EMULATED_RESULTS(ROW)                                                                         \
  ROW(SUCCESS, 0, "no error")                                                                         \
  ROW(ERROR_INVALID_VALUE, 1, "invalid argument")                                                     \
  ROW(ERROR_OUT_OF_MEMORY, 2, "out of memory")                                                        \
  ROW(ERROR_NOT_INITIALIZED, 3, "initialization error")                                               \
  ROW(ERROR_DEINITIALIZED, 4, "driver shutting down")                                                 \
  ROW(ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")                                     \
  ROW(ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                                            \
  ROW(ERROR_INVALID_IMAGE, 200, "device kernel image is invalid")                                     \
  ROW(ERROR_INVALID_CONTEXT, 201, "invalid device context")                                           \
  ROW(ERROR_NO_BINARY_FOR_GPU, 209, "no kernel image is available for execution on the device")       \
  ROW(ERROR_ECC_UNCORRECTABLE, 214, "uncorrectable ECC error encountered")                            \
  ROW(ERROR_INVALID_PTX, 218, "a PTX JIT compilation failed")                                         \
  ROW(ERROR_UNSUPPORTED_PTX_VERSION, 222, "the provided PTX was compiled with an unsupported toolchain.") \
  ROW(ERROR_INVALID_HANDLE, 400, "invalid resource handle")                                           \
  ROW(ERROR_ILLEGAL_STATE, 401, "the operation cannot be performed in the present state")             \
  ROW(ERROR_NOT_FOUND, 500, "named symbol not found")                                                 \
  ROW(ERROR_NOT_READY, 600, "device not ready")                                                       \
  ROW(ERROR_ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered")                         \
  ROW(ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "too many resources requested for launch")                  \
  ROW(ERROR_LAUNCH_TIMEOUT, 702, "the launch timed out and was terminated")                           \
  ROW(ERROR_CONTEXT_IS_DESTROYED, 709, "context is destroyed")                                        \
  ROW(ERROR_ASSERT, 710, "device-side assert triggered")                                              \
  ROW(ERROR_HARDWARE_STACK_ERROR, 714, "hardware stack error")                                        \
  ROW(ERROR_ILLEGAL_INSTRUCTION, 715, "an illegal instruction was encountered")                       \
  ROW(ERROR_MISALIGNED_ADDRESS, 716, "misaligned address")                                            \
  ROW(ERROR_INVALID_ADDRESS_SPACE, 717, "operation not supported on global/shared address space")     \
  ROW(ERROR_INVALID_PC, 718, "invalid program counter")                                               \
  ROW(ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")                                         \
  ROW(ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, 720, "too many blocks in cooperative launch")               \
  ROW(ERROR_NOT_PERMITTED, 800, "operation not permitted")                                            \
  ROW(ERROR_NOT_SUPPORTED, 801, "operation not supported")                                            \
  ROW(ERROR_SYSTEM_NOT_READY, 802, "system not yet initialized")                                      \
  ROW(ERROR_SYSTEM_DRIVER_MISMATCH, 803, "system has unsupported display driver / cuda driver combination") \
  ROW(ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, "operation not permitted when stream is capturing")      \
  ROW(ERROR_STREAM_CAPTURE_INVALIDATED, 901, "operation failed due to a previous error during capture") \
  ROW(ERROR_STREAM_CAPTURE_MERGE, 902, "operation would result in a merge of separate capture sequences") \
  ROW(ERROR_STREAM_CAPTURE_UNMATCHED, 903, "capture was not ended in the same stream as it began")    \
  ROW(ERROR_STREAM_CAPTURE_UNJOINED, 904, "capturing stream has unjoined work")                       \
  ROW(ERROR_STREAM_CAPTURE_ISOLATION, 905, "dependency created on uncaptured work in another stream") \
  ROW(ERROR_STREAM_CAPTURE_IMPLICIT, 906, "operation would make the legacy stream depend on a capturing blocking stream") \
  ROW(ERROR_CAPTURED_EVENT, 907, "operation not permitted on an event last recorded in a capturing stream") \
  ROW(ERROR_STREAM_CAPTURE_WRONG_THREAD, 908, "attempt to terminate a thread-local capture sequence from another thread") \
  ROW(ERROR_UNKNOWN, 999, "unknown error")

enum CUresult : int {
#define ROW(name, code, words) CUDA_##name = code,
  EMULATED_RESULTS(ROW)
#undef ROW
};

enum CUfunction_attribute : int {
  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,
  CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
  CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
  CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,
  CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
  CU_FUNC_ATTRIBUTE_CACHE_MODE_CA = 7,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
};

enum CUstreamCaptureStatus : int {
  CU_STREAM_CAPTURE_STATUS_NONE = 0,
  CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
  CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
};

enum CUstreamCaptureMode : int {
  CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2,
};

constexpr unsigned CU_STREAM_NON_BLOCKING = 1, CU_EVENT_DISABLE_TIMING = 2;
constexpr std::uintptr_t CU_STREAM_LEGACY = 1, CU_STREAM_PER_THREAD = 2;  // handles that are numbers
