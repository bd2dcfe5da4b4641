#include "handed.h"

#include <dlpack/dlpack.h>

#include <algorithm>

namespace edge {

void Handed::Object(uint64_t handle, int32_t type) {
  Held& held = objects_[handle];
  ++held.count;
  held.type = type;
}

void Handed::Tensor(uint64_t handle, int32_t type, Device device, uint64_t data, uint64_t bytes) {
  Object(handle, type);
  Held& held = objects_[handle];
  if (held.tensor) return;
  held.tensor = true;
  held.device = device;
  held.data = data;
  held.bytes = bytes;
  devices_[device].tensors.emplace(data, bytes);
}

void Handed::Memory(Device device, uint64_t data, uint64_t bytes) {
  devices_[device].memory[data] = bytes;
}

bool Handed::DropObject(uint64_t handle) {
  const auto found = objects_.find(handle);
  if (found == objects_.end()) return false;
  const Held& held = found->second;
  if (found->second.count-- > 1) return true;
  if (held.tensor) {
    auto& tensors = devices_[held.device].tensors;
    const auto [begin, end] = tensors.equal_range(held.data);
    tensors.erase(std::find_if(begin, end, [&](const auto& at) { return at.second == held.bytes; }));
  }
  objects_.erase(found);
  return true;
}

bool Handed::DropMemory(Device device, uint64_t data) {
  const auto found = devices_.find(device);
  return found != devices_.end() && found->second.memory.erase(data) != 0;
}

bool Handed::IsObject(uint64_t handle, int32_t type) const {
  const auto found = objects_.find(handle);
  return found != objects_.end() && found->second.type == type;
}

bool Handed::IsMemory(Device device, uint64_t data, uint64_t offset, uint64_t bytes) const {
  const auto found = devices_.find(device);
  uint64_t begin, end;
  if (found == devices_.end() || __builtin_add_overflow(data, offset, &begin) ||
      __builtin_add_overflow(begin, bytes, &end)) {
    return false;
  }
  const auto& [memory, tensors] = found->second;
  if (device.type != kDLCPU) {
    // A handle, whose number says nothing of the numbers behind it: others may lie among them.
    const auto piece = memory.find(data);
    if (piece != memory.end() && end - data <= piece->second) return true;
    const auto [first, last] = tensors.equal_range(data);
    return std::any_of(first, last, [&](const auto& at) { return end - data <= at.second; });
  }
  const auto within = [&](const auto& at) { return at.first <= begin && end - at.first <= at.second; };
  // The pieces of memory never overlap; tensors may, and there are few.
  const auto after = memory.upper_bound(begin);
  if (after != memory.begin() && within(*std::prev(after))) return true;
  return std::any_of(tensors.begin(), tensors.upper_bound(begin), within);
}

bool Handed::IsPointer(uint64_t value) const {
  return pointers_.count(value) != 0 || IsObject(value) ||
         std::any_of(devices_.begin(), devices_.end(), [&](const auto& device) {
           return device.second.memory.count(value) != 0 || device.second.tensors.count(value) != 0;
         });
}

}  // namespace edge
