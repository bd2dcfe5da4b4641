#include "opencl/workspace.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "opencl/queue.h"

namespace edge::opencl {
namespace {

constexpr size_t kPage = 4096;
// Kept at most, all together and as a part of the device's memory: VGG's largest pair has 60 MiB.
constexpr uint64_t kMostKept = uint64_t{256} << 20;
constexpr uint64_t kMostShare = 8;

struct Kept {
  std::multimap<size_t, void*> spare;  // by bytes
  uint64_t bytes = 0;  // of what is spare
};

std::mutex& Mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

// Never deleted, as queues are; the caller holds the mutex.
Kept& KeptOf(int device) {
  static auto* kept = new std::map<int, Kept>;
  return (*kept)[device];
}

void* Remove(Kept* kept, std::multimap<size_t, void*>::iterator piece) {
  void* handle = piece->second;
  kept->bytes -= piece->first;
  kept->spare.erase(piece);
  return handle;
}

}  // namespace

void* TakeWorkspace(int device, size_t bytes) {
  if (bytes > SIZE_MAX - kPage) Fail("a workspace of " + std::to_string(bytes) + " bytes");
  const size_t wanted = (std::max<size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  void* small = nullptr;
  {
    std::lock_guard<std::mutex> lock(Mutex());
    Kept& kept = KeptOf(device);
    const auto fits = kept.spare.lower_bound(wanted);
    if (fits != kept.spare.end()) return Remove(&kept, fits);
    // A larger one takes the place of the largest: what is kept does not grow with the number of sizes.
    if (!kept.spare.empty()) small = Remove(&kept, std::prev(kept.spare.end()));
  }
  if (small != nullptr) Free(small);
  return Allocate(device, wanted);
}

void GiveWorkspace(int device, void* handle) {
  const uint64_t most = std::min(kMostKept, QueueOf(device).device.global_bytes / kMostShare);
  const size_t bytes = MemoryOf(handle, device).bytes;
  {
    std::lock_guard<std::mutex> lock(Mutex());
    Kept& kept = KeptOf(device);
    if (kept.bytes + bytes <= most) {
      kept.spare.emplace(bytes, handle);
      kept.bytes += bytes;
      return;
    }
  }
  Free(handle);
}

bool DropWorkspaces(int device) {
  std::multimap<size_t, void*> spare;
  {
    std::lock_guard<std::mutex> lock(Mutex());
    Kept& kept = KeptOf(device);
    spare.swap(kept.spare);
    kept.bytes = 0;
  }
  for (const auto& [bytes, handle] : spare) Free(handle);
  return !spare.empty();
}

}  // namespace edge::opencl
