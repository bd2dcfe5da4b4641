#include "workspaces.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace edge {
namespace {

constexpr size_t kPage = 4096;
// Kept at most, all together and as a part of the device's memory: VGG's largest pair has 60 MiB.
constexpr uint64_t kMostKept = uint64_t{256} << 20;
constexpr uint64_t kMostShare = 8;

}  // namespace

Workspaces::Workspaces(std::function<void*(size_t)> allocate, std::function<void(void*)> free, uint64_t memory_bytes)
    : allocate_(std::move(allocate)), free_(std::move(free)), most_(std::min(kMostKept, memory_bytes / kMostShare)) {}

void* Workspaces::Remove(std::multimap<size_t, void*>::iterator piece) {
  void* found = piece->second;
  kept_ -= piece->first;
  spare_.erase(piece);
  return found;
}

void* Workspaces::Take(size_t bytes) {
  if (bytes > SIZE_MAX - kPage) TVM_FFI_THROW(RuntimeError) << "a workspace of " << bytes << " bytes";
  const size_t wanted = (std::max<size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  void* small = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto fits = spare_.lower_bound(wanted);
    if (fits != spare_.end()) {
      const size_t size = fits->first;
      void* piece = Remove(fits);
      taken_[piece] = size;
      return piece;
    }
    // A larger one takes the place of the largest: what is kept does not grow with the number of sizes.
    if (!spare_.empty()) small = Remove(std::prev(spare_.end()));
  }
  if (small != nullptr) free_(small);
  void* piece = allocate_(wanted);
  const std::lock_guard lock(mutex_);
  taken_[piece] = wanted;
  return piece;
}

void Workspaces::Give(void* piece) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = taken_.find(piece);
    if (found == taken_.end()) return;
    const size_t bytes = found->second;
    taken_.erase(found);
    if (kept_ + bytes <= most_) {
      spare_.emplace(bytes, piece);
      kept_ += bytes;
      return;
    }
  }
  free_(piece);
}

bool Workspaces::Drop() {
  std::multimap<size_t, void*> spare;
  {
    const std::lock_guard lock(mutex_);
    spare.swap(spare_);
    kept_ = 0;
  }
  for (const auto& [bytes, piece] : spare) free_(piece);
  return !spare.empty();
}

}  // namespace edge
