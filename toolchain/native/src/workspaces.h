// Memory of a device that functions take for themselves and give back before they return, such as the transformed
// image between the kernels of a convolution: kept, since to allocate is slow, and slower the larger it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <unordered_map>

namespace edge {

class Workspaces {
 public:
  // Of memory that has so many bytes in all.
  Workspaces(std::function<void*(size_t)> allocate, std::function<void(void*)> free, uint64_t memory_bytes);

  // What is given back may be handed out again while kernels that were begun with it still wait: a device's
  // queue works in order. Throws what `allocate` throws.
  void* Take(size_t bytes);
  void Give(void* piece);
  // Gives what is kept back to the driver. Returns whether there was anything.
  bool Drop();

 private:
  void* Remove(std::multimap<size_t, void*>::iterator piece);

  const std::function<void*(size_t)> allocate_;
  const std::function<void(void*)> free_;
  const uint64_t most_;
  std::mutex mutex_;  // never held while the driver is called
  std::multimap<size_t, void*> spare_;       // by bytes
  std::unordered_map<void*, size_t> taken_;  // and its bytes
  uint64_t kept_ = 0;  // bytes of what is spare
};

}  // namespace edge
