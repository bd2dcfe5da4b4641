#include "memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>

namespace emulated::memory {
namespace {

// At least: each allocation has pages of its own. One behind it is nobody's, and one before all of them: other memory
// that a kernel may use, such as a thread's stack, can end where the arena begins.
constexpr std::size_t kPage = 4096;
#ifdef __x86_64__
constexpr std::size_t kReserved[] = {std::size_t{1} << 40, std::size_t{1} << 36, std::size_t{1} << 33};
#else  // mostly run by qemu, which keeps a record of each page and goes through them one by one
constexpr std::size_t kReserved[] = {std::size_t{1} << 32};
#endif
constexpr std::size_t kDefaultTotal = std::size_t{16} << 30;

struct Allocation {
  std::size_t bytes;
  const void* owner;
};

struct Arena {
  std::uintptr_t begin = 0, end = 0;
  std::uintptr_t next = 0;  // nothing was ever allocated from here on
  std::map<std::uintptr_t, Allocation> allocations;
  std::size_t used = 0;
  // The allocation that was looked up last; kernels stay in one for many accesses.
  std::uintptr_t last_begin[4] = {}, last_end[4] = {};
  const void* last_owner[4] = {};
  unsigned last = 0;
};

std::size_t Pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

Arena& TheArena() {
  static Arena& arena = *[] {
    auto* made = new Arena;
    for (const std::size_t size : kReserved) {
      void* at = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (at == MAP_FAILED) continue;  // a limit of this process
      made->begin = reinterpret_cast<std::uintptr_t>(at);
      made->next = made->begin + kPage;
      made->end = made->begin + size;
      break;
    }
    return made;
  }();
  return arena;
}

// Finds addresses for an allocation and the page behind it: behind all others, else in the first gap.
std::uintptr_t Place(Arena& arena, std::size_t size) {
  if (arena.end - arena.next >= size) return arena.next;
  std::uintptr_t at = arena.begin + kPage;
  for (const auto& [begin, allocation] : arena.allocations) {
    if (begin - at >= size) return at;
    at = begin + Pages(allocation.bytes) + kPage;
  }
  return arena.end - at >= size ? at : 0;
}

}  // namespace

std::size_t Total() {
  static const std::size_t total = [] {
    const char* words = std::getenv("EDGE_CUDA_MEMORY");
    return words ? std::strtoull(words, nullptr, 10) : kDefaultTotal;
  }();
  return total;
}

std::size_t Used() { return TheArena().used; }

CUresult Allocate(std::size_t bytes, const void* owner, CUdeviceptr* at) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Arena& arena = TheArena();
  if (arena.used > Total() || bytes > Total() - arena.used) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::uintptr_t place = Place(arena, Pages(bytes) + kPage);
  if (place == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  {
    Access access;
    if (place == arena.next) {
      mprotect(reinterpret_cast<void*>(place), Pages(bytes) + kPage, PROT_READ | PROT_WRITE);
      arena.next += Pages(bytes) + kPage;
    }
    std::memset(reinterpret_cast<void*>(place), 0xFF, bytes);
  }
  arena.allocations[place] = {bytes, owner};
  arena.used += bytes;
  *at = place;
  return CUDA_SUCCESS;
}

CUresult Free(CUdeviceptr at) {
  Arena& arena = TheArena();
  const auto found = arena.allocations.find(at);
  if (found == arena.allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  madvise(reinterpret_cast<void*>(found->first), Pages(found->second.bytes), MADV_DONTNEED);
  arena.used -= found->second.bytes;
  arena.allocations.erase(found);
  for (auto& end : arena.last_end) end = 0;
  return CUDA_SUCCESS;
}

bool InArena(std::uintptr_t at) { return at >= TheArena().begin && at < TheArena().end; }

bool Find(std::uintptr_t at, CUdeviceptr* begin, std::size_t* bytes) {
  const auto& allocations = TheArena().allocations;
  auto found = allocations.upper_bound(at);
  if (found == allocations.begin()) return false;
  --found;
  if (at - found->first >= found->second.bytes) return false;
  *begin = found->first;
  *bytes = found->second.bytes;
  return true;
}

bool Contains(std::uintptr_t at, std::size_t bytes, const void* owner) {
  Arena& arena = TheArena();
  if (at < arena.begin || at >= arena.end) return false;
  for (unsigned i = 0; i < 4; ++i) {
    if (at >= arena.last_begin[i] && at < arena.last_end[i]) {
      return arena.last_end[i] - at >= bytes && arena.last_owner[i] == owner;
    }
  }
  CUdeviceptr begin;
  std::size_t size;
  if (!Find(at, &begin, &size)) return false;
  const unsigned i = arena.last++ % 4;
  arena.last_begin[i] = begin;
  arena.last_end[i] = begin + size;
  arena.last_owner[i] = arena.allocations.at(begin).owner;
  return begin + size - at >= bytes && arena.last_owner[i] == owner;
}

// The driver has one lock, which whoever makes an `Access` holds.
static unsigned accesses = 0;

static void Protect(int protection) {
  Arena& arena = TheArena();
  const std::size_t bytes = arena.next - arena.begin;
  if (bytes) mprotect(reinterpret_cast<void*>(arena.begin), bytes, protection);
}

Access::Access() {
  if (accesses++ == 0) Protect(PROT_READ | PROT_WRITE);
}

Access::~Access() {
  if (--accesses == 0) Protect(PROT_NONE);
}

}  // namespace emulated::memory
