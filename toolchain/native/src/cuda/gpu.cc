#include "cuda/gpu.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <map>
#include <memory>

#include "cause.h"
#include "cuda/graph.h"
#include "text.h"

namespace edge::cuda {
namespace {

// After which the documentation says of a context that "the process must be terminated and relaunched".
constexpr CUresult kDeadly[] = {kEccUncorrectable, kIllegalAddress,     kLaunchTimeout,   kContextIsDestroyed,
                                kAssert,           kHardwareStackError, kIllegalInstruction, kMisalignedAddress,
                                kInvalidAddressSpace, kInvalidPc,       kLaunchFailed};

CUdeviceptr Address(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

// A copy or a wait in the middle of a capture would take place now, and not whenever the graph is launched.
void RefuseInCapture(const char* what) {
  if (CurrentCapture() != nullptr) Fail(Cat({"a ", what, " while a graph is captured; try --graph off"}));
}

}  // namespace

std::string Mib(uint64_t bytes) { return Cat({(bytes + (1 << 20) - 1) >> 20, " MiB"}); }

void Fail(const std::string& words, const char* cause) {
  if (cause != nullptr) ThrowFor(cause, "CUDA: " + words);
  TVM_FFI_THROW(RuntimeError) << "CUDA: " << words;
}

Gpu::Gpu(int which, const CuDevice& on)
    : number(which),
      device(on),
      cu(*device.driver),
      workspaces([this](size_t bytes) { return Allocate(bytes); }, [this](void* memory) { Free(memory); },
                 device.global_bytes) {
  Check("cuDevicePrimaryCtxRetain", cu.cuDevicePrimaryCtxRetain(&context_, device.id));
  Enter();
  Check("cuStreamCreate", cu.cuStreamCreate(&stream, kNonBlocking));
}

bool Gpu::TryEnter() noexcept {
  return !is_dead_ && cu.cuCtxSetCurrent(context_) == kSuccess;
}

void Gpu::Enter() {
  if (is_dead_) {
    const std::lock_guard lock(mutex_);
    Fail(Cat({"the GPU's context is dead since ", dead_, "; start a new session or process"}), kFault);
  }
  // Each time: the program around us may have made another context this thread's.
  Check("cuCtxSetCurrent", cu.cuCtxSetCurrent(context_));
}

void Gpu::Check(const char* call, CUresult code, const std::string& about) {
  if (code == kSuccess) return;
  std::string words = Cat({call, " says ", cu.ErrorName(code), about.empty() ? "" : ": ", about});
  if (std::count(std::begin(kDeadly), std::end(kDeadly), code) == 0) {
    Fail(Cat({words, "; ", Describe(device)}), code == kOutOfMemory ? kNoMemory : nullptr);
  }
  {
    const std::lock_guard lock(mutex_);
    if (!begun_.empty()) words += "; the last one begun is " + begun_;
    if (dead_.empty()) dead_ = words;
    is_dead_ = true;
  }
  Fail(Cat({words, "; ", Describe(device), "; nothing more can be computed in this process"}), kFault);
}

void Gpu::Begun(const std::string& what) {
  const std::lock_guard lock(mutex_);
  begun_ = what;
}

void* Gpu::Allocate(size_t bytes) {
  Enter();
  const size_t wanted = std::max<size_t>(bytes, 1);  // CUDA has no memory of no size
  CUdeviceptr memory = 0;
  CUresult code = cu.cuMemAlloc_v2(&memory, wanted);
  // What lies idle may be what is missing.
  if (code == kOutOfMemory && workspaces.Drop()) code = cu.cuMemAlloc_v2(&memory, wanted);
  if (code == kOutOfMemory) {
    size_t free = 0, total = device.global_bytes;
    cu.cuMemGetInfo_v2(&free, &total);
    Check("cuMemAlloc", code, Cat({Mib(wanted), " are not to be had: ", Mib(free), " of ", Mib(total), " are free"}));
  }
  Check("cuMemAlloc", code);
  return reinterpret_cast<void*>(memory);
}

void Gpu::Free(void* memory) noexcept {
  if (memory == nullptr || !TryEnter()) return;
  cu.cuStreamSynchronize(stream);  // what failed is told by who waits for a result
  cu.cuMemFree_v2(Address(memory));
}

void Gpu::Write(const void* from, void* to, size_t bytes) {
  if (bytes == 0) return;
  RefuseInCapture("copy to the GPU");
  Enter();
  Check("cuMemcpyHtoDAsync", cu.cuMemcpyHtoDAsync_v2(Address(to), from, bytes, stream));
  Wait();  // the caller may change what it gave
}

void Gpu::Read(const void* from, void* to, size_t bytes) {
  if (bytes == 0) return;
  RefuseInCapture("copy from the GPU");
  Enter();
  Check("cuMemcpyDtoHAsync", cu.cuMemcpyDtoHAsync_v2(to, Address(from), bytes, stream));
  Wait();
}

void Gpu::Copy(const void* from, void* to, size_t bytes) {
  if (bytes == 0) return;
  Enter();
  const Capture* capture = CurrentCapture();
  Check("cuMemcpyDtoDAsync",
        cu.cuMemcpyDtoDAsync_v2(Address(to), Address(from), bytes, capture == nullptr ? stream : capture->stream()));
}

void Gpu::Wait() {
  RefuseInCapture("wait");
  Enter();
  Check("cuStreamSynchronize", cu.cuStreamSynchronize(stream), "what was begun has failed");
}

Gpu& GpuOf(int number) {
  static auto* mutex = new std::mutex;
  static auto* gpus = new std::map<int, std::unique_ptr<Gpu>>;
  const std::lock_guard lock(*mutex);
  std::unique_ptr<Gpu>& gpu = (*gpus)[number];
  if (gpu == nullptr) {
    std::string problem;
    const std::vector<CuDevice>& devices = Devices(&problem);
    if (number < 0 || number >= static_cast<int>(devices.size())) {
      Fail(Cat({"there is no GPU ", number, " here; there are ", devices.size(), problem.empty() ? "" : ": ", problem}));
    }
    gpu = std::make_unique<Gpu>(number, devices[number]);
  }
  return *gpu;
}

}  // namespace edge::cuda
