// What of OpenCL's C interface is called here: the functions, types and numbers of version 1.1, as its
// specification has them. No header of a driver is needed, and none is asked for at compile time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace edge::opencl {

using cl_platform = struct cl_platform_opaque*;
using cl_device = struct cl_device_opaque*;
using cl_context = struct cl_context_opaque*;
using cl_queue = struct cl_queue_opaque*;
using cl_mem = struct cl_mem_opaque*;
using cl_program = struct cl_program_opaque*;
using cl_kernel = struct cl_kernel_opaque*;
using cl_event = struct cl_event_opaque*;
using cl_int = int32_t;
using cl_uint = uint32_t;
using cl_bits = uint64_t;
using ContextNotify = void (*)(const char* words, const void* data, size_t bytes, void* user);
using BuildNotify = void (*)(cl_program program, void* user);

constexpr cl_int kSuccess = 0, kNoMemory = -4, kNoResources = -5, kWrongGroup = -54;

constexpr cl_bits kTypeCpu = 1 << 1, kTypeGpu = 1 << 2, kTypeAccelerator = 1 << 3, kTypeAll = 0xffffffff;
constexpr cl_bits kReadWrite = 1;

enum PlatformInfo : cl_uint { kPlatformVersion = 0x0901, kPlatformName = 0x0902 };

enum DeviceInfo : cl_uint {
  kDeviceType = 0x1000,
  kComputeUnits = 0x1002,
  kWorkGroupSize = 0x1004,
  kWorkItemSizes = 0x1005,
  kClockMhz = 0x100c,
  kMostAllocated = 0x1010,
  kCacheLineBytes = 0x101d,
  kCacheBytes = 0x101e,
  kGlobalBytes = 0x101f,
  kLocalBytes = 0x1023,
  kCompiler = 0x1028,
  kName = 0x102b,
  kVendor = 0x102c,
  kDriverVersion = 0x102d,
  kVersion = 0x102f,
  kExtensions = 0x1030,
  kPreferredFloat = 0x100a,
  kPreferredHalf = 0x1034,
};

enum ProgramInfo : cl_uint { kBinarySizes = 0x1165, kBinaries = 0x1166 };
enum BuildInfo : cl_uint { kBuildLog = 0x1183 };
enum KernelInfo : cl_uint { kKernelWorkGroup = 0x11b0, kKernelLocal = 0x11b2 };

// F(result, name, arguments)
#define EDGE_CL_FUNCTIONS(F)                                                                            \
  F(cl_int, clGetPlatformIDs, (cl_uint, cl_platform*, cl_uint*))                                        \
  F(cl_int, clGetPlatformInfo, (cl_platform, cl_uint, size_t, void*, size_t*))                          \
  F(cl_int, clGetDeviceIDs, (cl_platform, cl_bits, cl_uint, cl_device*, cl_uint*))                      \
  F(cl_int, clGetDeviceInfo, (cl_device, cl_uint, size_t, void*, size_t*))                              \
  F(cl_context, clCreateContext,                                                                        \
    (const intptr_t*, cl_uint, const cl_device*, ContextNotify, void*, cl_int*))                        \
  F(cl_int, clReleaseContext, (cl_context))                                                             \
  F(cl_queue, clCreateCommandQueue, (cl_context, cl_device, cl_bits, cl_int*))                          \
  F(cl_mem, clCreateBuffer, (cl_context, cl_bits, size_t, void*, cl_int*))                              \
  F(cl_int, clReleaseMemObject, (cl_mem))                                                               \
  F(cl_int, clEnqueueReadBuffer,                                                                        \
    (cl_queue, cl_mem, cl_uint, size_t, size_t, void*, cl_uint, const cl_event*, cl_event*))            \
  F(cl_int, clEnqueueWriteBuffer,                                                                       \
    (cl_queue, cl_mem, cl_uint, size_t, size_t, const void*, cl_uint, const cl_event*, cl_event*))      \
  F(cl_int, clEnqueueCopyBuffer,                                                                        \
    (cl_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event*, cl_event*))            \
  F(cl_int, clEnqueueNDRangeKernel,                                                                     \
    (cl_queue, cl_kernel, cl_uint, const size_t*, const size_t*, const size_t*, cl_uint,                \
     const cl_event*, cl_event*))                                                                       \
  F(cl_int, clFlush, (cl_queue))                                                                        \
  F(cl_int, clFinish, (cl_queue))                                                                       \
  F(cl_program, clCreateProgramWithSource, (cl_context, cl_uint, const char**, const size_t*, cl_int*)) \
  F(cl_program, clCreateProgramWithBinary,                                                              \
    (cl_context, cl_uint, const cl_device*, const size_t*, const unsigned char**, cl_int*, cl_int*))    \
  F(cl_int, clBuildProgram,                                                                             \
    (cl_program, cl_uint, const cl_device*, const char*, BuildNotify, void*))                           \
  F(cl_int, clGetProgramInfo, (cl_program, cl_uint, size_t, void*, size_t*))                            \
  F(cl_int, clGetProgramBuildInfo, (cl_program, cl_device, cl_uint, size_t, void*, size_t*))            \
  F(cl_int, clReleaseProgram, (cl_program))                                                             \
  F(cl_kernel, clCreateKernel, (cl_program, const char*, cl_int*))                                      \
  F(cl_int, clReleaseKernel, (cl_kernel))                                                               \
  F(cl_int, clGetKernelWorkGroupInfo, (cl_kernel, cl_device, cl_uint, size_t, void*, size_t*))          \
  F(cl_int, clSetKernelArg, (cl_kernel, cl_uint, size_t, const void*))

}  // namespace edge::opencl
