// What an OpenCL device computes with: a context, a queue, memory.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "opencl/devices.h"

namespace edge::opencl {

// "4 MiB", rounded up.
std::string Mib(uint64_t bytes);
// Causes of errors (cause.h); toolchain/devices/table.py reads them.
constexpr const char* kDoesNotBuild = "build";
constexpr const char* kTooManyRegisters = "registers";
constexpr const char* kTooLargeGroup = "work-group";

// Throws TVM's RuntimeError: these errors cross TVM's code, and sessions.
[[noreturn]] void Fail(const std::string& words, const char* cause = nullptr);
// With the call, the name of its code, what it was about, and the device.
[[noreturn]] void FailCall(const char* call, cl_int code, const std::string& about, const ClDevice& device,
                           const char* cause = nullptr);

// A device's context and its one queue, which works in order. Made when the device is first used, never
// by whoever forks, and never deleted.
struct Queue {
  Queue(int number, const ClDevice& device);

  int number;
  const ClDevice& device;
  const Driver& cl;
  cl_context context;
  cl_queue queue;
  std::mutex launching;  // a kernel's arguments belong to the kernel: set and begun under it
  // For errors that come later: the name of the kernel begun last, and what they say of it.
  void Begun(const std::string& name);
  std::string LastBegun();
  std::atomic<unsigned> since_wait = 0;  // how many were begun since somebody waited for them

  // Memory that kernels were given lately, by its handle: found without the lock that all memory has.
  struct Recent {
    const void* handle = nullptr;
    uint64_t freed = 0;
    cl_mem object = nullptr;
  };
  Recent recent[64];

 private:
  std::mutex naming_;  // others read the name while a kernel is launched
  std::string begun_;
};

// Throws where there is no such device.
Queue& QueueOf(int number);

// A piece of a device's memory. Its handle is what TVM calls the address of a tensor's data.
struct Memory {
  cl_mem object;
  size_t bytes;
  int device;
};

void* Allocate(int device, size_t bytes);
void Free(void* handle);
// Throws where it is no handle of memory of the device: a client may say any, and a program may have
// been compiled for another device.
Memory MemoryOf(const void* handle, int device);
// Of memory that a kernel is given; the caller holds `queue.launching`.
cl_mem ObjectOf(Queue& queue, const void* handle);
// How many pieces were freed: while it stays the same, a handle means what it meant.
uint64_t FreedCount();

void Write(Queue& queue, const void* from, const void* handle, size_t offset, size_t bytes);
void Read(Queue& queue, const void* handle, size_t offset, void* to, size_t bytes);
void Copy(Queue& queue, const void* from, size_t from_offset, const void* to, size_t to_offset, size_t bytes);
// Until all that was begun is done.
void Finish(Queue& queue);

}  // namespace edge::opencl
