// Device memory: a range of addresses of its own, which the host cannot access.
#pragma once
#include <cstddef>
#include <cstdint>

#include "driver_api.h"

namespace emulated::memory {

// Allocates, aligned to a page, filled with 0xFF: every float and half in it is NaN. Addresses of freed memory are
// not given out again until all others were.
CUresult Allocate(std::size_t bytes, const void* owner, CUdeviceptr* at);
// Frees what begins at `at`; afterwards its addresses are in nobody's memory.
CUresult Free(CUdeviceptr at);
// Whether [at, at + bytes) lies in one allocation of `owner`.
bool Contains(std::uintptr_t at, std::size_t bytes, const void* owner);
// Whether an address is of device memory, allocated or not.
bool InArena(std::uintptr_t at);
// The allocation that an address lies in; false if there is none.
bool Find(std::uintptr_t at, CUdeviceptr* begin, std::size_t* bytes);
std::size_t Total();
std::size_t Used();

// While one exists, this process can access device memory.
class Access {
 public:
  Access();
  ~Access();
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;
};

}  // namespace emulated::memory
