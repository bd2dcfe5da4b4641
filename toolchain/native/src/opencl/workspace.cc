#include "opencl/workspace.h"

#include <map>
#include <memory>
#include <mutex>

#include "opencl/queue.h"

namespace edge::opencl {

Workspaces& WorkspacesOf(int device) {
  // Never deleted, as queues are.
  static auto* mutex = new std::mutex;
  static auto* all = new std::map<int, std::unique_ptr<Workspaces>>;
  const uint64_t most = QueueOf(device).device.global_bytes;
  const std::lock_guard lock(*mutex);
  std::unique_ptr<Workspaces>& of = (*all)[device];
  if (of == nullptr) {
    of = std::make_unique<Workspaces>([device](size_t bytes) { return Allocate(device, bytes); }, Free, most);
  }
  return *of;
}

}  // namespace edge::opencl
