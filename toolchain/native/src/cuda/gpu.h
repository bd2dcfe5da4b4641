// What a GPU computes with: its primary context, a stream, memory.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "cuda/devices.h"
#include "workspaces.h"

namespace edge::cuda {

// Causes of errors (cause.h); toolchain/devices/table.py reads them.
constexpr const char* kNoMemory = "out-of-memory";
constexpr const char* kFault = "kernel-fault";
constexpr const char* kTooManyRegisters = "registers";
constexpr const char* kTooMuchShared = "shared-memory";
constexpr const char* kTooLargeGroup = "work-group";

// Throws TVM's RuntimeError: these errors cross TVM's code, and sessions.
[[noreturn]] void Fail(const std::string& words, const char* cause = nullptr);

// "4 MiB", rounded up.
std::string Mib(uint64_t bytes);

// Made when the device is first used, never by whoever forks, and never deleted.
class Gpu {
 public:
  explicit Gpu(int number, const CuDevice& device);

  void* Allocate(size_t bytes);
  // Waits first: a kernel that was begun may use it.
  void Free(void* memory) noexcept;
  void Write(const void* from, void* to, size_t bytes);
  void Read(const void* from, void* to, size_t bytes);
  void Copy(const void* from, void* to, size_t bytes);
  // Until all that was begun is done.
  void Wait();

  // Makes the context the calling thread's. Throws if it is dead.
  void Enter();
  // As Enter, but returns false instead.
  bool TryEnter() noexcept;
  // Throws unless it succeeded, with the call, the code's name, what it was about and the device. A fault of a
  // kernel is told by whatever is called next; nothing can be done in its context afterwards.
  void Check(const char* call, CUresult code, const std::string& about = "");

  // For messages: what was begun last.
  void Begun(const std::string& what);

  const int number;
  const CuDevice& device;
  const Driver& cu;
  CUstream stream = nullptr;  // the one that works in order
  Workspaces workspaces;

 private:
  CUcontext context_ = nullptr;
  std::mutex mutex_;
  std::string begun_;
  std::string dead_;  // why, if it is
  std::atomic<bool> is_dead_ = false;
};

// Throws where there is no such device.
Gpu& GpuOf(int number);

}  // namespace edge::cuda
