// Device memory, page-locked host memory, copies.
#include <cstdlib>
#include <cstring>
#include <unordered_set>

#include "api.h"
#include "call.h"
#include "memory.h"
#include "stream.h"

namespace emulated {
namespace {

// Whether [at, at + bytes) can be copied from or to.
CUresult Check(CUdeviceptr at, std::size_t bytes) {
  return bytes == 0 || memory::Contains(at, bytes, CurrentContext()) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

struct Copy {
  CUdeviceptr to, from;
  std::size_t bytes;
  bool device_to, device_from;
  const void* owner;

  CUresult operator()() const {
    if (bytes == 0) return CUDA_SUCCESS;
    // Checked again: it may have been freed since.
    if ((device_to && !memory::Contains(to, bytes, owner)) || (device_from && !memory::Contains(from, bytes, owner))) {
      Say("a copy's device memory was freed before it was done");
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    const memory::Access access;
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    return CUDA_SUCCESS;
  }
};

// How the three kinds of copies are done, at once or in a stream.
CUresult Enter(const char* name, Copy copy, bool waits, CUstream handle = nullptr) {
  return Do(name, Needs::kContext, {{"to", copy.to}, {"from", copy.from}, {"bytes", copy.bytes},
                                    {"stream", static_cast<const void*>(handle)}}, [&] {
    copy.owner = CurrentContext();
    CUresult result = copy.device_to ? Check(copy.to, copy.bytes) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS && copy.device_from) result = Check(copy.from, copy.bytes);
    if (result != CUDA_SUCCESS) return result;
    Stream* stream = StreamOf(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (waits) result = Unsafe();
    if (result == CUDA_SUCCESS) result = Enqueue(stream, copy);
    if (result != CUDA_SUCCESS || !waits) return result;
    return Finish(stream, stream->enqueued);
  });
}

CUdeviceptr Number(const void* at) { return reinterpret_cast<CUdeviceptr>(at); }

struct Fill {
  CUdeviceptr to;
  std::size_t count, bytes;  // of an element
  unsigned value;
  const void* owner;

  CUresult operator()() const {
    if (!memory::Contains(to, count * bytes, owner)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    const memory::Access access;
    for (std::size_t i = 0; i < count; ++i) std::memcpy(reinterpret_cast<char*>(to) + i * bytes, &value, bytes);
    return CUDA_SUCCESS;
  }
};

CUresult Enter(const char* name, Fill fill, bool waits, CUstream handle = nullptr) {
  return Do(name, Needs::kContext, {{"to", fill.to}, {"count", fill.count}, {"value", fill.value}}, [&] {
    fill.owner = CurrentContext();
    CUresult result = Check(fill.to, fill.count * fill.bytes);
    if (result == CUDA_SUCCESS && fill.to % fill.bytes != 0) result = CUDA_ERROR_INVALID_VALUE;
    Stream* stream = StreamOf(handle);
    if (stream == nullptr) result = CUDA_ERROR_INVALID_HANDLE;
    if (result != CUDA_SUCCESS || fill.count == 0) return result;
    if (waits) result = Unsafe();
    if (result == CUDA_SUCCESS) result = Enqueue(stream, fill);
    if (result != CUDA_SUCCESS || !waits) return result;
    return Finish(stream, stream->enqueued);
  });
}

CUresult AllocateHost(void** at, std::size_t bytes) {
  if (at == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = Unsafe(); result != CUDA_SUCCESS) return result;
  *at = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (*at == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  All<void>().Add(*at);
  return CUDA_SUCCESS;
}

}  // namespace

EMULATED_API CUresult cuMemAlloc_v2(CUdeviceptr* at, std::size_t bytes) {
  return Do("cuMemAlloc_v2", Needs::kContext, {{"bytes", bytes}}, [&](Call& call) {
    if (at == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = Unsafe(); result != CUDA_SUCCESS) return result;
    const CUresult result = memory::Allocate(bytes, CurrentContext(), at);
    if (result == CUDA_SUCCESS) call.Tell({"at", *at});
    return result;
  });
}

EMULATED_API CUresult cuMemFree_v2(CUdeviceptr at) {
  return Do("cuMemFree_v2", Needs::kContext, {{"at", at}}, [&] {
    if (at == 0) return CUDA_SUCCESS;
    if (const CUresult result = Unsafe(); result != CUDA_SUCCESS) return result;
    if (const CUresult result = FinishAll(CurrentContext()); result != CUDA_SUCCESS) return result;
    return memory::Free(at);
  });
}

EMULATED_API CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return Do("cuMemGetInfo_v2", Needs::kContext, {}, [&] {
    *total = memory::Total();
    *free = *total - memory::Used();
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuMemGetAddressRange_v2(CUdeviceptr* begin, std::size_t* bytes, CUdeviceptr at) {
  return Do("cuMemGetAddressRange_v2", Needs::kContext, {{"at", at}}, [&] {
    CUdeviceptr found;
    std::size_t size;
    if (!memory::Find(at, &found, &size)) return CUDA_ERROR_NOT_FOUND;
    if (begin) *begin = found;
    if (bytes) *bytes = size;
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuMemAllocHost_v2(void** at, std::size_t bytes) {
  return Do("cuMemAllocHost_v2", Needs::kContext, {{"bytes", bytes}}, [&] { return AllocateHost(at, bytes); });
}

EMULATED_API CUresult cuMemHostAlloc(void** at, std::size_t bytes, unsigned flags) {
  return Do("cuMemHostAlloc", Needs::kContext, {{"bytes", bytes}, {"flags", flags}},
            [&] { return AllocateHost(at, bytes); });
}

EMULATED_API CUresult cuMemFreeHost(void* at) {
  return Do("cuMemFreeHost", Needs::kContext, {}, [&] {
    if (!All<void>().Remove(at)) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = FinishAll(CurrentContext()); result != CUDA_SUCCESS) return result;
    std::free(at);
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t bytes) {
  return Enter("cuMemcpyHtoD_v2", Copy{to, Number(from), bytes, true, false, nullptr}, true);
}
EMULATED_API CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t bytes) {
  return Enter("cuMemcpyDtoH_v2", Copy{Number(to), from, bytes, false, true, nullptr}, true);
}
EMULATED_API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return Enter("cuMemcpyDtoD_v2", Copy{to, from, bytes, true, true, nullptr}, true);
}
EMULATED_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return Enter("cuMemcpyHtoDAsync_v2", Copy{to, Number(from), bytes, true, false, nullptr}, false, stream);
}
EMULATED_API CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return Enter("cuMemcpyDtoHAsync_v2", Copy{Number(to), from, bytes, false, true, nullptr}, false, stream);
}
EMULATED_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return Enter("cuMemcpyDtoDAsync_v2", Copy{to, from, bytes, true, true, nullptr}, false, stream);
}
EMULATED_API CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, std::size_t count) {
  return Enter("cuMemsetD8_v2", Fill{to, count, 1, value, nullptr}, true);
}
EMULATED_API CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, std::size_t count) {
  return Enter("cuMemsetD32_v2", Fill{to, count, 4, value, nullptr}, true);
}
EMULATED_API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream) {
  return Enter("cuMemsetD8Async", Fill{to, count, 1, value, nullptr}, false, stream);
}
EMULATED_API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream) {
  return Enter("cuMemsetD32Async", Fill{to, count, 4, value, nullptr}, false, stream);
}

}  // namespace emulated
